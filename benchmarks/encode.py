"""Import of shards beside `add_many`, memory and disk by size, and a plan for larger collections.

    python -m benchmarks.encode [--chunks 100000] [--sizes 300000,1000000] [--write]

Import and `add_many` take turns with the same units and ready-made vectors, until all is stored,
and until the index is built and a first question answered, by the clock and by processor time.
For each of the sizes shards are imported by a new process, which reports seconds, its peak memory,
and the median time of a search.

The plan is arithmetic: bytes, hours and cost of larger collections from the rates measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.measuring import disk_bytes, peak_bytes
from benchmarks.record import markdown, run_stage, target, told, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.encoders.base import Vectors
from ku_rag.scale.encoding_run import encode
from ku_rag.transfer.shard_set import ShardSet

DIM, LETTERS, CHUNKS_A_UNIT, ROUNDS, QUERIES = 512, 200, 10, 5, 50
ENCODED_A_SECOND = 100
"""Assumed chunks a second of one worker; `benchmarks.engines` measures some."""
PLANNED = {10**7: 8, 10**8: 32, 10**9: 128}
"""Chunks of a collection, and the workers that encode it."""
MACHINE_HOUR, GIGABYTE_MONTH = 1.0, 0.1
"""Assumed prices of a machine, with or without a worker, and of storage."""
SEARCH_GIGABYTES = 256
"""Memory of a machine that searches."""


class Paced:
    """An encoder that sleeps; equal texts have equal vectors, those of a cluster are near.

    Args:
        seconds: For each text.
    """

    dim, max_tokens, cross_modal, fingerprint = DIM, 256, False, f"benchmarks/paced:{DIM}"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def count_tokens(self, text: str) -> int:
        """About so many tokens."""
        return len(text) // 4

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Sleep, then draw a vector for each text."""
        time.sleep(self.seconds * len(texts))
        if not texts:
            return np.empty((0, DIM), np.float32)
        return np.stack([vector(int(text[-8:]) if text[-8:].isdigit() else 0) for text in texts])

    encode_images = encode_regions = encode_texts


