"""Whether an operation has become slower: ratios of ku-rag to sqlite-vec beside committed ones.

    python -m benchmarks.check [--write]

Each run measures 10,000 units of benchmarks/scale.py in the shape "chunk" with ku-rag, between two
measures of sqlite-vec. A ratio is the processor time of an operation of ku-rag divided by the sum
of all queries of sqlite-vec, whose code and rows never change: the sum stands for the speed of the
machine. Disk and memory are compared with the committed figures themselves. An operation has
become slower if its ratio exceeds the committed one (benchmarks/results/check.json) by more than
the tolerance in two of three runs. The tolerance is 20 %; for what takes less than a millisecond,
and for what is done once in a run, it is 50 %. --write commits the medians of the runs.
The third run is left out if no row exceeds its bound in the first two.

Ratios differ between kinds of processors. On another kind than that of the committed ratios the
rows are printed, and the check passes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import scale
from benchmarks.record import cpu_model, read_result, write_result

UNITS, RUNS, NOISE_MS = 10_000, 3, 1.0
TOLERANCE, TOLERANCE_OF_NOISE = 1.2, 1.5
FASTER_IS_MORE = "bulk, units a second"
SIZES = ("disk, MB", "memory, own, MB")
LEFT_OUT = ("load average", "first answer, cold, wall", "memory, mapped, MB", "recall@10")


def measure() -> tuple[scale.Figures, scale.Figures]:
    """Return the ratios of one run, and the milliseconds of ku-rag."""
    figures = [
        scale.measure(system, "chunk", UNITS, None)
        for system in ("sqlite-vec", "ku-rag", "sqlite-vec")
    ]
    unit = statistics.mean(speed_unit(figures[n]) for n in (0, 2))
    ours = {row: value for row, value in figures[1].items() if row not in LEFT_OUT}
    ours[FASTER_IS_MORE] = 1e6 / ours[FASTER_IS_MORE]
    return {row: value / (1 if row in SIZES else unit) for row, value in ours.items()}, ours


def speed_unit(reference: Mapping[str, float]) -> float:
    """Return the milliseconds of the reference's queries together."""
    return sum(value for row, value in reference.items() if row.startswith(("text", "vec", "fil")))


def regressions(
    committed: Mapping[str, Mapping[str, float]], runs: Sequence[Mapping[str, float]]
) -> list[str]:
    """Return a sentence for each row that exceeds its committed ratio in most of the runs."""
    sentences = []
    for row, expected in committed.items():
        ratios = [run[row] for run in runs if row in run]
        bound = expected["ratio"] * expected["tolerance"]
        slower = sum(ratio > bound for ratio in ratios)
        if slower > len(runs) / 2 or not ratios:
            measured = ", ".join(f"{ratio:.3g}" for ratio in ratios) or "nothing"
            sentences.append(
                f"{row}: committed {expected['ratio']:.3g}, measured {measured}: more than "
                f"{expected['tolerance'] - 1:.0%} above in {slower} of {len(runs)} runs"
            )
    return sentences


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and compare or write; the exit code is 1 if a row has become slower."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args(arguments)
    result = read_result("check")
    committed, runs = result.get("ratios", {}), []
    while len(runs) < RUNS:
        ratios, milliseconds = measure()
        runs.append(ratios)
        is_clear = not any(regressions(committed, [run]) for run in runs)
        if len(runs) == 2 and is_clear and not options.write:
            break
    for row in runs[0]:
        ratios = "  ".join(f"{run[row]:8.3f}" for run in runs)
        print(f"{row:25}{committed.get(row, {}).get('ratio', 0):8.3f}: {ratios}")
    if options.write:
        print(write(runs, milliseconds))
        return 0
    slower = regressions(committed, runs)
    print(*slower or ["no operation has become slower"], sep="\n")
    if slower and result["machine"]["cpu"] != cpu_model():
        print(f"passed: the committed ratios are those of {result['machine']['cpu']}")
        return 0
    return bool(slower)


def write(runs: Sequence[Mapping[str, float]], milliseconds: Mapping[str, float]) -> Path:
    """Write the medians of the runs, with the tolerance of each row."""
    ratios = {}
    for row, value in milliseconds.items():
        is_noisy = row.endswith(", s") or (value < NOISE_MS and row not in SIZES)
        ratios[row] = {
            "ratio": round(statistics.median(run[row] for run in runs), 4),
            "tolerance": TOLERANCE_OF_NOISE if is_noisy else TOLERANCE,
        }
    return write_result("check", {"ratios": ratios}, packages=("sqlite-vec", "apsw"))


if __name__ == "__main__":
    sys.exit(main())
