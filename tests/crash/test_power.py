"""Power cuts: unsynced data is lost or incomplete after each, acknowledged data remains."""

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
    """Traces of processes.

    Args:
        start: the first call.
        stop: the call after the last one.
        before: the folder around the base, before the calls.
        after: the same folder after them.
        calls: the system calls of one process after another.
        handles: the handles on which the processes acknowledged calls.
    """

    start: int
    stop: int
    before: Path
    after: Path
    calls: tuple[tuple[tracing.Call, ...], ...]
    handles: tuple[int, ...]

    def play(self) -> Iterator[tuple[Disk, int, tracing.Call | None]]:
        """The disk after each system call that changed it, and the number of returned calls."""
        disk, returned = Disk(self.after, self.before), 0
        yield disk, returned, None
        for calls, handle in zip(self.calls, self.handles, strict=True):
            disk.restart()
            here = 0  # the next process repeats the calls
            for call in calls:
                if call.name == "write" and call.args[0].partition("<")[0] == str(handle):
                    here += call.texts[0].startswith(b"done")
                    returned = max(returned, here)
                    yield disk, returned, call
                elif disk.apply(call):
                    yield disk, returned, call


def record(story, start, stop, name, *, die_at=None, **how) -> Recording:
    """Trace a process that makes calls `start` to `stop` on a copy of the base.

    Args:
        story: the course of the script.
        start: the first call.
        stop: the call after the last one.
        name: of the folders.
        die_at: the durable step at which a first process ends; a second one then makes all calls.
        **how: see `Player.run`.
    """
    before, after = story.root / f"{name}-before", story.root / f"{name}-after"
    for folder in (before, after):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if start:
            shutil.copytree(story.templates[start], folder / "kb")
    settings = {
        "kb": str(after / "kb"),
        "content": str(story.content),
        "start": start,
        "stop": stop,
    }
    requests = [{**settings, **how}]
    if die_at:
        requests.insert(0, {**settings, **how, "die_at": die_at})
    traces = tuple(story.root / f"{name}-{number}.strace" for number in range(len(requests)))
    results = [_trace(request, trace) for request, trace in zip(requests, traces, strict=True)]
    *_, (returned, errors, _) = results
    assert returned == stop - start, errors
    calls = tuple(tuple(tracing.calls(trace)) for trace in traces)
    return Recording(start, stop, before, after, calls, tuple(handle for _, _, handle in results))


def _trace(request, trace) -> tuple[int, str, int]:
    """Trace one process; return how many calls it made, its errors, and its handle for replies."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "tests.crash.player", "once", json.dumps(request), str(writer)]
    process = tracing.traced(command, trace, cwd=ROOT, keep=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        output = stream.read().decode()
    _, errors = process.communicate(timeout=60)
    return output.count("done"), output + errors[-2000:], writer


@pytest.fixture(scope="module")
def recording(story):
    if why := tracing.missing():
        pytest.skip(why)
    return record(story, 0, len(CALLS), "whole")


def test_a_model_of_the_disk_ends_with_what_the_disk_holds(recording, tmp_path):
    *_, (disk, returned, _) = recording.play()
    disk.store(tmp_path / "model", lambda: True)
    assert returned == len(CALLS)
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
    """Cut the power at these moments, and check the remaining base each time.

    Args:
        story: the expected states.
        recording: the traces.
        moments: numbers of steps.
        keep: decides by the number of the step which unsynced data remains.
    """
    target = story.root / "cut"
    for number, (disk, returned, call) in enumerate(recording.play()):
        if number not in moments:
            continue
        shutil.rmtree(target, ignore_errors=True)
        disk.store(target, keep(number))
        begun = recording.start + returned
        try:
            if begun < recording.stop:
                story.check(target / "kb", begun, begun + 1, again=number % 3 == 0)
            else:
                story.check(target / "kb", begun, begun)
        except Exception as error:
            step = f"step {number} ({call})"
            at = CALLS[min(begun, recording.stop - 1)].name
            raise AssertionError(
                f"cut after {step} of {at!r}, {keep.__name__} kept: {error}"
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
    """Numbers of the steps that sync a folder just after a file was put into it."""
    steps = story.player.run(story.begin(call), story.content, call, call + 1, count=True)["steps"]
    return [
        number
        for number, (before, step) in enumerate(pairwise(steps), 2)
        if before.startswith("replace") and step.startswith("fsync")
    ]


def cut_the_second(story, call, number, **how):
    """End a process at a step, have a second one make all calls, and cut the power after it."""
    recording = record(story, call, call + 1, f"left-{call}-{number}", die_at=number, **how)
    last = sum(1 for _ in recording.play()) - 1
    cut(story, recording, range(last - 1, last + 1), nothing)


def test_a_cache_is_whole_before_its_header_names_it(recording):
    assert headers_too_early(recording) == []


def headers_too_early(recording):
    """Unsynced files of a cache at the time when a header replaced the previous one."""
    unsynced, headers = [], 0
    for disk, _, call in recording.play():
        if not (call and call.name.startswith("rename") and call.texts[-1].endswith(b".json")):
            continue
        header = Path(os.fsdecode(call.texts[-1]))
        headers += 1
        unsynced += [
            late
            for late in disk.unsynced()
            if "/indexes/" in late and not late.endswith((header.name, ".partial"))
        ]
    assert headers, "no header of a cache was written"
    return unsynced
