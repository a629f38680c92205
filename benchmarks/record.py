"""What every result says of itself: when, with what versions, on what kind of machine."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import numpy as np

import ku_rag

RESULTS = Path(__file__).parent / "results"
DATA = Path(__file__).parents[2] / "shared" / "data"


def write_result(name: str, figures: Mapping[str, object], *, packages: Sequence[str] = ()) -> Path:
    """Write `results/<name>.json`: the figures under what they were measured with.

    Args:
        name: of the benchmark.
        figures: what was measured, JSON-ready.
        packages: further distributions whose versions matter.
    """
    record = {
        "benchmark": name,
        "date": date.today().isoformat(),
        "versions": {
            "ku-rag": ku_rag.__version__,
            "python": platform.python_version(),
            **{
                package: importlib.metadata.version(package)
                for package in dict.fromkeys(("numpy", "pillow", "faiss-cpu", *packages))
            },
        },
        "machine": {
            "cpus": os.cpu_count(),
            "cpu": cpu_model(),
            "architecture": platform.machine(),
        },
        **figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def proportion(hits: Sequence[bool]) -> tuple[float, list[float]]:
    """The share of hits, and its 95 % interval (Wilson)."""
    n, z = len(hits), 1.96
    share = sum(hits) / max(n, 1)
    middle = share + z * z / (2 * max(n, 1))
    half = z * math.sqrt(share * (1 - share) / max(n, 1) + (z / (2 * max(n, 1))) ** 2)
    ends = [(middle + sign * half) / (1 + z * z / max(n, 1)) for sign in (-1, 1)]
    return round(share, 3), [round(end, 3) for end in ends]


def interval(values: Sequence[float]) -> list[float]:
    """The middle 95 % of the means of 2,000 samples of the values, with repetition."""
    drawn = np.random.default_rng(0).integers(0, len(values), (2000, len(values)))
    low, high = np.quantile(np.asarray(values, float)[drawn].mean(1), (0.025, 0.975))
    return [round(float(low), 3), round(float(high), 3)]


def cpu_model() -> str:
    """What the processor calls itself; "" where nothing says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
