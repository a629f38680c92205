"""What every result says of itself: when, with what versions, on what kind of machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

import ku_rag
from ku_rag.evaluation.statistics import bootstrap_interval

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


def read_result(name: str) -> dict[str, Any]:
    """Read `results/<name>.json`; {} if there is none."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def run_stage(command: Sequence[object], variables: Mapping[str, str]) -> dict[str, Any]:
    """Run a module with arguments in a fresh process, under further environment variables.

    Returns:
        The JSON object that it prints last, or {"failed": why}.
    """
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    if done.returncode or not done.stdout.strip():
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"failed": said[-1]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def markdown(rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table as Markdown; the columns after the first `texts` are aligned to the right."""
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    lines.insert(1, "|" + " --- |" * texts + " ---: |" * (len(rows[0]) - texts))
    return "\n".join(lines)


def target(
    of: str, what: str, value: float, bound: float, *, least: bool = False
) -> dict[str, Any]:
    """What a figure of a set is to reach, at most or at least, and whether it does."""
    reached = value >= bound if least else value <= bound
    side = {"least" if least else "most": bound}
    return {"set": of, "what": what, "value": round(value, 3), **side, "ok": reached}


def told(targets: Sequence[Mapping[str, Any]]) -> str:
    """Targets as Markdown."""
    rows = [["set", "what", "measured", "bound", "state"]]
    for one in targets:
        bound = f"≤ {round(one['most'], 3)}" if "most" in one else f"≥ {round(one['least'], 3)}"
        state = "reached" if one["ok"] else "**not reached**"
        rows.append([one["set"], one["what"], str(one["value"]), bound, state])
    return markdown(rows, 2)


def proportion(hits: Sequence[bool]) -> tuple[float, list[float]]:
    """The share of hits, and its 95 % interval (Wilson)."""
    ends = binomtest(sum(hits), len(hits) or 1).proportion_ci(method="wilson")
    return round(sum(hits) / (len(hits) or 1), 3), [round(float(end), 3) for end in ends]


def mean(values: Sequence[float]) -> tuple[float, list[float]]:
    """The mean of values, and its 95 % interval by bootstrap."""
    ends = bootstrap_interval(values) if len(values) > 1 else 2 * tuple(values)
    return round(float(sum(values) / len(values)), 3), [round(float(end), 3) for end in ends]


def cpu_model() -> str:
    """What the processor calls itself; "" where nothing says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