def vector(number: int) -> Vectors:
    """A vector of length 1: the centre of its cluster of 100, plus noise of length 0.7."""
    found = direction(-1 - number // 100) + 0.7 * direction(number)
    return np.asarray(found / np.linalg.norm(found), np.float32)


def direction(seed: int) -> Vectors:
    """A vector of length 1."""
    found = np.random.default_rng(abs(2 * seed) + (seed < 0)).standard_normal(DIM, np.float32)
    return found / np.linalg.norm(found)


def text(number: int) -> str:
    """A text of 200 characters that ends in a number."""
    return f"{'It is one of many sentences about a thing. ' * 6}"[: LETTERS - 9] + f" {number:08d}"


def write_records(path: Path, count: int, texts: int) -> None:
    """Write units with so many texts each as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for unit in range(count):
            of_unit = [text(unit * texts + n) for n in range(texts)]
            file.write(json.dumps({"id": f"u{unit}", "name": f"u{unit}", "texts": of_unit}) + "\n")


def write_shards(work: Path, chunks: int) -> Path:
    """Encode records with so many chunks; return the folder of the shards."""
    write_records(work / "many.jsonl", chunks // CHUNKS_A_UNIT, CHUNKS_A_UNIT)
    encode([work / "many.jsonl"], work / "shards", encoder=Paced(0))
    return work / "shards"


def store_shards(base: KnowledgeBase, shards: Path) -> None:
    """Import shards, but leave the index to the first question."""
    with base._session.write() as writer:
        writer.run(ShardSet(shards, writer))


def clocks() -> NDArray[np.float64]:
    """Seconds by the clock, and of the processor: float64[2]."""
    return np.array([time.monotonic(), time.process_time()])


def importing(work: Path, chunks: int) -> dict[str, float]:
    """Chunks a second of import as parts of those of `add_many`: medians of the rounds."""
    shards = write_shards(work, chunks)
    ratios: list[NDArray[np.float64]] = []
    for _ in range(ROUNDS):
        seconds = {}
        for way in ("import", "add_many"):
            with KnowledgeBase.open(work / "kb", create=True, encoder=Paced(0)) as base:
                started = clocks()
                if way == "import":
                    store_shards(base, shards)
                    stored = clocks() - started
                else:
                    stored = add_many(base, chunks // CHUNKS_A_UNIT)
                started = clocks()
                base.search(text=text(0))
                seconds[way] = np.concatenate([stored, stored + clocks() - started])
            shutil.rmtree(work / "kb")
        ratios.append(seconds["add_many"] / seconds["import"])
    shutil.rmtree(shards)
    found = np.median(ratios, axis=0).tolist()
    return dict(zip(("stored", "stored_processor", "ready", "ready_processor"), found, strict=True))


def add_many(base: KnowledgeBase, units: int) -> NDArray[np.float64]:
    """Seconds to add units in parts of ten thousand chunks, as `clocks` returns them."""
    seconds = np.zeros(2)
    for start in range(0, units, 1000):
        numbers = range(start, min(start + 1000, units))
        texts = {n: tuple(text(n * 10 + i) for i in range(CHUNKS_A_UNIT)) for n in numbers}
        part = [Unit(f"u{n}", id=f"u{n}", texts=of_unit) for n, of_unit in texts.items()]
        vectors = Paced(0).encode_texts([one for of_unit in texts.values() for one in of_unit])
        started = clocks()
        base.add_many(part, vectors={"texts": vectors})
        seconds += clocks() - started
    return seconds


def grow(folder: Path) -> dict[str, float]:
    """Import the shards of a folder in this process: seconds, and the peak of its memory."""
    found = {"load": os.getloadavg()[0]}
    started, spent = time.monotonic(), time.process_time()
    with KnowledgeBase.open(folder / "kb", create=True, encoder=Paced(0)) as base:
        for step in ("import", "index"):
            if step == "import":
                store_shards(base, folder / "shards")
            else:
                base.search(text=text(0))
            found[f"{step}_s"] = time.monotonic() - started
            found[f"{step}_processor_s"] = time.process_time() - spent
            found[f"{step}_peak_mb"] = peak_bytes() / 1e6
            started, spent = time.monotonic(), time.process_time()
    with KnowledgeBase.open(folder / "kb", encoder=Paced(0)) as base:
        started = time.monotonic()
        base.search(text=text(0))
        found["first_answer_s"] = time.monotonic() - started
        spent_s = []
        for number in range(0, 100 * QUERIES, 100):
            started = time.monotonic()
            base.search(text=text(number))
            spent_s.append(time.monotonic() - started)
        found["search_p50_ms"] = 1000 * statistics.median(spent_s)
    found["disk_mb"] = disk_bytes(folder / "kb") / 1e6
    return {key: round(value, 2) for key, value in found.items()}


def growth(sizes: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Import shards of several sizes, each in a new process."""
    found = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as work:
            write_shards(Path(work), size)
            found[size] = run_stage(["benchmarks.encode", "--grow", work], {})
        if "failed" in found[size]:
            raise SystemExit(f"the import of {size:,} chunks failed: {found[size]['failed']}")
    return found


def plan(sizes: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Bytes, hours and cost of larger collections."""
    most = max(sizes)
    imported, encoded = most / sizes[most]["import_processor_s"], ENCODED_A_SECOND
    found: dict[str, Any] = {
        "encoding_chunks_a_second": round(encoded),
        "import_chunks_a_second": round(imported),
    }
    for count, workers in PLANNED.items():
        worker_hours = count / encoded / 3600
        hours = {"encoding": worker_hours / workers, "import": count / imported / 3600}
        shards = count * (2 * DIM + LETTERS) / 1e9
        base = count / most * sizes[most]["disk_mb"] / 1e3
        vectors = count * 4 * DIM / 1e9
        found[f"{count:,}"] = {
            "shards, GB": round(shards),
            "base, GB": round(base),
            "vectors in memory (Milvus), GB": round(vectors),
            "workers": workers,
            "machines that search": ceil(vectors / SEARCH_GIGABYTES),
            "encoding, hours": round(hours["encoding"], 1),
            "import, hours": round(hours["import"], 1),
            "bottleneck": max(hours, key=lambda step: hours[step]),
            "cost of encoding": round(worker_hours * MACHINE_HOUR),
            "cost of import": round(hours["import"] * MACHINE_HOUR, 1),
            "cost of storage, a month": round((shards + base) * GIGABYTE_MONTH),
        }
    return found


def plan_table(found: Mapping[str, Any]) -> str:
    """The plan as Markdown, as docs/scale.md has it."""
    counts = [f"{count:,}" for count in PLANNED]
    rows = [["chunks", *counts]]
    for key in found[counts[0]]:
        cells = [found[count][key] for count in counts]
        rows.append([key, *(one if isinstance(one, str) else f"{one:,}" for one in cells)])
    return markdown(rows)


def main() -> None:
    """Measure, print ratios and the plan, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--sizes", default="300000,1000000")
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--grow", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.grow:
        print(json.dumps(grow(given.grow)))
        return
    started, load = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as work:
        found = importing(Path(work), given.chunks)
    sizes = growth([int(size) for size in given.sizes.split(",")])
    targets = [
        target(
            "encode", f"import from shards / add_many, until {step}", found[key], 0.9, least=True
        )
        for step, key in (("stored", "stored"), ("a question is answered", "ready"))
    ]
    planned = plan(sizes)
    print(told(targets), plan_table(planned), sep="\n\n")
    figures = {
        "chunks": given.chunks,
        "load": [load, os.getloadavg()[0]],
        "seconds": round(time.monotonic() - started),
        "import / add_many": {key: round(value, 3) for key, value in found.items()},
        "targets": targets,
        "sizes": sizes,
        "plan": planned,
    }
    if given.write:
        write_result("encode", figures, packages=("pyarrow",))


if __name__ == "__main__":
    main()
