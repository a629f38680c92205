"""The tests of this folder can fail: they detect deliberate durability errors."""

from __future__ import annotations

import pytest

from tests.crash import tracing
from tests.crash.script import CALLS
from tests.crash.test_fail_points import steps_of
from tests.crash.test_kills import SEED, kill_at_random
from tests.crash.test_power import (
    ADD,
    FOLDER,
    cut,
    cut_the_second,
    headers_too_early,
    left_unsynced,
    moments,
    nothing,
    record,
)

DELETE, COMPACT = 6, 8

_WHY = tracing.missing()
needs_traces = pytest.mark.skipif(_WHY is not None, reason=str(_WHY))


def end_at_every_step(story, call, **how):
    for number in range(1, len(steps_of(story, call)) + 1):
        kb = story.begin(call)
        reply = story.player.run(kb, story.content, call, call + 1, die_at=number, **how)
        if reply["failed"]:
            raise RuntimeError(reply["failed"])
        story.check(kb, call + reply["done"], call + 1)


def kill_many(story, trials, **how):
    for seed in range(SEED, SEED + trials):
        kill_at_random(story, seed, **how)


@pytest.mark.parametrize(
    ("mutation", "message"),
    [
        ("commit_before_pictures", "cannot be read"),
        ("split_change", "half change|not what|were stored of it"),
    ],
)
def test_a_broken_order_is_caught_at_a_durable_step(story, mutation, message):
    with pytest.raises(AssertionError, match=message):
        end_at_every_step(story, ADD, mutation=mutation)


def test_a_change_acknowledged_too_early_is_caught(story):
    with pytest.raises(AssertionError):
        end_at_every_step(story, DELETE, lies=True)
    with pytest.raises(AssertionError):
        kill_many(story, 200, lies=True)


@needs_traces
@pytest.mark.parametrize(
    "mutation",
    [
        "synchronous_normal",
        "unsynced_folders",
        pytest.param("synchronous_off", marks=pytest.mark.slow),
        pytest.param("unsynced_files", marks=pytest.mark.slow),
    ],
)
def test_what_is_not_synced_is_caught(story, mutation):
    recording = record(story, FOLDER, ADD + 1, mutation, mutation=mutation)
    with pytest.raises(AssertionError, match="cut after"):
        cut(story, recording, moments(recording, syncs_only=True), nothing)


@needs_traces
def test_a_name_left_unsynced_is_caught(story):
    (number,) = left_unsynced(story, ADD)[:1]
    with pytest.raises(AssertionError, match="cannot be read"):
        cut_the_second(story, ADD, number, mutation="trusted_leftovers")


@needs_traces
def test_a_header_before_its_cache_is_caught(story):
    recording = record(story, COMPACT, COMPACT + 1, "caches", mutation="unsynced_caches")
    assert headers_too_early(recording)


@pytest.mark.parametrize(
    ("mutation", "level"), [(None, 2), ("synchronous_normal", 1), ("synchronous_off", 0)]
)
def test_every_commit_waits_for_the_disk(story, rounds, mutation, level):
    # Checking the level of one call is enough to show that a mutation is detected.
    for call in range(rounds(1, len(CALLS)) if mutation else len(CALLS)):
        kb = story.begin(call)
        reply = story.player.run(kb, story.content, call, call + 1, count=True, mutation=mutation)
        commits = [step for step in reply["steps"] if step.startswith("after COMMIT")]
        assert commits
        assert {step.rpartition(" ")[2] for step in commits} == {str(level)}, commits


def test_the_script_writes_what_there_is_to_write(story):
    """The script has caches, pictures and several commits a call, so that all are tested."""
    last = story.templates[-1]
    assert any(f.is_file() for f in (last / "indexes").iterdir())
    assert any(f.is_file() for f in (last / "images").rglob("*.png"))
    assert len(story.between[FOLDER]) > 2
    assert len(story.between[CALLS.index(next(c for c in CALLS if c.name == "reindex"))]) > 2


def test_a_state_that_never_was_is_caught(story, tmp_path):
    kb = story.begin(DELETE, "forged")
    with pytest.raises(AssertionError, match="a half change"):
        story.check(kb, DELETE + 2, len(CALLS))


def test_a_handle_may_be_used_again_while_it_is_being_closed(tmp_path):
    trace = tmp_path / "trace"
    trace.write_text(
        "1 close(5<a> <unfinished ...>\n"
        '2 openat(AT_FDCWD, "\\x62", O_WRONLY|O_CREAT, 0644) = 5\n'
        "1 <... close resumed>) = 0\n"
        '2 write(5<b>, "\\x63", 1) = 1\n'
    )
    assert [call.name for call in tracing.calls(trace)] == ["close", "openat", "write"]
