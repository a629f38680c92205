"""Two writers: the second waits, then fails and names the first, or continues when that ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from ku_rag import KnowledgeBase, Unit

ROOT = Path(__file__).parents[2]

# Writes until its input is closed, as a large ingest does.
HOLDER = """
import sys
from pathlib import Path
from ku_rag import KnowledgeBase

def wait(_):
    print("writing", flush=True)
    sys.stdin.read()

with KnowledgeBase.open(sys.argv[1]) as kb:
    kb.ingest(Path(sys.argv[2]), progress=wait)
"""


@pytest.fixture
def base(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Anvil", texts=("The anvil is heavy.",)))
    (tmp_path / "one.jsonl").write_text(json.dumps({"id": "held", "name": "Held"}) + "\n")
    return tmp_path


@contextmanager
def holder(base):
    """A process that is writing to the base."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(base / "kb"), str(base / "one.jsonl")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def add(base, name, wait_s):
    """`ku add` in another process: the process, which has ended, and the seconds it took."""
    begun = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "ku_rag", "add", "--name", name, "--text", "It is new.", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "KU_KB": str(base / "kb"), "KU_LOCK_WAIT_S": str(wait_s)},
        timeout=60,
    )
    return process, time.monotonic() - begun


def ids(base):
    with KnowledgeBase.open(base / "kb") as kb:
        assert kb.verify().problems == ()
        return [unit.id for unit in kb.list()]


def test_a_second_writer_waits_then_fails_and_names_the_first(base):
    with holder(base) as process:
        second, took = add(base, "Bellows", wait_s=1)
        assert second.returncode == 5
        assert f"process {process.pid} is writing" in second.stderr
        assert "within 1 s" in second.stderr
        assert second.stdout == ""
        assert took >= 1
        assert ids(base) == ["anvil"]


def test_a_second_writer_goes_on_when_the_first_is_done(base):
    with holder(base) as process:
        waiting = subprocess.Popen(
            [sys.executable, "-m", "ku_rag", "add", "--name", "Bellows", "--text", "It is new."],
            cwd=ROOT,
            env={**os.environ, "KU_KB": str(base / "kb"), "KU_LOCK_WAIT_S": "60"},
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.5)
        assert waiting.poll() is None
        process.stdin.close()
        assert process.wait(timeout=60) == 0
        assert waiting.wait(timeout=60) == 0
    assert ids(base) == ["anvil", "bellows", "held"]


def test_the_lock_of_a_killed_process_is_taken_over(base):
    with holder(base) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (base / "kb" / "writer.lock").read_text().strip() == str(process.pid)
        second, took = add(base, "Bellows", wait_s=30)
    assert second.returncode == 0, second.stderr
    assert took < 25, "it waited for a process that is dead"
    assert ids(base) == ["anvil", "bellows"]


def test_readers_do_not_wait_for_a_writer(base):
    with holder(base), KnowledgeBase.open(base / "kb", lock_wait_s=30.0) as kb:
        begun = time.monotonic()
        assert kb.search(text="anvil").units[0].id == "anvil"
        assert kb.query(None, "Is the anvil heavy?").chunks
        assert time.monotonic() - begun < 10
