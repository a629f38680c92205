"""Upgrades that end at any write: the base is the old or the new one, and can be upgraded."""

from __future__ import annotations

import random
import shutil

import pytest

from ku_rag import KnowledgeBase
from ku_rag.errors import Outdated
from tests.data.bases.stored import OUTDATED, unpack

SEED = 20261124
KILLS = 50


def dump(folder):
    """Units, chunks, lists, relations and derived content."""
    with KnowledgeBase.open(folder, read_only=True) as kb:
        assert kb.verify().problems == ()
        units = {unit.id: kb.show(unit.id).to_dict() for unit in kb.list()}
        return units, kb.query(None, "Where was Anna Holm born?").answer


@pytest.mark.parametrize("version", OUTDATED)
def test_an_upgrade_that_is_killed_leaves_the_old_base_or_the_new_one(
    story, tmp_path, version, rounds
):
    template = unpack(version, tmp_path / "template") / "kb"
    kb = tmp_path / "kb"

    def play(**how):
        shutil.rmtree(kb, ignore_errors=True)
        shutil.copytree(template, kb)
        return story.player.run(kb, kb, 0, 1, upgrade=True, **how)

    steps = play(count=True)["steps"]
    whole = dump(kb)
    assert whole[1] == "Vienna"
    numbers = random.Random(SEED).sample(range(1, len(steps) + 1), rounds(3, KILLS))
    ends = set()
    for number in numbers:
        assert play(die_at=number)["killed"], (number, len(steps))
        try:
            actual = dump(kb)
            ends.add("new")
        except Outdated:
            actual = None
            ends.add("old")
        assert KnowledgeBase.upgrade(kb).upgraded == (actual is None)
        actual = actual or dump(kb)
        assert actual == whole, (number, steps[number - 1])
        assert not (kb / "ku.upgrade").exists()
    assert "old" in ends


@pytest.mark.parametrize("version", OUTDATED)
def test_files_that_cannot_grow_leave_the_old_base(story, tmp_path, version):
    template = unpack(version, tmp_path / "template") / "kb"
    kb = tmp_path / "kb"
    size = (template / "ku.sqlite").stat().st_size
    for limit in (0, 4096, 40_000, size // 2):
        shutil.rmtree(kb, ignore_errors=True)
        shutil.copytree(template, kb)
        reply = story.player.run(kb, kb, 0, 1, upgrade=True, bytes=limit)
        assert reply["refused"].startswith("ReadOnly: "), reply
        with pytest.raises(Outdated):
            KnowledgeBase.open(kb, read_only=True)
    assert KnowledgeBase.upgrade(kb).upgraded
    assert dump(kb)[1] == "Vienna"
