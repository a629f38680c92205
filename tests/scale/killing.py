"""Processes that are killed at a step, or after a time."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def killed(module: str, root: Path, step: int, seconds: float) -> bool:
    """Run a module in a process that is killed at a step or after a time; return whether it was."""
    command = [sys.executable, "-m", module, str(root), str(step)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # its imports are complete
    try:
        process.wait(seconds or None)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0
