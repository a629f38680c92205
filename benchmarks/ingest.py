"""Ingest of small pictures against the encoder alone; memory of a long run that is killed.

    python -m benchmarks.ingest [--pictures 10000] [--long 100000] [--write]

Each encoder encodes 1,024 decoded pictures, then a new base ingests a folder of pictures, then the
encoder runs again; the ratio is that of pictures a second. The long run is killed (SIGKILL) after
two fifths of the pictures and run again; peak memory, in MiB, is that of the second process. Words
in pictures are not recognised.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.record import run_stage, target, targets_table, write_result
from ku_rag import KnowledgeBase
from ku_rag.pictures import load_picture

ENCODERS = ("embedded", "embedded+efficientnet:lite2")
_SAMPLE, _GROUP = 1024, 64
_SHARES = (0.2, 0.6, 1.0)
_KILLED = 0.4


def draw(folder: Path, first: int, last: int) -> None:
    """Draw pictures of 160 x 120 pixels, all different, as JPEG."""
    for number in range(first, last):
        colours = np.random.default_rng(number).integers(0, 256, (12, 16, 3), np.uint8)
        picture = Image.fromarray(colours).resize((160, 120), Image.Resampling.BICUBIC)
        picture.save(folder / f"picture {number:06}.jpg", quality=80)


def draw_all(folder: Path, count: int) -> Path:
    """Draw pictures in several processes; return their folder."""
    folder.mkdir()
    starts = range(0, count, 1000)
    with ProcessPoolExecutor() as pool:
        ends = (min(start + 1000, count) for start in starts)
        list(pool.map(draw, [folder] * len(starts), starts, ends))
    return folder


def rates(pictures: Path, encoder: str, kb: Path, device: str = "auto") -> dict[str, float]:
    """Return milliseconds a picture of the encoder alone, on decoded pictures, and of ingest."""
    options: dict[str, Any] = {"encoder": encoder, "device": device, "recogniser": "none"}
    with KnowledgeBase.open(kb, create=True, **options) as base:
        files = sorted(pictures.iterdir())[:_SAMPLE]
        decoded = [load_picture(file.read_bytes()) for file in files]
        encode = base.encoder.encode_images
        encode(decoded[:_GROUP])

        def alone() -> float:
            started = time.monotonic()
            for at in range(0, len(decoded), _GROUP):
                encode(decoded[at : at + _GROUP])
            return (time.monotonic() - started) / len(decoded)

        before, started = alone(), time.monotonic()
        added = base.ingest(pictures).images_added
        seconds = (time.monotonic() - started) / added
        own = (before + alone()) / 2
    return {"encoder_ms": 1000 * own, "ingest_ms": 1000 * seconds, "ratio": own / seconds}


def long_run(pictures: Path, kb: Path, killed_at: int) -> dict[str, Any]:
    """Ingest pictures; return the peak memory at several counts.

    The process kills itself when it has ingested `killed_at` pictures; 0 is never.
    """
    count = sum(1 for _ in pictures.iterdir())
    marks, peaks = [int(share * count) for share in _SHARES], {}

    def watch(number: int) -> None:
        if number == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if number in marks:
            peaks[number] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    with KnowledgeBase.open(kb, create=True, encoder="embedded", recogniser="none") as base:
        report = base.ingest(pictures, progress=watch)
        return {
            "added": report.units_added,
            "units": base.stats().counts["units"],
            "peak_mib": peaks,
        }


def main() -> None:
    """Measure, print the ratios, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="write the result file")
    parser.add_argument("--stage", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        pictures, kb, killed_at = options.stage
        print(json.dumps(long_run(Path(pictures), Path(kb), int(killed_at))))
        return
    figures: dict[str, Any] = {"pictures": options.pictures, "load": os.getloadavg()[0]}
    targets = []
    with tempfile.TemporaryDirectory() as work:
        pictures = draw_all(Path(work, "pictures"), options.pictures)
        for number, encoder in enumerate(ENCODERS):
            figures[encoder] = rates(pictures, encoder, Path(work, f"kb{number}"))
            ratio = figures[encoder]["ratio"]
            targets.append(
                target("ingest", f"pictures a second / {encoder} alone", ratio, 0.95, least=True)
            )
        if options.long:
            pictures = draw_all(Path(work, "many"), options.long)
            stage = ["benchmarks.ingest", "--stage", pictures, Path(work, "kb")]
            killed = run_stage([*stage, int(_KILLED * options.long)], {})
            figures["long"] = {"killed": killed, "again": run_stage([*stage, 0], {})}
    figures["targets"] = targets
    print(targets_table(targets), json.dumps(figures, indent=1), sep="\n")
    if options.write:
        write_result("ingest", figures, packages=("onnxruntime",))


if __name__ == "__main__":
    sys.exit(main())
