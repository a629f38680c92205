"""Long-CLIP-L on a device: pictures a second, share of the matrix peak, parity, ingest.

    python -m benchmarks.device [--device cuda] [--pictures 4096] [--layers 24] [--write]

The weights are random: speed does not depend on them. The share of the matrix peak is the number of
floating-point operations a second of encoding, for pictures of the input size, divided by that of
the fastest product of square matrices in the same precision. Parity is the smallest cosine between
vectors of the device and vectors in float32 on the CPU. Ingest of a folder of JPEG files is
compared with the encoder alone on decoded pictures. A CPU finishes a run with few --layers and
--pictures; its figures do not apply to a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.ingest import draw_all, rates
from benchmarks.record import target, targets_table, write_result
from ku_rag import load_encoder
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.torch_runtime import place
from tests import checkpoints

SHARE, PARITY, INGEST = 0.6, 0.99, 0.95
COMPARED, REPEATS = 16, 5
SIDES = {"cuda": 8192, "mps": 4096, "cpu": 1024}
"""Rows and columns of the matrices, by type of device."""


def matrix_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Return the best rate of a product of matrices, in operations a second."""
    side = SIDES[device.type]
    first, second = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    seconds = [time_call(lambda: first @ second, device) for _ in range(4 * REPEATS)]
    return 2 * side**3 / min(seconds)


def time_call(call: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of a call, including the work of the device."""
    wait = (lambda: None) if device.type == "cpu" else torch.accelerator.synchronize
    wait()
    started = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - started


def operations(encoder: Encoder, picture: Image.Image) -> float:
    """Return the number of floating-point operations of encoding a picture."""
    with FlopCounterMode(display=False) as counter:
        encoder.encode_images([picture])
    return float(counter.get_total_flops())


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Return all figures of a device."""
    vision = {**checkpoints.L["vision_cfg"], "layers": options.layers}
    shape = {**checkpoints.L, "vision_cfg": vision}
    name = f"longclip:{checkpoints.save_official(work / 'random-L.pt', shape)}"
    encoder = load_encoder(name, device=options.device)
    placement = place(options.device, needs="longclip")
    rng, count = np.random.default_rng(0), options.pictures
    pictures = [
        Image.fromarray(rng.integers(0, 256, (224, 224, 3), np.uint8)) for _ in range(count)
    ]
    encoder.encode_images(pictures)
    seconds = min(
        time_call(lambda: encoder.encode_images(pictures), placement.device) for _ in range(2)
    )
    exact = load_encoder(name, device="cpu").encode_images(pictures[:COMPARED])
    cosines = (exact * encoder.encode_images(pictures[:COMPARED])).sum(axis=1)
    return {
        "device": placement.device.type,
        "precision": str(placement.dtype),
        "layers": options.layers,
        "pictures_a_second": count / seconds,
        "operations_a_picture": (each := operations(encoder, pictures[0])),
        "matrix_peak": (peak := matrix_peak(placement.device, placement.dtype)),
        "share_of_peak": each * count / seconds / peak,
        "parity": float(cosines.min()),
        "ingest": rates(draw_all(work / "pictures", count), name, work / "kb", options.device),
    }


def main() -> None:
    """Measure, print the targets, and with --write write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--pictures", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=24, help="of the image tower")
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        figures = measure(options, Path(work))
    measured = {
        "share of the matrix peak": (figures["share_of_peak"], SHARE),
        "smallest cosine with float32": (figures["parity"], PARITY),
        "ingest / encoder alone": (figures["ingest"]["ratio"], INGEST),
    }
    targets = [
        target(figures["device"], quantity, value, bound, least=True)
        for quantity, (value, bound) in measured.items()
    ]
    print(targets_table(targets), figures, sep="\n")
    if options.write:
        write_result(
            "device", figures | {"targets": targets}, packages=("torch", "open_clip_torch")
        )


if __name__ == "__main__":
    sys.exit(main())
