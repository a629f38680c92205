"""Resolution of names to units: in any order of files, and after they change."""

from __future__ import annotations

import pytest

from ku_rag import Relation, Unit
from tests.conftest import write_records


def ends(kb):
    """(head, relation, tail) of every relation, by ids; `~name` for a tail without a unit."""
    assert kb.verify().problems == ()
    return [
        (unit.id, relation["relation"], relation["tail"]["id"] or f"~{relation['tail']['name']}")
        for unit in kb.list()
        for relation in kb.graph.show(unit.id).to_dict()["out"]
    ]


def names(kb, unit):
    details = kb.show(unit).to_dict()
    return {details["name"], *details["aliases"]}


def test_an_entity_that_is_no_longer_said_to_be_a_unit_leaves_that_alone(kb, tmp_path):
    kb.graph.add_entity("Wolf", kind="animal")
    kb.graph.add_relation("Dog", "descends from", "Wolf")
    file = tmp_path / "a.jsonl"
    kb.graph.import_file(write_records(file, [{"entity": "Lupo", "unit": "Wolf"}]))
    assert names(kb, "Wolf") == {"Wolf", "Lupo"}
    kb.graph.import_file(write_records(file, [{"entity": "Lupo"}]))
    assert {unit.id for unit in kb.list()} == {"Wolf", "Dog", "Lupo"}
    assert names(kb, "Wolf") == {"Wolf"}
    assert ends(kb) == [("Dog", "descends from", "Wolf")]


@pytest.mark.parametrize("fields", [{}, {"text": "It howls."}, {"kind": "animal"}])
def test_an_entity_moves_to_the_unit_that_it_is_said_to_be_now(kb, tmp_path, fields):
    for name in ("Wolf", "Dog"):
        kb.graph.add_entity(name)
    file = tmp_path / "a.jsonl"
    stated = {"head": "Lupo", "relation": "eats", "tail": "Hare"}
    for unit in ("Wolf", "Dog", "Wolf"):
        lines = [{"entity": "Lupo", "unit": unit, **fields}, stated]
        kb.graph.import_file(write_records(file, lines))
        assert ends(kb) == [(unit, "eats", "~Hare")]
        other = "Dog" if unit == "Wolf" else "Wolf"
        assert (names(kb, unit), names(kb, other)) == ({unit, "Lupo"}, {other})
        assert (kb.show(other).to_dict()["texts"], kb.show(other).to_dict()["kind"]) == (
            [],
            "entity",
        )
        assert kb.graph.import_file(file).units_updated == 0


def test_an_entity_whose_metadata_are_refused_keeps_its_relations(kb, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"entity": "B", "kind": "x", "n": 1e999}\n{"head": "B", "relation": "r", "tail": "C"}\n'
        '{"head": "A", "relation": "r", "tail": "B"}\n'
    )
    report = kb.graph.import_file(tmp_path / "a.jsonl")
    (problem,) = report.quarantined
    assert problem.reason.endswith("; the rest of the record is kept")
    assert ends(kb) == [("A", "r", "B"), ("B", "r", "~C")]
    assert kb.show("B").to_dict()["kind"] == "x"


