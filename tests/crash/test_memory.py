"""Processes that run out of memory: a change happens completely or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.crash.memory import CHANGES
from tests.crash.trials import ROOT

SEED = 20240616


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS bounds mapped memory on Linux only")
def test_a_process_without_memory_loses_nothing(tmp_path, rounds):
    each, changes = rounds(1, 60), rounds(1, len(CHANGES) - 1)
    process = subprocess.run(
        [
            *(sys.executable, "-m", "tests.crash.memory"),
            *(str(tmp_path), str(SEED), str(each), str(changes)),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.returncode == 0, process.stderr[-3000:]
    trials = [json.loads(line) for line in process.stdout.splitlines()]
    assert [trial for trial in trials if trial["problem"]] == []
    counts = Counter(trial["change"] for trial in trials)
    assert list(counts.values()) == [2 * each] * (1 + changes)
    assert "MemoryError" in {trial["outcome"] for trial in trials}
