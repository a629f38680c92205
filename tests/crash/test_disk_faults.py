"""Operations of SQLite that fail one by one: a change happens completely or not at all."""

from __future__ import annotations

import random
import shutil

import pytest

from ku_rag import KnowledgeBase
from tests.crash.faulty_disk import FAULTS
from tests.crash.script import CALLS
from tests.data.bases.stored import OUTDATED, unpack

SEED = 20240614
NAMES = [call.name for call in CALLS]
FAILING = [fault for fault in FAULTS if fault not in ("kill", "short")]


def operations(story, kb, call, stop, fault):
    """The operations of a call that a fault affects."""
    played = story.player.run(kb, story.content, call, stop, fault=fault, count=True)
    assert played["done"] == 1, played
    return played["steps"]


def numbers(steps, rounds, rng, few):
    """Numbers of operations, from 1: a random sample, or all of them."""
    return rng.sample(range(1, len(steps) + 1), rounds(few, len(steps)))


def fail(story, call, fault, number, *, lasting, retry):
    """Let an operation of a call fail, and check the base; return the refusal."""
    kb = story.begin(call)
    how = {"fault": fault, "at": number, "lasting": lasting, "retry": retry}
    played = story.player.run(kb, story.content, call, call + 1, **how)
    assert not played["failed"], played["failed"]
    assert not played["killed"]
    assert played["refused"] or played["done"], played
    story.check(kb, call + played["done"], call + 1)
    return played["refused"]


@pytest.mark.parametrize("call", range(len(CALLS)), ids=NAMES)
def test_an_operation_that_fails_loses_nothing(story, rounds, call):
    rng = random.Random(SEED + call)
    for fault in rng.sample(FAILING, rounds(1, len(FAILING))):
        steps = operations(story, story.begin(call), call, call + 1, fault)
        assert steps
        for number in numbers(steps, rounds, rng, 1):
            # A lock that is never granted is waited for; another test covers that.
            lasting = fault != "lock" and rng.random() < 0.5
            try:
                fail(story, call, fault, number, lasting=lasting, retry=rng.random() < 0.5)
            except Exception as error:
                at = f"operation {number} ({steps[number - 1]}) of {CALLS[call].name!r}"
                how = "and all after it" if lasting else "once"
                raise AssertionError(f"{fault} at {at}, {how}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 20])
def test_a_lock_that_is_never_granted_is_waited_for_and_reported(story, number):
    refused = fail(story, 1, "lock", number, lasting=True, retry=False)
    assert refused.startswith("Locked: another process uses "), refused


def test_short_reads_and_writes_are_no_errors(story, rounds):
    for call in range(1, 1 + rounds(1, len(CALLS) - 1)):
        assert fail(story, call, "short", 1, lasting=True, retry=False) is None


@pytest.mark.parametrize("version", OUTDATED)
def test_an_operation_of_an_upgrade_that_fails_leaves_the_old_base_or_the_new_one(
    story, tmp_path, rounds, version
):
    template, kb = unpack(version, tmp_path / "template") / "kb", tmp_path / "kb"
    rng = random.Random(SEED)

    def play(**how):
        shutil.rmtree(kb, ignore_errors=True)
        shutil.copytree(template, kb)
        return story.player.run(kb, kb, 0, 1, upgrade=True, **how)

    for fault in rng.sample(FAILING, rounds(1, len(FAILING))):
        steps = play(fault=fault, count=True)["steps"]
        for number in numbers(steps, rounds, rng, 2):
            lasting = fault != "lock" and rng.random() < 0.5
            played = play(fault=fault, at=number, lasting=lasting)
            context = f"{fault} at operation {number} ({steps[number - 1]}), lasting: {lasting}"
            assert not played["failed"], (context, played["failed"])
            assert played["refused"] or played["done"], (context, played)
            KnowledgeBase.upgrade(kb)
            with KnowledgeBase.open(kb, read_only=True) as base:
                assert base.verify().problems == (), context
                assert base.query(None, "Where was Anna Holm born?").answer == "Vienna", context
