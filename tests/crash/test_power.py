"""Power cuts: after each, what was not synced is lost or half there, and what was said is kept."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tests.crash import tracing
from tests.crash.disk import Disk
from tests.crash.script import CALLS
from tests.crash.trials import ROOT

SEED = 20240613
FOLDER, ADD = 0, 1


@dataclass(frozen=True)
class Recording:
    """A process that was traced.

    Args:
        start: the first call that it made.
        stop: the call after its last one.
        before: the folder around the base, as it was.
        after: the same as it was left.
        calls: what the system was asked, by one process after another.
        said: the handles on which calls were acknowledged.
    """

    start: int
    stop: int
    before: Path
    after: Path
    calls: tuple[tuple[tracing.Call, ...], ...]
    said: tuple[int, ...]

    def play(self) -> Iterator[tuple[Disk, int, tracing.Call | None]]:
        """The disk after each call that changed it, and how many calls had returned by then."""
        disk, done = Disk(self.after, self.before), 0
        yield disk, done, None
        for calls, said in zip(self.calls, self.said, strict=True):
            disk.restart()
            here = 0  # the next process begins with the same calls again
            for call in calls:
                if call.name == "write" and call.args[0].partition("<")[0] == str(said):
                    here += call.texts[0].startswith(b"done")
                    done = max(done, here)
                    yield disk, done, call
                elif disk.apply(call):
                    yield disk, done, call


def record(story, start, stop, name, *, die_at=None, **how) -> Recording:
    """Trace a process that makes calls `start` to `stop` on a copy of the base.

    Args:
        story: how it goes.
        start: the first call.
        stop: the call after the last one.
        name: of the folders.
        die_at: the durable step at which a first process ends; another one then does it all.
        **how: see `Player.run`.
    """
    before, after = story.root / f"{name}-before", story.root / f"{name}-after"
    for folder in (before, after):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if start:
            shutil.copytree(story.templates[start], folder / "kb")
    request = {"kb": str(after / "kb"), "content": str(story.content), "start": start, "stop": stop}
    asked = [{**request, **how}]
    if die_at:
        asked.insert(0, {**request, **how, "die_at": die_at})
    traces = tuple(story.root / f"{name}-{number}.strace" for number in range(len(asked)))
    answers = [_trace(one, trace) for one, trace in zip(asked, traces, strict=True)]
    *_, (done, errors, _) = answers
    assert done == stop - start, errors
    calls = tuple(tuple(tracing.calls(trace)) for trace in traces)
    return Recording(start, stop, before, after, calls, tuple(said for _, _, said in answers))


def _trace(request, trace) -> tuple[int, str, int]:
    """Trace one process; returns how many calls it made, what went wrong, and where it said so."""
    heard, said = os.pipe()
    command = [sys.executable, "-m", "tests.crash.player", "once", json.dumps(request), str(said)]
    process = tracing.traced(command, trace, cwd=ROOT, keep=said)
    os.close(said)
    with os.fdopen(heard, "rb") as hearing:
        answers = hearing.read().decode()
    _, errors = process.communicate(timeout=60)
    return answers.count("done"), answers + errors[-2000:], said


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


def moments(recording, *, syncs_only):
    """Numbers of the steps after which the power may be cut."""
    return [
        number
        for number, (_, _, call) in enumerate(recording.play())
        if call and (not syncs_only or "sync" in call.name or call.name == "write")
    ]


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
            what = f"step {number} ({call})"
            at = CALLS[min(begun, recording.stop - 1)].name
            raise AssertionError(
                f"cut after {what} of {at!r}, {keep.__name__} kept: {error}"
            ) from error


@pytest.mark.parametrize(("keep", "most"), [(nothing, 8), (some, 8), (everything, 4)])
def test_a_power_cut_loses_nothing_that_was_acknowledged(story, recording, rounds, keep, most):
    every = moments(recording, syncs_only=keep is nothing)
    chosen = random.Random(SEED).sample(every, rounds(most, len(every)))
    assert len(chosen) >= most
    cut(story, recording, set(chosen), keep)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(FOLDER, marks=pytest.mark.slow, id="ingest a folder"),
        pytest.param(ADD, id="add a unit"),
    ],
)
def test_what_a_killed_process_left_unsynced_is_synced_by_the_next(story, rounds, call):
    if why := tracing.missing():
        pytest.skip(why)
    numbers = left_unsynced(story, call)
    for number in random.Random(SEED).sample(numbers, rounds(1, len(numbers))):
        cut_the_second(story, call, number)


def left_unsynced(story, call):
    """Numbers of the steps that sync a folder in which a file was just put."""
    steps = story.player.run(story.begin(call), story.content, call, call + 1, count=True)["steps"]
    return [
        number
        for number, (before, step) in enumerate(pairwise(steps), 2)
        if before.startswith("replace") and step.startswith("fsync")
    ]


def cut_the_second(story, call, number, **how):
    """End a process at a step, have another one do it all, and cut the power after that."""
    recording = record(story, call, call + 1, f"left-{call}-{number}", die_at=number, **how)
    last = sum(1 for _ in recording.play()) - 1
    cut(story, recording, range(last - 1, last + 1), nothing)


def test_a_cache_is_whole_before_its_header_names_it(recording):
    assert headers_too_early(recording) == []


def headers_too_early(recording):
    """What of a cache was not synced when a header came into its place."""
    found, headers = [], 0
    for disk, _, call in recording.play():
        if not (call and call.name.startswith("rename") and call.texts[-1].endswith(b".json")):
            continue
        header = Path(os.fsdecode(call.texts[-1]))
        headers += 1
        found += [
            late
            for late in disk.unsynced()
            if "/indexes/" in late and not late.endswith((header.name, ".partial"))
        ]
    assert headers, "no header of a cache was written"
    return found
