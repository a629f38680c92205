"""Processes that end, or disks that fail, while a base is recovered after a kill."""

from __future__ import annotations

import random
import shutil

import pytest

from tests.crash.script import CALLS
from tests.crash.test_disk_faults import numbers, operations
from tests.crash.trials import copy_base

SEED = 20240615
LOG = "ku.sqlite-wal"


def killed(story, call, most=None):
    """Bases whose process ended just after each commit of a call, or while closing the base.

    Nobody has read their logs since. There are at most `most`.
    """
    played = story.player.run(story.begin(call), story.content, call, call + 1, count=True)
    steps = played["steps"]
    moments = [n for n, step in enumerate(steps, 1) if step.startswith(("after COMMIT", "close"))]
    for moment in moments[-most:] if most else moments:
        kb = story.begin(call)
        story.player.run(kb, story.content, call, call + 1, die_at=moment)
        if (kb / LOG).exists():
            base = story.root / f"killed-{call}-{moment}"
            shutil.rmtree(base, ignore_errors=True)
            copy_base(kb, base)
            yield base


def trial(story, base):
    kb = story.root / "trial"
    shutil.rmtree(kb, ignore_errors=True)
    copy_base(base, kb)
    return kb


def recover(story, kb, call, fault, number):
    """Open, read and close a base while a fault occurs."""
    played = story.player.run(kb, story.content, call, call, fault=fault, at=number)
    assert not played["failed"], played["failed"]
    return played


# A base whose process ended within `reindex` may need either encoder; it is read with one.
@pytest.mark.parametrize("call", [n for n in range(1, len(CALLS)) if CALLS[n].name != "reindex"])
def test_a_process_that_ends_during_recovery_loses_nothing(story, rounds, call):
    rng = random.Random(SEED + call)
    bases = list(killed(story, call, rounds(1, 20)))
    assert bases
    for base in bases:
        steps = operations(story, trial(story, base), call, call, "kill")
        for number in numbers(steps, rounds, rng, 1):
            kb = trial(story, base)
            assert recover(story, kb, call, "kill", number)["killed"]
            if rng.random() < 0.5:  # the second recovery does not finish either
                recover(story, kb, call, "kill", rng.randint(1, len(steps)))
            try:
                story.check(kb, call, call + 1, again=rng.random() < 0.3)
            except Exception as error:
                context = f"operation {number} ({steps[number - 1]}) of the recovery of {base.name}"
                raise AssertionError(f"killed before {context}: {error}") from error


@pytest.mark.parametrize("fault", ["EIO", "call", "lock"])
def test_an_operation_that_fails_during_recovery_loses_nothing(story, rounds, fault):
    for call in (2, 7, 11)[: rounds(1, 3)]:
        rng = random.Random(SEED + call)
        (base,) = killed(story, call, 1)
        steps = operations(story, trial(story, base), call, call, fault)
        for number in numbers(steps, rounds, rng, 1):
            kb = trial(story, base)
            recover(story, kb, call, fault, number)
            try:
                story.check(kb, call, call + 1, again=rng.random() < 0.3)
            except Exception as error:
                context = f"operation {number} ({steps[number - 1]}) of the recovery of {base.name}"
                raise AssertionError(f"{fault} at {context}: {error}") from error
