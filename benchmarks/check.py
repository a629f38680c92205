"""Check whether an operation has become slower than in the reference commit.

    python -m benchmarks.check [--write]

Each run measures 10,000 units of benchmarks/scale.py in the shape "chunk" twice: with the package
of this checkout, and with that of the commit in benchmarks/results/check.json. Both run at the same
time and share one processor, so that its speed and other load affect both equally. An operation has
become slower if its processor time, disk or memory exceeds that of the reference by more than the
tolerance in most of five runs. The tolerance is 20 %, or 50 % for operations that take less than
five milliseconds or run once. Two runs are enough if no row exceeds its bound. --write makes the
last commit the reference.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.record import markdown, read_result, write_result

UNITS, RUNS, NOISE_MS = 10_000, 5, 5.0
TOLERANCE, TOLERANCE_OF_NOISE = 1.2, 1.5
FASTER_IS_MORE = "bulk, units a second"
SIZES = ("disk, MB", "memory, own, MB")
LEFT_OUT = ("load average", "first answer, cold, wall", "memory, mapped, MB", "recall@10")
ROOT = Path(__file__).parents[1]
Figures = Mapping[str, float]


def check_out(commit: str, folder: Path) -> None:
    """Write the package of a commit and the current benchmarks to a folder.

    Raises:
        subprocess.CalledProcessError: The commit is not in this clone.
    """
    archive = git("archive", "--format=tar", commit, "ku_rag")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    shutil.copytree(ROOT / "benchmarks", folder / "benchmarks")


def git(*arguments: str) -> bytes:
    """Return the output of a git command in this checkout."""
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True).stdout


def measure(*folders: Path) -> list[Figures]:
    """Return the figures of the packages in folders, measured at the same time on one processor."""
    command = ["-m", "benchmarks.scale", "--shapes", "chunk", "--systems", "ku-rag", "--units"]
    runs = [
        subprocess.Popen(
            [sys.executable, *command, str(UNITS)],
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in folders
    ]
    return [figures_of(run) for run in runs]


def figures_of(run: subprocess.Popen[str]) -> Figures:
    """Return the figures that a run of benchmarks/scale.py prints; lower is better in each row."""
    output, _ = run.communicate()
    if run.returncode:
        raise SystemExit(run.returncode)
    line = next(line for line in output.splitlines() if line.startswith("ku-rag chunk"))
    figures: dict[str, float] = json.loads(line[line.index("{") :])
    figures[FASTER_IS_MORE] = 1e6 / figures[FASTER_IS_MORE]
    return {row: value for row, value in figures.items() if row not in LEFT_OUT}


def tolerance(row: str, reference: float) -> float:
    """Return the largest ratio of a row that is not a regression."""
    is_noisy = row.endswith(", s") or (reference < NOISE_MS and row not in SIZES)
    return TOLERANCE_OF_NOISE if is_noisy else TOLERANCE


def regressions(runs: Sequence[tuple[Figures, Figures]]) -> list[str]:
    """Return a sentence for each row above its bound in most of the (reference, new) runs."""
    sentences = []
    for row, first in runs[0][0].items():
        bound = tolerance(row, first)
        ratios = [new[row] / reference[row] for reference, new in runs if row in new]
        slower = sum(ratio > bound for ratio in ratios)
        if slower > len(runs) / 2 or not ratios:
            measured = ", ".join(f"{ratio:.2f}" for ratio in ratios) or "nothing"
            sentences.append(
                f"{row}: {measured} × the reference, more than {bound:.1f} in {slower} of "
                f"{len(runs)} runs"
            )
    return sentences


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print, or write; return the exit code, 1 if a row has become slower."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make the last commit the reference")
    if parser.parse_args(arguments).write:
        commit = git("rev-parse", "HEAD").decode("ascii").strip()
        print(write_result("check", {"commit": commit}, packages=("apsw",)))
        return 0
    commit, runs = read_result("check")["commit"], []
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            check_out(commit, folder)
        except subprocess.CalledProcessError:
            print(f"not compared: this clone has no commit {commit}; run git fetch --unshallow")
            return 0
        while len(runs) < RUNS:
            reference, new = measure(folder, ROOT)
            runs.append((reference, new))
            if len(runs) == 2 and not any(regressions([run]) for run in runs):
                break
    rows = [["row, ratios to the reference", *(f"run {n + 1}" for n in range(len(runs)))]]
    for row in runs[0][0]:
        rows.append([row, *(f"{new.get(row, 0) / old[row]:.2f}" for old, new in runs)])
    slower = regressions(runs)
    print(markdown(rows), *slower or ["no operation has become slower"], sep="\n")
    return bool(slower)


if __name__ == "__main__":
    sys.exit(main())
