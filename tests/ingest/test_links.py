"""The inverted index depends on names and texts only, not on their order."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ku_rag import KnowledgeBase, Unit
from tests.conftest import lists

NAMES = [
    "New York",
    "York",
    "Café",
    "Straße 7",
    "北京",
    "北京大学",
    "O'Neil",
    "İzmir",
    "ﬁn",
    "rose",
]
WORDS = [
    *NAMES,
    "strasse 7",
    "CAFE",
    "new",
    "大学",
    "在北京",
    "yorks",
    "roses",
    "and",
    "。",
    "-",
    "in",
]

texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
units = st.lists(
    st.tuples(st.sampled_from(NAMES), texts), min_size=1, max_size=6, unique_by=lambda u: u[0]
)


@given(units=units, seed=st.integers(0, 1000))
def test_any_order_of_the_same_records_gives_the_same_links(units, seed):
    records = [Unit(name, id=f"u{n}", texts=(text,)) for n, (name, text) in enumerate(units)]
    shuffled = random.Random(seed).sample(records, len(records))
    results = []
    for order in (records, shuffled):
        with (
            tempfile.TemporaryDirectory() as folder,
            KnowledgeBase.open(Path(folder) / "kb", create=True) as kb,
        ):
            for unit in order:
                kb.add(unit)
            results.append(lists(kb))
            assert kb.verify().problems == ()
    assert results[0] == results[1]


@given(units=units, text=texts, new=st.sampled_from(NAMES))
def test_renaming_and_deleting_leave_the_links_of_what_is_left(units, text, new):
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.open(Path(folder) / "kb", create=True) as kb,
    ):
        kb.add(Unit("witness", id="w", texts=(text,)))
        for n, (name, own) in enumerate(units):
            kb.add(Unit(name, id=f"u{n}", texts=(own,)))
        kb.update("u0", name=new)
        if len(units) > 1:
            kb.delete(["u1"])
        assert kb.verify().problems == ()


def test_a_name_is_found_across_case_diacritics_ligatures_and_scripts(kb):
    kb.add(Unit("Café Straße", id="cafe"))
    kb.add(Unit("北京", id="beijing"))
    kb.add(Unit("fin", id="fin"))
    kb.add(
        Unit("witness", id="w", texts=("In the CAFE STRASSE they speak of 我爱北京天安门 and ﬁn.",))
    )
    assert [u for u in lists(kb) if u != "w"] == ["beijing", "cafe", "fin"]


def test_a_name_inside_a_word_is_no_mention(kb):
    kb.add(Unit("rose", id="rose"))
    kb.add(Unit("witness", id="w", texts=("He rises, she primroses, they ROSE.",)))
    kb.add(Unit("other", id="o", texts=("primroses",)))
    assert [text for text, _ in lists(kb)["rose"]] == ["He rises, she primroses, they ROSE."]


@pytest.mark.parametrize("name", ["It", "Can", "A", "7"])
def test_short_and_common_names_are_not_looked_up(kb, name):
    kb.add(Unit(name, id="x"))
    kb.add(Unit("witness", id="w", texts=("It can be a 7.",)))
    assert "x" not in lists(kb)


def test_names_in_metadata_count_and_match_false_keeps_names_out(kb):
    kb.add(Unit("Lamp", id="lamp", metadata={"aliases": ["Lantern"], "alias": "Torch"}))
    kb.add(Unit("Bulb", id="bulb", match=False))
    kb.add(Unit("witness", id="w", texts=("A lantern, a torch, a bulb.",)))
    assert lists(kb)["lamp"] == [("A lantern, a torch, a bulb.", 0)]
    assert "bulb" not in lists(kb)
