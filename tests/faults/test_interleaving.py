"""Two writers and a reader, switched at each lock, write, sync and sleep, in seeded orders.

A failure names its seed; `KU_SEED=N` plays only that order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.crash.trials import ROOT

SEED = 20240618


def play(folder, seed, count):
    folder.mkdir()
    process = subprocess.run(
        [sys.executable, "-m", "tests.faults.interleaving", str(folder), str(seed), str(count)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stdout[-1000:] + process.stderr[-3000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


def test_readers_see_whole_states_in_any_order(tmp_path, rounds):
    seed = os.environ.get("KU_SEED")
    count = 1 if seed else rounds(3, 1000)
    *reports, again = play(tmp_path / "orders", int(seed or SEED), count)
    assert [report for report in reports if report["problem"]] == []
    assert len(reports) == count
    assert all(report["switches"] > 100 for report in reports)
    assert len({report["order"] for report in reports}) == count
    assert again == reports[0]
