"""Changes by hand: their history and undo."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, NotFound, Unit
from ku_rag.types import Relation, Table
from tests.conftest import picture

SECRET = "Quetzalcoatlus"


@pytest.fixture
def kb(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        lamp = Unit(
            "Lamp",
            id="lamp",
            texts=[f"It is a {SECRET}."],
            images=[picture(tmp_path / "lamp.png", 1)],
            relations=[Relation("stands in", "hall", information="left")],
            tables=[Table(["Part", "Weight"], [["Foot", "3 kg"]])],
            metadata={"watt": 60},
        )
        kb.add_many([lamp, Unit("Hall", id="hall")])
        yield kb


def state(kb):
    unit = kb.show("lamp")
    fields = (unit.name, unit.kind, unit.aliases, unit.texts, unit.images, dict(unit.metadata))
    return fields, set(unit.relations), kb.tables("lamp")


def change_all(kb):
    kb.update(
        "lamp", name="Torch", kind="tool", aliases=["Light"], texts=["It burns."], images=[],
        metadata={"watt": 40}, relations=[Relation("stands in", "Cellar")], by="Ann",
    )  # fmt: skip


def test_a_change_is_in_the_history_with_the_values_before_and_after(kb):
    change_all(kb)
    [change] = kb.history("lamp")
    assert change.by == "Ann"
    assert change.fields["name"] == ["Lamp", "Torch"]
    assert change.fields["texts"] == [[f"It is a {SECRET}."], ["It burns."]]
    assert change.fields["metadata"] == [{"watt": 60}, {"watt": 40}]
    assert change.fields.keys() == {
        "name", "kind", "aliases", "texts", "images", "metadata", "relations",
    }  # fmt: skip
    kb.update("lamp", name="Torch")
    assert len(kb.history("lamp")) == 1


def test_undo_restores_all_fields_and_can_be_undone(kb):
    before = state(kb)
    change_all(kb)
    changed = state(kb)
    kb.undo("lamp")
    assert state(kb) == before
    kb.undo("lamp")
    assert state(kb) == changed
    assert kb.verify().problems == ()


def test_an_earlier_change_is_undone_by_its_number(kb):
    kb.update("lamp", kind="tool")
    kb.update("lamp", metadata={})
    kb.undo("lamp", kb.history("lamp")[1].number)
    assert (kb.show("lamp").kind, kb.show("lamp").metadata) == ("entity", {})
    with pytest.raises(NotFound, match="no such change"):
        kb.undo("lamp", 99)


def test_texts_are_replaced_without_the_tables(kb):
    kb.update("lamp", texts=["It burns."])
    assert kb.tables("lamp")[0].name == ""
    assert kb.show("lamp").texts == ("It burns.", "Part: Foot\nWeight: 3 kg")


def test_as_many_changes_are_kept_as_the_setting_says(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True, history=2) as kb:
        kb.add(Unit("Lamp", id="lamp"))
        for number in range(4):
            kb.update("lamp", kind=f"kind {number}")
        assert [change.fields["kind"][1] for change in kb.history("lamp")] == ["kind 3", "kind 2"]


def files_with(kb, text):
    kb.close()
    return [file for file in kb.path.rglob("*") if file.is_file() and text in file.read_bytes()]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_compaction_erases_replaced_values_and_pictures(kb, is_deleted):
    old = (kb.path / "images").glob("*/*")
    data = next(old).read_bytes()
    kb.update("lamp", texts=["It burns."], images=[])
    if is_deleted:
        kb.delete("lamp")
    else:
        assert len(kb.history("lamp")) == 1
    kb.compact()
    assert is_deleted or kb.history("lamp") == []
    assert files_with(kb, SECRET.encode()) == []
    assert files_with(kb, data) == []
