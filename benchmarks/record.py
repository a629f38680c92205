"""Result files with date, versions and machine, and the statistics and tables of benchmarks."""

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
    """Write the figures to `results/<name>.json`, with the date, the versions and the machine.

    Args:
        name: Name of the benchmark.
        figures: Measured figures that can be written as JSON.
        packages: Further distributions whose versions are recorded.
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
    """Read `results/<name>.json`; {} if the file does not exist."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def run_stage(command: Sequence[object], variables: Mapping[str, str]) -> dict[str, Any]:
    """Run a module with arguments in a new process, with additional environment variables.

    Returns:
        The JSON object on the last line of its output, or {"failed": last line of stderr}.
    """
    process = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    if process.returncode or not process.stdout.strip():
        errors = process.stderr.strip().splitlines() or [f"exit code {process.returncode}"]
        return {"failed": errors[-1]}
    result: dict[str, Any] = json.loads(process.stdout.strip().splitlines()[-1])
    return result


def markdown(rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Return a table as Markdown; the columns after the first `texts` are aligned to the right."""
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    lines.insert(1, "|" + " --- |" * texts + " ---: |" * (len(rows[0]) - texts))
    return "\n".join(lines)


def target(
    set_name: str, quantity: str, value: float, bound: float, *, least: bool = False
) -> dict[str, Any]:
    """Compare a figure of a set with its upper bound, or with its lower bound if `least`."""
    is_reached = value >= bound if least else value <= bound
    side = {"least" if least else "most": bound}
    return {"set": set_name, "what": quantity, "value": round(value, 3), **side, "ok": is_reached}


def targets_table(targets: Sequence[Mapping[str, Any]]) -> str:
    """Return targets as a table in Markdown."""
    rows = [["set", "what", "measured", "bound", "state"]]
    for goal in targets:
        bound = f"≤ {round(goal['most'], 3)}" if "most" in goal else f"≥ {round(goal['least'], 3)}"
        state = "reached" if goal["ok"] else "**not reached**"
        rows.append([goal["set"], goal["what"], str(goal["value"]), bound, state])
    return markdown(rows, 2)


def proportion(hits: Sequence[bool]) -> tuple[float, list[float]]:
    """Return the share of hits and its 95 % interval (Wilson)."""
    ends = binomtest(sum(hits), len(hits) or 1).proportion_ci(method="wilson")
    return round(sum(hits) / (len(hits) or 1), 3), [round(float(end), 3) for end in ends]


def mean(values: Sequence[float]) -> tuple[float, list[float]]:
    """Return the mean of values and its 95 % interval by bootstrap."""
    ends = bootstrap_interval(values) if len(values) > 1 else 2 * tuple(values)
    return round(float(sum(values) / len(values)), 3), [round(float(end), 3) for end in ends]


def cpu_model() -> str:
    """Return the model name of the processor; "" if it is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())
