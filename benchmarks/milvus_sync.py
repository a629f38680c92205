"""`ku index sync` to Milvus Lite beside bare upserts of the same vectors by pymilvus.

    python -m benchmarks.milvus_sync [--chunks 20000] [--write]

Both send the same rows in requests of the same size to a new collection with the same index, and
flush it. They take turns; the ratio is of medians. Seconds are those of the processor, that of the
server included, which is a thread of this process, so that other processes count little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pymilvus import DataType, MilvusClient

from benchmarks.record import target, told, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.encoders.base import Vectors
from ku_rag.scale import milvus_collection, milvus_index

CHUNKS_A_UNIT, ROUNDS = 10, 3
MOST = 1.2


def make_base(path: Path, chunks: int) -> Vectors:
    """Make a base of random vectors; return them, float32[chunks, dim]."""
    with KnowledgeBase.open(path, create=True) as base:
        made = np.random.default_rng(0).standard_normal((chunks, base.encoder.dim), np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        units = [
            Unit(f"u{n}", id=f"u{n}", texts=[f"Text {n} {i}." for i in range(CHUNKS_A_UNIT)])
            for n in range(chunks // CHUNKS_A_UNIT)
        ]
        base.add_many(units, vectors={"texts": made})
    return made


def bare(uri: str, vectors: Vectors) -> None:
    """Create a collection, upsert the vectors and flush."""
    client = MilvusClient(uri)
    schema = MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
    index = MilvusClient.prepare_index_params()
    index.add_index(field_name="vector", index_type="FLAT", metric_type="COSINE")
    client.create_collection("bare", schema=schema, index_params=index)
    step = milvus_collection.REQUEST_BYTES // vectors.itemsize // vectors.shape[1]
    for start in range(0, len(vectors), milvus_index.BATCH):
        end = min(start + milvus_index.BATCH, len(vectors))
        for at in range(start, end, step):
            rows = range(at, min(at + step, end))
            client.upsert("bare", [{"id": row, "vector": vectors[row]} for row in rows])
        client.flush("bare")
    client.close()


def measure(work: Path, chunks: int) -> dict[str, Any]:
    """Median seconds of both ways."""
    vectors = make_base(work / "kb", chunks)
    found: dict[str, list[float]] = {"sync": [], "bare": []}
    for number in range(ROUNDS):
        for way, seconds in found.items():
            uri = str(work / f"{way}{number}.db")
            MilvusClient(uri).close()  # starts the server
            settings = {"index_engine": "milvus", "index_uri": uri}
            with KnowledgeBase.open(work / "kb", **settings) as base:
                started = time.process_time()
                if way == "bare":
                    bare(uri, vectors)
                else:
                    assert base.sync_index()[1].upserted == chunks
                seconds.append(time.process_time() - started)
    return {way: round(statistics.median(seconds), 3) for way, seconds in found.items()}


def main() -> None:
    """Measure, print the ratio, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--write", action="store_true", help="write the result file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        seconds = measure(Path(work), given.chunks)
    ratio = seconds["sync"] / seconds["bare"]
    targets = [target("milvus", "ku index sync / bare upserts", ratio, MOST)]
    print(told(targets))
    figures = {"chunks": given.chunks, "load": os.getloadavg()[0], "seconds": seconds}
    if given.write:
        write_result(
            "milvus_sync", figures | {"targets": targets}, packages=("pymilvus", "milvus-lite")
        )


if __name__ == "__main__":
    main()
