"""Processes killed at random moments: nothing is lost or incomplete."""

from __future__ import annotations

import random

import pytest

from tests.crash.script import CALLS

SEED = 20240611


def kill_at_random(story, seed, **how):
    """One trial: up to three calls, and a kill during them or just after."""
    rng = random.Random(seed)
    start = rng.randrange(len(CALLS))
    stop = min(len(CALLS), start + rng.randint(1, 3))
    delay = rng.uniform(0, 1.2 * sum(story.seconds[start:stop]))
    kb = story.begin(start)
    reply = story.player.run(kb, story.content, start, stop, delay=delay, **how)
    assert not reply["failed"], reply
    assert not reply["refused"], reply
    story.check(kb, start + reply["done"], stop)
    return reply["killed"]


@pytest.mark.parametrize("part", range(4))
def test_random_kills(story, rounds, part):
    count = rounds(3, 500)
    killed = 0
    first = SEED + part * 10 * count
    for seed in range(first, first + 8 * count):  # some end before they are killed
        try:
            killed += kill_at_random(story, seed)
        except Exception as error:
            raise AssertionError(f"kill_at_random(story, {seed}) failed: {error}") from error
        if killed == count:
            return
    pytest.fail(f"only {killed} of {8 * count} processes were killed before they were through")
