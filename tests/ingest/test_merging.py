"""Merging two units that are the same thing."""

from __future__ import annotations

import json

import pytest

from ku_rag import BadInput, KnowledgeBase, NotFound, Unit
from ku_rag.types import Cell, Table
from tests.conftest import picture


@pytest.fixture
def kb(tmp_path):
    things = [
        {
            "id": "a", "name": "Eiffel Tower", "kind": "tower", "texts": ["It is 330 m high."],
            "metadata": {"city": "Paris"},
            "relations": [{"relation": "stands in", "target": "Paris"}],
        },
        {
            "id": "b", "name": "Tour Eiffel", "texts": ["Colour: brown."],
            "metadata": {"city": "Lyon", "built": 1889},
            "relations": [{"relation": "near", "target": "Seine"}],
        },
        {"id": "c", "name": "Guide", "texts": ["The Tour Eiffel is crowded."],
         "relations": [{"relation": "describes", "target": "b"}]},
    ]  # fmt: skip
    file = tmp_path / "things.jsonl"
    file.write_text("\n".join(map(json.dumps, things)))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.ingest(file)
        kb.add(Unit("Tour Eiffel", images=[picture(tmp_path / "b.png", 2)]))
        links = Table(["Place"], [[Cell("the tower", "b")]])
        kb.add(Unit("Tickets", id="d", tables=[links]))
        kb.update("b", aliases=["Iron Lady"])
        yield kb


def test_the_merged_unit_has_the_contents_of_both(kb):
    kb.merge("Eiffel Tower", "Tour Eiffel")
    unit = kb.show("a")
    assert (unit.name, unit.kind) == ("Eiffel Tower", "tower")
    assert set(unit.aliases) == {"Tour Eiffel", "Iron Lady"}
    assert unit.metadata == {"city": "Paris", "built": 1889}
    assert set(unit.texts) == {"It is 330 m high.", "Colour: brown."}
    assert {(r.relation, r.target) for r in unit.relations} == {
        ("stands in", "Paris"),
        ("near", "Seine"),
    }
    assert len(unit.images) == 1
    mentions = [mention.text for mention in unit.named_in]
    assert mentions == ["The Tour Eiffel is crowded.", "Place: the tower"]
    facts = {(fact.label, fact.value, fact.origin) for fact in kb.facts("a")}
    assert {("Colour", "brown.", "text"), ("describes", "Guide", "inverse relation")} <= facts
    assert kb.tables("d")[0].rows == ((Cell("the tower", "a"),),)
    assert [unit.id for unit in kb.list()] == ["a", "c", "d"]
    assert kb.verify().problems == ()
    assert kb.show("Iron Lady").id == "a"


def test_a_dry_run_returns_the_merged_unit_and_changes_nothing(kb):
    before, commits = [unit.to_dict() for unit in kb.list()], kb.commits
    preview = kb.merge("a", "b", dry_run=True)
    assert [unit.to_dict() for unit in kb.list()] == before
    assert kb.commits == commits
    assert kb.merge("a", "b") == preview


def test_ingesting_the_same_and_changed_files_keeps_the_merge(kb, tmp_path):
    kb.merge("a", "b")
    merged = kb.show("a")
    assert kb.ingest(tmp_path / "things.jsonl").units_added == 0
    assert kb.show("a") == merged
    file = tmp_path / "things.jsonl"
    file.write_text(file.read_text().replace("brown", "grey"))
    kb.ingest(file)
    assert set(kb.show("a").texts) == {"It is 330 m high.", "Colour: grey."}
    assert kb.show("a").name == "Eiffel Tower"
    assert len(kb.list()) == 3
    assert kb.verify().problems == ()


def test_deleting_the_source_that_joined_takes_its_contents_away(kb):
    kb.merge("a", "b")
    joined = [source.uri for source in kb.show("a").sources if source.origin == "join"]
    assert len(joined) == 3
    kb.delete(joined)
    assert kb.show("a").aliases == ()
    assert kb.show("a").texts == ("It is 330 m high.",)
    assert kb.verify().problems == ()


def test_stored_answers_lead_to_the_merged_unit(kb):
    id = kb.answers.add(kb.query(None, "What is the colour of the Iron Lady?"), about="b")
    kb.answers.judge(id, "right", unit="b")
    kb.merge("a", "b")
    stored = kb.answers.get(id)
    assert (stored.about, stored.unit, stored.answer) == ("a", "a", "brown.")
    assert "b" not in {unit["id"] for unit in stored.data["units"]}
    assert "b" not in {id for chunk in stored.data["chunks"] for id in chunk["unit_ids"]}


def test_a_unit_is_not_merged_with_itself_or_with_nothing(kb):
    with pytest.raises(BadInput, match="are the same unit"):
        kb.merge("a", "Eiffel Tower")
    with pytest.raises(NotFound, match="there is no unit 'x'"):
        kb.merge("a", "x")


def test_changes_from_before_a_merge_cannot_be_undone(kb):
    """The state before them lacks the texts of the other unit."""
    kb.update("a", texts=["It is 312 m high."])
    kb.merge("a", "b", dry_run=True)
    assert len(kb.history("a")) == 1
    kb.merge("a", "b")
    with pytest.raises(NotFound, match="merges and `ku compact` delete it"):
        kb.undo("a")
    assert "Colour: brown." in kb.show("a").texts
    kb.update("a", name="Tower")
    assert kb.undo("a").id == kb.show("Eiffel Tower").id == "a"


def test_a_dry_run_is_not_part_of_a_transaction(kb):
    with pytest.raises(BadInput, match="a dry run cannot be part"), kb.transaction():
        kb.merge("a", "b", dry_run=True)
    assert kb.show("b").name == "Tour Eiffel"