@pytest.mark.parametrize("content", [b"xx", b"\x89PNG\r\n\x1a\n"])
def test_an_entity_whose_only_picture_is_broken_is_kept(kb, tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    lines = [
        {"entity": "F", "topic": True, "caption": "Big.", "images": ["a.png"]},
        {"head": "F", "relation": "r", "tail": "E"},
    ]
    report = kb.graph.import_file(write_records(tmp_path / "a.jsonl", lines))
    assert [problem.item for problem in report.quarantined] == [str(tmp_path / "a.png")]
    assert ends(kb) == [("F", "r", "~E")]
    assert kb.graph.show("F").to_dict()["caption"] == "Big."


@pytest.mark.parametrize("name", ["ZINOGRE", "Thunder Wolf", "z1"])
def test_whoever_describes_a_name_takes_its_relations_over(kb, name):
    kb.graph.add_relation("Hunter", "hunts", name)
    assert ends(kb) == [("Hunter", "hunts", f"~{name}")]
    kb.graph.add_entity("Zinogre", id="z1", kind="monster", aliases=("Thunder Wolf",))
    assert ends(kb) == [("Hunter", "hunts", "z1")]
    kb.delete(["z1"])
    kb.add(Unit("Zinogre", id="z2", kind="monster", aliases=("Thunder Wolf",)))
    assert ends(kb) == []


@pytest.mark.parametrize("first", ["a", "b"])
def test_it_makes_no_difference_which_file_comes_first(kb, tmp_path, first):
    write_records(
        tmp_path / "a.jsonl", [{"head": "Hunter", "relation": "hunts", "tail": "ZINOGRE"}]
    )
    write_records(tmp_path / "b.jsonl", [{"entity": "Zinogre", "kind": "monster"}])
    for name in (first, "ab".replace(first, "")):
        kb.graph.import_file(tmp_path / f"{name}.jsonl")
    assert ends(kb) == [("Hunter", "hunts", "Zinogre")]


def test_what_a_file_said_before_it_was_changed_does_not_count(kb, tmp_path):
    kb.graph.add_entity("Wolf")
    file = tmp_path / "a.jsonl"
    kb.graph.import_file(write_records(file, [{"entity": "Wolf", "aliases": ["Thunder"]}]))
    stated = [{"head": "X", "relation": "r", "tail": "Thunder"}]
    stated += [{"head": "Thunder", "relation": "s", "tail": "Y"}]
    kb.graph.import_file(write_records(file, stated))
    first = ends(kb)
    assert set(first) == {("X", "r", "Thunder"), ("Thunder", "s", "~Y")}
    report = kb.graph.import_file(file)
    assert (report.units_added, report.units_updated) == (0, 0)
    assert ends(kb) == first


def test_what_others_state_of_an_entity_that_a_file_drops_waits_for_it(kb, tmp_path):
    file = tmp_path / "a.jsonl"
    kb.graph.import_file(write_records(file, [{"entity": "Z", "kind": "monster"}]))
    kb.graph.add_relation("Q", "fears", "Z")
    other_file = write_records(
        tmp_path / "b.jsonl", [{"head": "B", "relation": "fears", "tail": "Z"}]
    )
    kb.graph.import_file(other_file)
    for name, end in (("W", "~Z"), ("Z", "Z"), ("W", "~Z")):
        kb.graph.import_file(write_records(file, [{"entity": name, "kind": "monster"}]))
        assert ends(kb) == [("B", "fears", end), ("Q", "fears", end)]
    kb.graph.import_file(other_file)
    assert ends(kb) == [("B", "fears", "~Z"), ("Q", "fears", "~Z")]
    assert kb.delete(["W"]).to_dict()["units"] == ["W"]


def test_relations_stay_at_a_unit_that_is_renamed(kb):
    kb.add(Unit("Lamp", id="l", texts=("It burns.",)))
    kb.add(Unit("Desk", id="d", relations=(Relation("holds", "LAMP"),)))
    for name in ("Lantern", "Torch"):
        kb.update("l", name=name)
        assert ends(kb) == [("d", "holds", "l")]
    kb.add(Unit("Lamp", id="m", texts=("It is another.",)))
    kb.add(Unit("Chair", id="c", relations=(Relation("faces", "Lamp"),)))
    assert ends(kb) == [("c", "faces", "m"), ("d", "holds", "l")]
    kb.delete(["l"])
    assert ends(kb) == [("c", "faces", "m")]


def test_a_name_that_one_unit_gives_up_and_another_takes_in_the_same_file(kb, tmp_path):
    lamp = {"id": "l", "name": "Lamp", "text": "It burns."}
    file = write_records(tmp_path / "a.jsonl", [lamp])
    kb.ingest(file)
    kb.add(Unit("Desk", id="d", relations=(Relation("holds", "Lamp"),)))
    kb.ingest(write_records(file, [lamp | {"name": "Torch"}, lamp | {"id": "m"}]))
    assert ends(kb) == [("d", "holds", "l")]


def test_a_renamed_entity_keeps_relations_of_other_files(kb, tmp_path):
    file = write_records(tmp_path / "a.jsonl", [{"entity": "Wolf", "id": "w", "kind": "animal"}])
    relations = [
        {"head": "Dog", "relation": "descends from", "tail": "Wolf", "tail_kind": "animal"}
    ]
    kb.graph.import_file(file)
    kb.graph.import_file(write_records(tmp_path / "b.jsonl", relations))
    assert ends(kb) == [("Dog", "descends from", "w")]
    kb.graph.import_file(write_records(file, [{"entity": "Grey Wolf", "id": "w"}]))
    assert ends(kb) == [("Dog", "descends from", "w")]
    kb.graph.import_file(write_records(file, [{"entity": "Fox"}]))
    assert ends(kb) == [("Dog", "descends from", "~Wolf")]
