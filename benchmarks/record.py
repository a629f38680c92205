"""What every result says of itself: when, with what versions, on what kind of machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import ku_rag

RESULTS = Path(__file__).parent / "results"


def write_result(name: str, figures: Mapping[str, object]) -> Path:
    """Write `results/<name>.json`: the figures under what they were measured with."""
    record = {
        "benchmark": name,
        "date": date.today().isoformat(),
        "versions": {
            "ku-rag": ku_rag.__version__,
            "python": platform.python_version(),
            **{
                package: importlib.metadata.version(package)
                for package in ("numpy", "pillow", "faiss-cpu")
            },
        },
        "machine": {"cpus": os.cpu_count(), "architecture": platform.machine()},
        **figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path
