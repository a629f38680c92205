"""Processes killed at random moments: nothing is lost, and nothing is half there."""

from __future__ import annotations

import random

import pytest

from tests.crash.script import CALLS

SEED = 20240611


def kill_at_random(story, seed, **how):
    """One trial: up to three calls, and a kill somewhere in them or just after."""
    rng = random.Random(seed)
    start = rng.randrange(len(CALLS))
    stop = min(len(CALLS), start + rng.randint(1, 3))
    delay = rng.uniform(0, 1.2 * sum(story.seconds[start:stop]))
    kb = story.begin(start)
    done = story.player.run(kb, story.content, start, stop, delay=delay, **how)
    assert not done["failed"], done
    assert not done["refused"], done
    story.check(kb, start + done["done"], stop)
    return done["killed"]


@pytest.mark.parametrize("part", range(4))
def test_random_kills(story, rounds, part):
    wanted = rounds(3, 500)
    killed = 0
    first = SEED + part * 10 * wanted
    for seed in range(first, first + 8 * wanted):  # some are through before they are killed
        try:
            killed += kill_at_random(story, seed)
        except Exception as error:
            raise AssertionError(f"kill_at_random(story, {seed}) failed: {error}") from error
        if killed == wanted:
            return
    pytest.fail(f"only {killed} of {8 * wanted} processes were killed before they were through")
