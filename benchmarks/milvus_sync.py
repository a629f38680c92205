"""`ku index sync` to Milvus against bare upserts of the same vectors by pymilvus.

    python -m benchmarks.milvus_sync [--chunks 20000] [--uri http://localhost:19530] [--write]

Both send the same rows in requests of the same size to a new collection with the same index, flush
it, and search once, which waits until the collection is loaded. They alternate; the ratio is that
of the medians. Milvus Lite is a thread of this process and is measured in processor seconds, so
that other processes have little influence. With --uri the server at that address is measured as
well, in elapsed seconds.
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

from benchmarks.record import target, targets_table, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.encoders.base import Vectors
from ku_rag.scale import milvus_collection, milvus_index

CHUNKS_A_UNIT, ROUNDS = 10, 3
MOST = 1.2


def make_base(path: Path, chunks: int) -> Vectors:
    """Create a base with random vectors; return them, float32[chunks, dim]."""
    with KnowledgeBase.open(path, create=True) as base:
        vectors = np.random.default_rng(0).standard_normal((chunks, base.encoder.dim), np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        units = [
            Unit(f"u{n}", id=f"u{n}", texts=[f"Text {n} {i}." for i in range(CHUNKS_A_UNIT)])
            for n in range(chunks // CHUNKS_A_UNIT)
        ]
        base.add_many(units, vectors={"texts": vectors})
    return vectors


def upsert_vectors(uri: str, vectors: Vectors) -> None:
    """Create a collection, upsert the vectors, flush, and search."""
    client = MilvusClient(uri)
    client.drop_collection("bare")
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
    client.search("bare", [vectors[0]], limit=10)
    client.close()


def measure(work: Path, vectors: Vectors, server: str) -> dict[str, Any]:
    """Return median seconds of both ways, with the server at an address; "" is Milvus Lite."""
    clock = time.monotonic if server else time.process_time
    times: dict[str, list[float]] = {"sync": [], "bare": []}
    for number in range(ROUNDS):
        for way, seconds in times.items():
            uri = server or str(work / f"{way}{number}.db")
            MilvusClient(uri).close()  # starts Milvus Lite
            settings = {"index_engine": "milvus", "index_uri": uri}
            with KnowledgeBase.open(work / "kb", **settings) as base:
                started = clock()
                if way == "bare":
                    upsert_vectors(uri, vectors)
                else:
                    assert base.sync_index(rebuild=True)[1].upserted == len(vectors)
                    base.search(vector=vectors[0], k=10)
                seconds.append(clock() - started)
    return {way: round(statistics.median(seconds), 3) for way, seconds in times.items()}


def main() -> None:
    """Measure, print the ratio, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--uri", default="", help="of a Milvus server that is measured, too")
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    seconds, targets, versions = {}, [], {}
    with tempfile.TemporaryDirectory() as work:
        vectors = make_base(Path(work, "kb"), options.chunks)
        for name, uri in {"Milvus Lite": "", "Milvus server": options.uri}.items():
            if uri or name == "Milvus Lite":
                seconds[name] = medians = measure(Path(work), vectors, uri)
                quantity = f"ku index sync / bare upserts, {name}"
                targets.append(target("milvus", quantity, medians["sync"] / medians["bare"], MOST))
    if options.uri:
        client = MilvusClient(options.uri)
        client.drop_collection("bare")
        versions = {"server": client.get_server_version()}
    print(targets_table(targets))
    figures = {"chunks": options.chunks, "load": os.getloadavg()[0], "seconds": seconds} | versions
    if options.write:
        write_result(
            "milvus_sync", figures | {"targets": targets}, packages=("pymilvus", "milvus-lite")
        )


if __name__ == "__main__":
    main()
