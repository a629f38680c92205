"""Processes that end at each of their durable steps, and files that fail at each."""

from __future__ import annotations

import errno
import random

import pytest

from ku_rag.errors import KuError
from tests.crash import durable
from tests.crash.script import CALLS

SEED = 20240612
NAMES = [call.name for call in CALLS]


def chosen(steps, rounds, seed, few):
    """Numbers of steps, from 1: the first, the last and a sample between, or all of them."""
    numbers = range(1, len(steps) + 1)
    count = rounds(few, len(steps))
    return sorted({*numbers[:1], *numbers[-1:], *random.Random(seed).sample(numbers, count)})


def steps_of(story, call):
    kb = story.begin(call)
    reply = story.player.run(kb, story.content, call, call + 1, count=True)
    assert reply["done"] == 1, reply
    return reply["steps"]


@pytest.mark.parametrize("call", range(len(CALLS)), ids=NAMES)
def test_a_process_that_ends_at_a_durable_step_leaves_the_base_whole(story, rounds, call):
    steps = steps_of(story, call)
    assert any(step.startswith("COMMIT") for step in steps)
    for number in chosen(steps, rounds, SEED + call, 1):
        kb = story.begin(call)
        reply = story.player.run(kb, story.content, call, call + 1, die_at=number)
        # Two threads write; the order of their steps varies.
        assert reply["killed"] or number >= len(steps) - 3, (number, steps, reply)
        try:
            story.check(kb, call + reply["done"], call + 1)
        except Exception as error:
            context = f"step {number} of {CALLS[call].name!r} ({steps[number - 1]})"
            raise AssertionError(f"killed before {context}: {error}") from error


@pytest.mark.parametrize("call", range(len(CALLS)), ids=NAMES)
def test_a_file_system_that_fails_loses_nothing(story, rounds, call):
    rng = random.Random(SEED + call)
    everything = steps_of(story, call)
    points = [
        (code, number)
        for code in (errno.ENOSPC, errno.EIO, errno.EROFS)
        for number, _ in enumerate(failing(everything, code), 1)
    ]
    for code, number in rng.sample(points, rounds(1, len(points))):
        how = {"error": code, "at": number, "lasting": rng.random() < 0.5}
        kb = story.begin(call)
        played = story.player.run(kb, story.content, call, call + 1, **how)
        assert not played["failed"], (call, how, played["failed"])
        story.check(kb, call + played["done"], call + 1)


def failing(steps, code):
    """The steps that can fail with an error."""
    return [step for step in steps if step.startswith(durable.failing_steps(code))]


def sizes(story, call):
    """Sizes at which files of the base cannot grow, up to more than it needs."""
    base = story.templates[call]
    largest = max((f.stat().st_size for f in base.rglob("*") if f.is_file()), default=0)
    return [0, 100, 4096, 40_000, largest, largest + 20_000, largest + 200_000, 1 << 30]


@pytest.mark.parametrize("call", range(len(CALLS)), ids=NAMES)
def test_files_that_cannot_grow_lose_nothing(story, rounds, call):
    refused = 0
    limits = sizes(story, call)
    count = rounds(1, len(limits))
    for limit in {limits[0], *random.Random(SEED + call).sample(limits, count)}:
        kb = story.begin(call)
        reply = story.player.run(kb, story.content, call, call + 1, bytes=limit)
        assert not reply["failed"], (limit, reply)
        assert reply["refused"] or reply["done"], (limit, reply)
        refused += bool(reply["refused"])
        story.check(kb, call + reply["done"], call + 1)
    assert refused, "no limit was small enough to be met"


def test_errors_of_a_full_disk_are_ours(story):
    kb = story.begin(1)
    reply = story.player.run(kb, story.content, 1, 2, bytes=4096)
    kind, _, message = reply["refused"].partition(": ")
    assert kind == "ReadOnly" in {error.__name__ for error in KuError.__subclasses__()}
    assert "what was committed before is safe" in message
