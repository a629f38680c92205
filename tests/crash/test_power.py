"""Power cuts: after each, what was not synced is lost or half there, and what was said is kept."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash import tracing
from tests.crash.disk import Disk
from tests.crash.script import CALLS
from tests.crash.trials import ROOT

SEED = 20240613


@dataclass(frozen=True)
class Recording:
    """A process that was traced.

    Args:
        start: the first call that it made.
        stop: the call after its last one.
        before: the folder around the base, as it was.
        after: the same as it was left.
        trace: what the system was asked.
        said: the handle on which calls were acknowledged.
    """

    start: int
    stop: int
    before: Path
    after: Path
    trace: Path
    said: int

    def play(self) -> Iterator[tuple[Disk, int, tracing.Call | None]]:
        """The disk after each call that changed it, and how many calls had returned by then."""
        disk, done = Disk(self.after, self.before), 0
        yield disk, done, None
        for call in tracing.calls(self.trace):
            if call.name == "write" and call.args[0].partition("<")[0] == str(self.said):
                done += call.texts[0].startswith(b"done")
                yield disk, done, call
            elif disk.apply(call):
                yield disk, done, call


def record(story, start, stop, name, **how) -> Recording:
    """Trace a process that makes calls `start` to `stop` on a copy of the base."""
    before, after = story.root / f"{name}-before", story.root / f"{name}-after"
    for folder in (before, after):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if start:
            shutil.copytree(story.templates[start], folder / "kb")
    trace = story.root / f"{name}.strace"
    heard, said = os.pipe()
    request = {"kb": str(after / "kb"), "content": str(story.content), "start": start}
    asked = json.dumps({**request, "stop": stop, **how})
    command = [sys.executable, "-m", "tests.crash.player", "once", asked, str(said)]
    process = tracing.traced(command, trace, cwd=ROOT, keep=said)
    os.close(said)
    with os.fdopen(heard, "rb") as hearing:
        answers = hearing.read().decode()
    _, errors = process.communicate(timeout=60)
    assert answers.count("done") == stop - start, (answers, errors[-2000:])
    return Recording(start, stop, before, after, trace, said)


@pytest.fixture(scope="module")
def recording(story):
    if why := tracing.missing():
        pytest.skip(why)
    return record(story, 0, len(CALLS), "whole")


def test_a_model_of_the_disk_ends_with_what_the_disk_holds(recording, tmp_path):
    *_, (disk, done, _) = recording.play()
    disk.store(tmp_path / "model", lambda: True)
    assert done == len(CALLS)
    assert _files(tmp_path / "model") == _files(recording.after)


def _files(folder):
    return {f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


# ---- cuts --------------------------------------------------------------------------------------


def nothing(_: int):
    return lambda: False


def everything(_: int):
    return lambda: True


def some(number: int):
    rng = random.Random(SEED + number)
    share = rng.choice([0.1, 0.5, 0.9])
    return lambda: rng.random() < share


def moments(recording, most, syncs_only):
    """Numbers of steps after which the power is cut: all of them, or so many at random."""
    numbers = [
        number
        for number, (_, _, call) in enumerate(recording.play())
        if call and (not syncs_only or "sync" in call.name or call.name == "write")
    ]
    if most is None or len(numbers) <= most:
        return set(numbers)
    return set(random.Random(SEED).sample(numbers, most))


def cut(story, recording, moments, keep):
    """Cut the power at these moments and see each time that what is left is whole.

    Args:
        story: what is right.
        recording: what was done.
        moments: numbers of steps.
        keep: what of the things not synced is kept, by the number of the step.
    """
    target = story.root / "cut"
    for number, (disk, done, call) in enumerate(recording.play()):
        if number not in moments:
            continue
        shutil.rmtree(target, ignore_errors=True)
        disk.store(target, keep(number))
        begun = recording.start + done
        try:
            if begun < recording.stop:
                story.check(target / "kb", begun, begun + 1, again=number % 3 == 0)
            else:
                story.check(target / "kb", begun, begun)
        except Exception as error:
            what = f"step {number} ({call.name} {tracing.handle(call.args[0])[1]})"
            at = CALLS[min(begun, recording.stop - 1)].name
            raise AssertionError(
                f"cut after {what} of {at!r}, {keep.__name__} kept: {error}"
            ) from error


@pytest.mark.parametrize(("keep", "most"), [(nothing, 60), (some, 50), (everything, 30)])
def test_a_power_cut_loses_nothing_that_was_acknowledged(story, recording, long, keep, most):
    chosen = moments(recording, None if long else most, syncs_only=keep is nothing)
    assert len(chosen) >= most
    cut(story, recording, chosen, keep)
