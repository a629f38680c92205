"""The formats of the graph: import, items that are left out, and round trips."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import graph
from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import BadInput, NotFound, ReadOnly, Refused
from ku_rag.ingest.readers import decoding
from ku_rag.store.connection import snapshot
from ku_rag.types import Relation
from tests.conftest import picture, write_records

openpyxl = pytest.importorskip("openpyxl")
networkx = pytest.importorskip("networkx")

ZINOGRE = [
    {"head": "Zinogre", "relation": "phase of", "tail": "Charged Phase", "condition": "enraged"},
    {"entity": "Zinogre", "kind": "monster", "topic": True, "caption": "A wolf of lightning."},
    {"entity": "Charged Phase", "id": "Zinogre>Charged Phase", "kind": "phase", "colour": "blue"},
    {"head": "Charged Phase", "relation": "continues", "tail": "Zinogre>Charged Phase"},
    {"head": "Zinogre>Charged Phase", "relation": "ends", "tail": "Zinogre"},
    {"head": "Zinogre", "relation": "weak to", "tail": "Ice", "information": "two stars"},
    {"head": "Zinogre", "relation": "fears", "tail": "Ice"},
]


def dump(kb: KnowledgeBase):
    """All content of the graph, without the row numbers that differ between bases."""
    execute = kb._database.connection.execute
    units = {}
    for unit in kb.list():
        details = kb.show(unit.id).to_dict()
        images = sorted(Path(image).name for image in details["images"])
        fields = ("name", "kind", "aliases", "metadata", "match", "texts")
        units[unit.id] = {key: details[key] for key in fields} | {"images": images}
    relations = execute(
        "SELECT h.id, r.relation, coalesce(u.id, t.name), t.kind, u.id IS NULL, r.information, "
        "r.condition FROM relations r JOIN entities e ON e.row = r.head "
        "JOIN units h ON h.row = e.unit JOIN entities t ON t.row = r.tail "
        "LEFT JOIN units u ON u.row = t.unit ORDER BY h.id, r.row"
    ).fetchall()
    return units, relations


def triples(kb: KnowledgeBase) -> list[tuple[str, str, str]]:
    return [(head, word, tail) for head, word, tail, *_ in dump(kb)[1]]


def workbook(path: Path, *rows) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    book.save(path)


@pytest.fixture
def monsters(tmp_path):
    """Two sub-graphs in the published layout."""
    root = tmp_path / "mmkg"
    nodes = ("Name", "Image", "Video", "Human Caption", "Additional Information")
    stated = ("Head", "Relation", "Information", "Condition", "Tail")
    workbook(
        root / "Zinogre" / "Node.xlsx",
        nodes,
        ("Zinogre", "Zinogre.png", None, "A wolf of lightning.", "It lives in forests."),
        ("Bite", "bite", "Bite.mp4", "It bites.", None),
        ("Fire Element", None, None, None, None),
        (7, None, None, None, None),
    )
    workbook(
        root / "Zinogre" / "Relations.xlsx",
        stated,
        ("Zinogre", "attack of", "twice", "enraged", "Bite"),
        ("Bite", "continues", None, None, "Slam"),
        ("Bite", "hurts", None, None, "Rathian"),
        ("Zinogre", "weak to", None, None, "Fire Element"),
        ("Zinogre", "counts", None, None, 7),
    )
    workbook(root / "Rathian" / "Node.xlsx", nodes, ("Bite", None, None, "Another bite.", None))
    workbook(
        root / "Rathian" / "Relations.xlsx", stated, ("Rathian", "attack of", None, None, "Bite")
    )
    images = root / "Zinogre" / "Knowledge_Images"
    picture(images / "Zinogre.png", 1)
    picture(images / "bite" / "1.png", 2)
    picture(images / "bite" / "2.png", 3)
    (root / "Zinogre" / "Knowledge_Videos").mkdir()
    (root / "Zinogre" / "Knowledge_Videos" / "Bite.mp4").write_bytes(b"frames")
    return root


# ---- JSON lines --------------------------------------------------------------------------------


def test_lines_in_any_order_make_entities_and_relations(kb, tmp_path):
    report = kb.graph.import_file(write_records(tmp_path / "g.jsonl", ZINOGRE))
    assert report.to_dict() | {"seconds": 0} == {
        "units_added": 2,
        "units_updated": 0,
        "units_unchanged": 0,
        "chunks_added": 0,
        "images_added": 0,
        "relations_added": 5,
        "quarantined": [],
        "seconds": 0,
        "units_deleted": [],
        "only_named": 1,
    }
    units, stated = dump(kb)
    assert units["Zinogre"] == {
        "name": "Zinogre",
        "kind": "monster",
        "aliases": [],
        "metadata": {"topic": True, "caption": "A wolf of lightning."},
        "match": True,
        "texts": [],
        "images": [],
    }
    assert units["Zinogre>Charged Phase"]["metadata"] == {"colour": "blue"}
    assert not units["Zinogre>Charged Phase"]["match"]
    phase = "Zinogre>Charged Phase"
    assert stated == [
        ("Zinogre", "phase of", phase, "phase", 0, None, "enraged"),
        ("Zinogre", "weak to", "Ice", "entity", 1, "two stars", None),
        ("Zinogre", "fears", "Ice", "entity", 1, None, None),
        (phase, "continues", phase, "phase", 0, None, None),
        (phase, "ends", "Zinogre", "monster", 0, None, None),
    ]
    assert kb.verify().problems == ()


def test_the_same_file_again_changes_nothing_and_a_changed_one_replaces(kb, tmp_path):
    path = write_records(tmp_path / "g.jsonl", ZINOGRE)
    kb.graph.import_file(path)
    before = dump(kb)
    again = kb.graph.import_file(path)
    assert (again.units_unchanged, again.units_updated, again.relations_added) == (2, 0, 0)
    assert dump(kb) == before
    write_records(
        path, [record for record in ZINOGRE if record.get("entity") != "Charged Phase"][:1]
    )
    kb.graph.import_file(path)
    assert triples(kb) == [("Zinogre", "phase of", "Charged Phase")]
    assert list(dump(kb)[0]) == ["Zinogre"]
    assert kb.verify().problems == ()


def test_what_a_file_drops_stays_where_another_says_it(kb, tmp_path):
    first = write_records(tmp_path / "a.jsonl", [{"entity": "Bite"}, {"entity": "Slam"}])
    write_records(tmp_path / "b.jsonl", [{"head": "Bite", "relation": "leads to", "tail": "Slam"}])
    kb.graph.import_file(first)
    kb.graph.import_file(tmp_path / "b.jsonl")
    write_records(first, [{"entity": "Slam", "kind": "attack"}])
    assert kb.graph.import_file(first).units_deleted == []
    assert triples(kb) == [("Bite", "leads to", "Slam")]
    write_records(tmp_path / "b.jsonl", [{"entity": "Other"}])
    assert kb.graph.import_file(tmp_path / "b.jsonl").units_deleted == ["Bite"]
    assert kb.verify().problems == ()


def test_a_broken_line_is_left_out_with_its_number_and_deletes_nothing(kb, tmp_path):
    path = write_records(tmp_path / "g.jsonl", ZINOGRE)
    kb.graph.import_file(path)
    before = dump(kb)[0].keys()
    lines = [
        '{"entity": "Zinogre"',
        "[1, 2]",
        '{"relation": "x", "tail": "y"}',
        '{"head": "Zinogre", "relation": "", "tail": "y"}',
        '{"head": "Zinogre", "relation": "x", "tail": "y", "condition": 3}',
        '{"entity": "Bite", "topic": "very"}',
        '{"entity": "NaN", "metadata": {"x": NaN}}',
        '{"head": "New", "relation": "x", "tail": "New"}',
    ]
    path.write_bytes(b"\n".join([*(line.encode() for line in lines), b'{"entity": "\xff"}']))
    report = kb.graph.import_file(path)
    assert [problem.item for problem in report.quarantined] == [
        f"{path}:{n}" for n in (1, 2, 3, 4, 5, 6, 7, 9)
    ]
    reasons = [problem.reason for problem in report.quarantined]
    assert "the line is no JSON (Expecting ',' delimiter at character 22)" in reasons[0]
    assert "the line holds a list: expected an object" in reasons[1]
    assert reasons[2].startswith("\"entity\" is missing: expected a name; there are 'relation'")
    assert reasons[3].startswith('"relation" is empty')
    assert reasons[4] == '"condition" is the number 3: expected a text in quotation marks'
    assert reasons[5] == '"topic" is the text "very": expected true or false'
    assert "NaN is no JSON number" in reasons[6]
    assert "byte 0xff at offset 12" in reasons[7]
    assert dump(kb)[0].keys() == before | {"New"}
    assert report.units_deleted == []


def test_lines_are_read_alike_however_they_end_and_whatever_lies_beside_them(kb, tmp_path):
    edges = [{"head": "Ä", "relation": "to", "tail": tail} for tail in ("B", "C", "\U0001f600")]
    plain = [json.dumps(edge, ensure_ascii=False) for edge in edges]
    spread = [*plain[:2], '{"head": "X",', '"relation": "to", "tail": "Y"}', "", " ", plain[2]]
    for number, text in enumerate(
        [
            "\n".join(plain),
            "\r\n".join(plain) + "\r\n",
            "\ufeff" + "\n\n".join(plain),
            "\n".join(map(json.dumps, edges)),
            "\n".join(spread),
        ]
    ):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(text.encode())
        report = kb.graph.import_file(path)
        broken = [f"{path}:3", f"{path}:4"] if "X" in text else []
        assert [problem.item for problem in report.quarantined] == broken
        assert triples(kb) == [("Ä", "to", edge["tail"]) for edge in edges] * (number + 1)


def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(kb, tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "MAX_LINE", 200)
    long = [{"entity": "L", "text": "x" * n} for n in (100, 300, 900, 500)]
    path = write_records(tmp_path / "g.jsonl", [*long, {"entity": "last"}, *long[1:2]])
    report = kb.graph.import_file(path)
    numbers = [problem.item.rpartition(":")[2] for problem in report.quarantined]
    assert numbers == ["2", "3", "4", "6"]
    assert all("the line is longer than" in problem.reason for problem in report.quarantined)
    assert sorted(dump(kb)[0]) == ["L", "last"]


def test_names_that_mean_several_are_refused_and_ids_are_not(kb, tmp_path):
    bites = [{"entity": "Bite", "id": f"{of}>Bite"} for of in ("Zinogre", "Rathian")]
    stated = [{"head": "Zinogre>Bite", "relation": "then", "tail": tail} for tail in ("Bite", "X")]
    report = kb.graph.import_file(write_records(tmp_path / "g.jsonl", bites + stated))
    (problem,) = report.quarantined
    assert problem.item == f"{tmp_path / 'g.jsonl'}: Zinogre>Bite —then→ Bite"
    assert problem.reason == (
        "several entities are called 'Bite': name the one that is meant by its id"
    )
    assert triples(kb) == [("Zinogre>Bite", "then", "X")]


def test_a_name_that_several_units_of_the_base_bear_is_refused_as_well(kb, tmp_path):
    for of in ("film", "star"):
        kb.add(Unit("Sun", id=f"sun-{of}", kind=of, aliases=("Day Star",)))
    stated = [{"head": "Earth", "relation": "circles", "tail": "Sun"}]
    stated += [{"head": "Day Star", "relation": "lights", "tail": "Earth"}]
    report = kb.graph.import_file(write_records(tmp_path / "g.jsonl", stated))
    assert [problem.reason for problem in report.quarantined] == [
        "several entities are called 'Day Star': name the one that is meant by its id",
        "several entities are called 'Sun': name the one that is meant by its id",
    ]
    stated[0]["tail"], stated[1]["head"] = "sun-film", "sun-star"
    kb.graph.import_file(write_records(tmp_path / "g.jsonl", stated))
    assert triples(kb) == [("Earth", "circles", "sun-film"), ("sun-star", "lights", "Earth")]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("kind", ["entity", "monster"])
def test_another_spelling_in_a_file_means_the_entity_of_the_file(kb, tmp_path, kind, order):
    records = [
        {"entity": "Zinogre", "kind": kind, "aliases": ["Thunder Wolf"]},
        {"head": "ZINOGRE", "relation": "bites", "tail": "Rathian"},
        {"head": "Rathian", "relation": "fears", "tail": "thunder wolf"},
    ]
    file = write_records(tmp_path / "g.jsonl", records[::order])
    kb.graph.import_file(file)
    assert triples(kb) == [("Rathian", "fears", "Zinogre"), ("Zinogre", "bites", "Rathian")]
    again = kb.graph.import_file(file)
    assert (again.units_updated, again.units_unchanged) == (0, 2)
    assert kb.verify().problems == ()


def test_videos_of_the_metadata_are_not_read(kb, tmp_path):
    outside = tmp_path / "outside.gif"
    Image.new("RGB", (8, 8)).save(outside)
    lines = [
        {"entity": "A", "metadata": {"videos": [str(outside)]}},
        {"entity": "B", "metadata": {"videos": 5}},
    ]
    report = kb.graph.import_file(write_records(tmp_path / "in" / "a.jsonl", lines))
    assert kb.graph.show("A").to_dict()["images"] == []
    (problem,) = report.quarantined
    assert "expected a list in square brackets" in problem.reason
    assert kb.graph.show("B").to_dict()["videos"] == []


def test_a_pipe_is_no_graph(kb, tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(BadInput, match="pipe"):
        kb.graph.import_file(tmp_path / "pipe.jsonl")


@pytest.mark.parametrize("encoding", ["shift_jis", "foo", "hex", "idna"])
def test_xml_of_an_encoding_that_nobody_reads(kb, tmp_path, encoding):
    file = tmp_path / "a.graphml"
    file.write_text(f'<?xml version="1.0" encoding="{encoding}"?><graphml/>')
    with pytest.raises(BadInput, match="is no XML"):
        kb.graph.import_file(file)


def test_a_folder_of_somebody_else_is_not_replaced(kb, tmp_path):
    kb.add(Unit("A", id="A"))
    own = tmp_path / "a.jsonl.pictures" / "mine.txt"
    own.parent.mkdir()
    own.write_text("mine")
    with pytest.raises(Refused, match=r"exists, but a\.jsonl does not"):
        kb.graph.export(tmp_path / "a.jsonl")
    assert own.read_text() == "mine"


def test_names_of_signs_alone_are_told_apart(kb, tmp_path):
    lines = [{"entity": "!!!", "id": "s0"}, {"head": "s0", "relation": "sign", "tail": "-"}]
    kb.graph.import_file(write_records(tmp_path / "a.jsonl", lines))
    assert kb.graph.show("!!!").to_dict()["id"] == "s0"
    assert kb.graph.show("-").to_dict()["name"] == "-"
    with pytest.raises(NotFound, match=r"no entity '\+'"):
        kb.graph.show("+")


def test_an_alias_in_the_file_is_meant_after_names(kb, tmp_path):
    lines = [
        {"entity": "Astrolabe", "aliases": ["Star Taker", "Clock"]},
        {"entity": "Clock"},
        {"head": "Bell", "relation": "polishes", "tail": "Star Taker"},
        {"head": "Bell", "relation": "winds", "tail": "Clock"},
    ]
    kb.graph.import_file(write_records(tmp_path / "a.jsonl", lines))
    texts = [path.text for path in kb.graph.paths("Bell")]
    assert texts == ["Bell —polishes→ Astrolabe", "Bell —winds→ Clock"]


def test_a_field_that_no_relation_has_is_said_once(kb, tmp_path):
    edge = {"head": "Shop", "relation": "sells", "conditon": "in August"}
    lines = [edge | {"tail": "Mug"}, edge | {"tail": "Cup"}]
    report = kb.graph.import_file(write_records(tmp_path / "a.jsonl", lines))
    assert report.relations_added == 2
    (problem,) = report.quarantined
    assert problem.item.endswith(":1")
    assert "no field 'conditon'" in problem.reason


def test_an_entity_that_is_described_twice_is_kept_as_it_was_first(kb, tmp_path):
    records = [{"entity": "Bite", "kind": "attack"}, {"entity": "Bite", "kind": "snack"}]
    report = kb.graph.import_file(write_records(tmp_path / "g.jsonl", records))
    assert [problem.item for problem in report.quarantined] == [f"{tmp_path / 'g.jsonl'}:2"]
    assert kb.show("Bite").to_dict()["kind"] == "attack"


def test_relations_said_twice_are_one_and_those_that_differ_are_all_kept(kb, tmp_path):
    edge = {"head": "A", "relation": "meets", "tail": "B"}
    records = [edge, edge, edge | {"condition": "at night"}, edge | {"relation": "sees"}]
    kb.graph.import_file(write_records(tmp_path / "g.jsonl", records))
    assert [(row[1], row[6]) for row in dump(kb)[1]] == [
        ("meets", None),
        ("meets", "at night"),
        ("sees", None),
    ]


def test_control_characters_and_line_breaks_are_no_part_of_a_name(kb, tmp_path):
    records = [
        {"entity": "Fire\nBall\x07", "kind": "at\ttack", "aliases": ["  Fire   Orb "]},
        {"head": "Fire Ball", "relation": "is\r\na", "tail": "Sp\x1bell"},
        {"entity": "Broken", "text": "a\0b"},
        {"entity": "x" * 1001},
    ]
    report = kb.graph.import_file(write_records(tmp_path / "g.jsonl", records))
    assert triples(kb) == [("Fire Ball", "is a", "Sp ell")]
    assert kb.show("Fire Ball").to_dict()["aliases"] == ["Fire Orb"]
    assert kb.show("Fire Ball").to_dict()["kind"] == "at tack"
    assert any("1,001 characters" in problem.reason for problem in report.quarantined)
    assert kb.verify().problems == ()


def test_pictures_must_be_there_and_inside_the_folder(kb, tmp_path):
    picture(tmp_path / "in" / "a.png", 1)
    picture(tmp_path / "outside.png", 2)
    (tmp_path / "in" / "link.png").symlink_to(tmp_path / "outside.png")
    images = ["a.png", "none.png", "../outside.png", str(tmp_path / "outside.png"), "link.png"]
    images += ["http://example.org/a.png"]
    records = [{"entity": "A", "images": images, "videos": ["none.mp4", "../../x.mp4"]}]
    report = kb.graph.import_file(write_records(tmp_path / "in" / "g.jsonl", records))
    assert len(report.quarantined) == 7
    assert all("the rest of the record is kept" in problem.reason for problem in report.quarantined)
    assert report.images_added == 1
    assert kb.show("A").to_dict()["metadata"] == {}


def test_a_picture_that_is_lost_later_stays_in_the_base(kb, tmp_path):
    picture(tmp_path / "a.png", 1)
    path = write_records(tmp_path / "g.jsonl", [{"entity": "A", "images": ["a.png"]}])
    kb.graph.import_file(path)
    (tmp_path / "a.png").unlink()
    assert len(kb.graph.import_file(path).quarantined) == 1
    assert len(kb.show("A").to_dict()["images"]) == 1


def test_keyframes_are_pictures_and_videos_are_named(kb, tmp_path):
    picture(tmp_path / "frame.png", 1)
    (tmp_path / "bite.mp4").write_bytes(b"frames")
    records = [{"entity": "Bite", "videos": ["bite.mp4"], "keyframes": ["frame.png"]}]
    kb.graph.import_file(write_records(tmp_path / "g.jsonl", records))
    assert kb.show("Bite").to_dict()["metadata"] == {"videos": [str(tmp_path / "bite.mp4")]}
    assert len(kb.show("Bite").to_dict()["images"]) == 1


def test_an_entity_is_the_unit_that_it_is_said_to_be(kb, tmp_path):
    kb.add(Unit("Wolf", id="w1", kind="animal", texts=("A wolf howls.",)))
    kb.add(Unit("Fang", id="f1"))
    kb.add(Unit("Fang", id="f2"))
    records = [
        {"entity": "Zinogre", "unit": "Wolf", "caption": "A wolf."},
        {"entity": "Tooth", "unit": "Fang"},
        {"entity": "Claw", "unit": "nobody"},
        {"head": "Zinogre", "relation": "has", "tail": "Claw"},
        {"head": "Claw", "relation": "of", "tail": "Wolf"},
        {"head": "f1", "relation": "of", "tail": "w1"},
    ]
    path = write_records(tmp_path / "g.jsonl", records)
    report = kb.graph.import_file(path)
    assert [problem.item.rpartition("#")[2] for problem in report.quarantined] == ["Tooth", "Claw"]
    details = kb.show("w1").to_dict()
    assert (details["kind"], details["match"], details["metadata"]) == (
        "animal",
        True,
        {"caption": "A wolf."},
    )
    assert triples(kb) == [("Claw", "of", "w1"), ("f1", "of", "w1"), ("w1", "has", "Claw")]
    again = kb.graph.import_file(path)
    assert (again.units_updated, again.relations_added) == (0, 0)
    assert kb.verify().problems == ()


def test_a_star_of_many_neighbours(kb, tmp_path, rounds):
    count = rounds(25_000, 100_000)
    path = tmp_path / "star.jsonl"
    with path.open("w") as file:
        for n in range(count):
            file.write(f'{{"head": "Sun", "relation": "lights", "tail": "Planet {n}"}}\n')
    report = kb.graph.import_file(path)
    assert (report.units_added, report.relations_added, report.only_named) == (1, count, count)
    details = kb.graph.show("Sun", most=2).to_dict()
    assert details["counts"] == {"out": count, "in": 0}
    assert [relation["tail"]["name"] for relation in details["out"]] == ["Planet 0", "Planet 1"]
    (path_to,) = kb.graph.paths("Sun", f"Planet {count - 1}")
    assert path_to.text == f"Sun —lights→ Planet {count - 1}"
    # A small file is added to a large graph.
    write_records(tmp_path / "b.jsonl", [{"head": "Sun", "relation": "warms", "tail": "Planet 5"}])
    assert kb.graph.import_file(tmp_path / "b.jsonl").relations_added == 1
    assert kb.graph.show("Planet 5").counts == {"out": 0, "in": 2}


def test_a_reader_sees_one_state_during_an_import(kb, tmp_path):
    kb.graph.import_file(write_records(tmp_path / "a.jsonl", ZINOGRE[:1]))
    with KnowledgeBase.open(kb.path, read_only=True) as reader:
        before = reader.graph.show("Zinogre")
        with snapshot(reader._database.connection):
            assert reader.graph.show("Zinogre") == before
            kb.graph.import_file(write_records(tmp_path / "b.jsonl", [*ZINOGRE, *ZINOGRE[:1]]))
            assert reader.graph.show("Zinogre") == before
        assert reader.graph.show("Zinogre") == kb.graph.show("Zinogre") != before


def test_the_benchmark_runs_at_its_smallest():
    figures = graph.measure(entities=20, relations=100, rounds=1)
    assert 90 <= figures["relations"] <= 100
    assert figures["hop_ms"]["steps"] == pytest.approx(5, abs=1)
    assert figures["import"]["relations_per_second"] > 0
    assert figures["search_ms"]["paths"] > 0
    assert figures["evidence_ms"]["p50"] > 0


def test_what_is_no_graph_is_refused(kb, tmp_path):
    with pytest.raises(NotFound, match="is not there"):
        kb.graph.import_file(tmp_path / "none.jsonl")
    (tmp_path / "graph.dot").write_text("a -> b")
    with pytest.raises(BadInput, match=r"unknown format: expected \.jsonl, \.graphml or a folder"):
        kb.graph.import_file(tmp_path / "graph.dot")
    (tmp_path / "empty.jsonl").write_text("\n\n")
    with pytest.raises(BadInput, match="neither an entity nor a relation"):
        kb.graph.import_file(tmp_path / "empty.jsonl")


def test_paths_that_lead_nowhere_are_refused_in_one_sentence(kb, tmp_path):
    kb.add(Unit("A", id="a"))
    loop, long = tmp_path / "l.jsonl", tmp_path / ("x" * 300 + ".jsonl")
    for call in (kb.graph.import_file, kb.graph.export):
        with pytest.raises(BadInput, match="is too long: expected at most 255 bytes"):
            call(long)
    loop.symlink_to(loop.name)
    for path in (loop, loop / "g.jsonl"):
        with pytest.raises(BadInput, match=r"cannot be read \(.+\): expected \.jsonl"):
            kb.graph.import_file(path)
        with pytest.raises(ReadOnly, match=r"cannot be written \(.+\): make room"):
            kb.graph.export(path)
    assert loop.is_symlink()
    (tmp_path / "dangling.jsonl").symlink_to("none.jsonl")
    for path in (tmp_path / "dangling.jsonl", tmp_path / "l.txt" / "g.jsonl"):
        with pytest.raises(NotFound, match="is not there"):
            kb.graph.import_file(path)


# ---- GraphML -----------------------------------------------------------------------------------


def test_what_networkx_writes(kb, tmp_path):
    drawn = networkx.MultiDiGraph()
    drawn.add_node("Zinogre", kind="monster", topic=True, stars=5)
    drawn.add_edge("Zinogre", "Bite", relation="attack of", condition="enraged")
    drawn.add_edge("Zinogre", "Bite", label="likes")
    drawn.add_edge("Bite", "Bite")
    networkx.write_graphml(drawn, tmp_path / "g.graphml")
    kb.graph.import_file(tmp_path / "g.graphml")
    assert kb.show("Zinogre").to_dict()["metadata"] == {"topic": True, "stars": "5"}
    assert triples(kb) == [
        ("Bite", "related to", "Bite"),
        ("Zinogre", "attack of", "Bite"),
        ("Zinogre", "likes", "Bite"),
    ]


def test_edges_of_a_node_that_is_left_out_are_left_out_and_ports_are_no_nodes(kb, tmp_path):
    (tmp_path / "g.graphml").write_text(
        '<graphml><key id="i" for="node" attr.name="id"/><key id="k" for="all" attr.name="kind"/>'
        '<graph edgedefault="directed"><node id="a"><data key="i">one</data></node>'
        '<node id="b"><data key="i">one</data><data key="k">second</data></node>'
        '<node id="c"><port name="p"><data key="k">plug</data></port></node>'
        '<edge source="b" target="c"/><edge source="a" target="c"/></graph></graphml>'
    )
    report = kb.graph.import_file(tmp_path / "g.graphml")
    twice, lost = (problem.reason for problem in report.quarantined)
    assert "described more than once" in twice
    assert lost == "there is no node 'b', or it was left out: every edge joins two nodes"
    assert triples(kb) == [("one", "related to", "c")]
    assert kb.show("c").to_dict()["kind"] == "entity"


def test_lines_without_direction_hold_both_ways(kb, tmp_path):
    networkx.write_graphml(networkx.path_graph(["A", "B"]), tmp_path / "g.graphml")
    kb.graph.import_file(tmp_path / "g.graphml")
    assert triples(kb) == [("A", "related to", "B"), ("B", "related to", "A")]


def test_directions_are_truths_of_xml(kb, tmp_path):
    (tmp_path / "g.graphml").write_text(
        '<graphml><graph edgedefault="undirected"><node id="a"/><node id="b"/><node id="c"/>'
        '<edge source="a" target="b" directed="1"/><edge source="b" target="c" directed="true"/>'
        '<edge source="c" target="a" directed="0"/></graph></graphml>'
    )
    kb.graph.import_file(tmp_path / "g.graphml")
    ends = [head + tail for head, _, tail in triples(kb)]
    assert sorted(ends) == ["ab", "ac", "bc", "ca"]


def test_what_yed_and_gephi_write(kb, tmp_path):
    (tmp_path / "yed.graphml").write_text(
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" '
        'xmlns:y="http://www.yworks.com/xml/graphml">\n'
        '<key for="node" id="d6" yfiles.type="nodegraphics"/>\n'
        '<key for="edge" id="d10" yfiles.type="edgegraphics"/>\n'
        '<key for="node" id="d4" attr.name="description" attr.type="string">'
        "<default>a thing</default></key>\n"
        '<graph edgedefault="directed" id="G"><node id="n0"><data key="d6"><y:ShapeNode>'
        '<y:Geometry height="30.0"/><y:NodeLabel>Lamp &amp; Co<y:LabelModel/></y:NodeLabel>'
        '</y:ShapeNode></data></node><node id="n1"><data key="d4">round</data><data key="d6">'
        "<y:ShapeNode><y:NodeLabel>Bulb</y:NodeLabel></y:ShapeNode></data></node>"
        '<edge id="e0" source="n0" target="n1"><data key="d10"><y:PolyLineEdge>'
        "<y:EdgeLabel>holds</y:EdgeLabel></y:PolyLineEdge></data></edge>"
        '<edge source="n0" target="n9"/></graph></graphml>',
        encoding="utf-8",
    )
    report = kb.graph.import_file(tmp_path / "yed.graphml")
    assert triples(kb) == [("Lamp & Co", "holds", "Bulb")]
    assert kb.show("Lamp & Co").to_dict()["texts"] == ["a thing"]
    assert kb.show("Bulb").to_dict()["texts"] == ["round"]
    assert [problem.reason for problem in report.quarantined] == [
        "there is no node 'n9', or it was left out: every edge joins two nodes"
    ]
    (tmp_path / "gephi.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key attr.name="label" attr.type="string" for="node" id="label"/>'
        '<key attr.name="Edge Label" attr.type="string" for="edge" id="edgelabel"/>'
        '<key attr.name="x" attr.type="float" for="node" id="x"/>'
        '<graph edgedefault="directed"><node id="0"><data key="label">Cup</data>'
        '<data key="x">1.5</data></node><node id="1"><data key="label">Cup</data></node>'
        '<edge id="0" source="0" target="1"><data key="edgelabel">beside</data></edge>'
        "</graph></graphml>"
    )
    kb.graph.import_file(tmp_path / "gephi.graphml")
    assert ("Cup", "beside", "Cup (1)") in triples(kb)
    assert kb.show("Cup").to_dict()["metadata"] == {}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_of_xml_are_refused_before_they_are_read(kb, tmp_path, encoding):
    bomb = '<!ENTITY a0 "lol">' + "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)
    )
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE g [{bomb}]><graphml>&a11;</graphml>'
    )
    (tmp_path / "g.graphml").write_bytes(text.encode(encoding))
    with pytest.raises(BadInput, match="has a document type"):
        kb.graph.import_file(tmp_path / "g.graphml")
    (tmp_path / "g.graphml").write_text("<graphml><graph>")
    with pytest.raises(BadInput, match=r"g\.graphml is no XML \(no element found"):
        kb.graph.import_file(tmp_path / "g.graphml")


# ---- workbooks ---------------------------------------------------------------------------------


def test_the_published_layout(kb, monsters):
    report = kb.graph.import_file(monsters)
    assert report.quarantined == []
    units, stated = dump(kb)
    assert list(units) == [
        "Fire Element",
        "Rathian",
        "Rathian>Bite",
        "Zinogre",
        "Zinogre>7",
        "Zinogre>Bite",
    ]
    assert units["Zinogre"]["metadata"] == {"topic": True, "caption": "A wolf of lightning."}
    assert units["Zinogre"]["texts"] == ["It lives in forests."]
    assert units["Zinogre"]["match"]
    assert units["Rathian"]["metadata"] == {"topic": True}
    bite = units["Zinogre>Bite"]
    assert (bite["name"], bite["aliases"], len(bite["images"])) == ("Bite", ["Zinogre Bite"], 2)
    video = monsters / "Zinogre" / "Knowledge_Videos" / "Bite.mp4"
    assert bite["metadata"] == {"caption": "It bites.", "videos": [str(video)]}
    assert stated == [
        ("Rathian", "attack of", "Rathian>Bite", "entity", 0, None, None),
        ("Zinogre", "attack of", "Zinogre>Bite", "entity", 0, "twice", "enraged"),
        ("Zinogre", "weak to", "Fire Element", "entity", 0, None, None),
        ("Zinogre", "counts", "Zinogre>7", "entity", 0, None, None),
        ("Zinogre>Bite", "continues", "Zinogre>Slam", "entity", 1, None, None),
        ("Zinogre>Bite", "hurts", "Rathian", "entity", 0, None, None),
    ]
    assert kb.verify().problems == ()
    again = kb.graph.import_file(monsters)
    assert (again.units_unchanged, again.units_updated, again.relations_added) == (6, 0, 0)


def test_a_sub_graph_that_is_gone_takes_its_entities_along(kb, monsters, tmp_path):
    kb.graph.import_file(monsters)
    (monsters / "Rathian").rename(tmp_path / "elsewhere")
    assert sorted(kb.graph.import_file(monsters).units_deleted) == ["Rathian", "Rathian>Bite"]
    assert ("Zinogre>Bite", "hurts", "Zinogre>Rathian") in triples(kb)
    assert kb.verify().problems == ()


def test_columns_without_titles_that_are_known_are_told_by_place(kb, monsters):
    workbook(
        monsters / "Rathian" / "Relations.xlsx",
        ("Entity 1", "Link", "Info", "If", "Entity 2"),
        ("Rathian", "attack of", "quick", "at night", "Bite"),
    )
    kb.graph.import_file(monsters)
    stated = [row for row in dump(kb)[1] if row[0] == "Rathian"]
    assert stated == [("Rathian", "attack of", "Rathian>Bite", "entity", 0, "quick", "at night")]


def test_missing_columns_are_named_with_what_is_there(kb, monsters):
    workbook(monsters / "Rathian" / "Relations.xlsx", ("Head", "Verb"), ("Rathian", "attack of"))
    workbook(monsters / "Zinogre" / "Node.xlsx", ("Titel", "Bild"), ("Zinogre", None))
    report = kb.graph.import_file(monsters)
    reasons = {Path(problem.item).parent.name: problem.reason for problem in report.quarantined}
    assert reasons["Rathian"] == (
        "no column is called Relation (or Predicate) and Tail (or Target, To); there are 'Head', "
        "'Verb': name the columns so"
    )
    assert reasons["Zinogre"] == (
        "no column is called Name (or Node, Entity, Node Name, Entity Name); there are 'Titel', "
        "'Bild': name the columns so"
    )
    assert ("Zinogre", "attack of", "Zinogre>Bite") in triples(kb)


def test_media_of_workbooks_must_be_there_and_inside(kb, monsters, tmp_path):
    picture(tmp_path / "mmkg" / "secret.png", 9)
    workbook(
        monsters / "Rathian" / "Node.xlsx",
        ("Name", "Image", "Video"),
        ("Rathian", "../../secret.png", "../../secret.png"),
        ("Bite", "none.png; ..\\..\\secret.png", None),
        ("Claw", "..", None),
    )
    report = kb.graph.import_file(monsters)
    assert len(report.quarantined) == 5
    assert report.images_added == 3


def test_workbooks_that_are_damaged_or_traps(kb, monsters):
    (monsters / "Rathian" / "Relations.xlsx").write_bytes(b"PK\3\4 and nothing more")
    book = monsters / "Zinogre" / "Relations.xlsx"
    with zipfile.ZipFile(book) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = b'<!DOCTYPE x [<!ENTITY a "b">]>' + parts[sheet]
    with zipfile.ZipFile(book, "w") as packed:
        for name, data in parts.items():
            packed.writestr(name, data)
    report = kb.graph.import_file(monsters)
    first, second = (problem.reason for problem in report.quarantined)
    assert first == (
        "Relations.xlsx is no workbook that can be read (File is not a zip file): save it as .xlsx "
        "again"
    )
    assert second.startswith("Relations.xlsx is no workbook that can be read")
    assert "Zinogre>Bite" in dump(kb)[0]


def test_relations_of_workbooks_know_aliases_and_other_spellings(kb, monsters):
    workbook(
        monsters / "Zinogre" / "Node.xlsx",
        ("Name", "Aliases"),
        ("Zinogre", "Thunder Wolf"),
        ("Bite", "Chomp"),
        ("Slam", "Crush"),
        ("Slap", "crush; Hit"),
        ("Fist", "Hit"),
        ("Fire Element", None),
    )
    tails = ("Chomp", "Zinogre Bite", "chomp!", "SLAM", "CRUSH", "Hit", "Howl")
    workbook(
        monsters / "Zinogre" / "Relations.xlsx",
        ("Head", "Relation", "Tail"),
        *(("thunder wolf", "to", tail) for tail in tails),
    )
    tails = ("Thunder Wolf", "thunder wolf", "zinogre", "fire element", "Slam")
    workbook(
        monsters / "Rathian" / "Relations.xlsx",
        ("Head", "Relation", "Tail"),
        *(("bite", "to", tail) for tail in tails),
        ("Bite", "to", "Water Element"),
    )
    report = kb.graph.import_file(monsters)
    assert [problem.reason for problem in report.quarantined] == [
        f"several entities are called {name!r}: name the one that is meant by its id"
        for name in ("CRUSH", "Hit")
    ]
    assert sorted(set(triples(kb))) == sorted(
        [
            ("Zinogre", "to", "Zinogre>Bite"),
            ("Zinogre", "to", "Zinogre>Slam"),
            ("Zinogre", "to", "Zinogre>Howl"),
            ("Rathian>Bite", "to", "Zinogre"),
            ("Rathian>Bite", "to", "Fire Element"),
            ("Rathian>Bite", "to", "Rathian>Slam"),
            ("Rathian>Bite", "to", "Water Element"),
        ]
    )


def pairs(folder: Path) -> list[Path]:
    """Two sub-graphs, each with a relation to the topic of the other."""
    for name, mate in (("Rathian", "Rathalos"), ("Rathalos", "Rathian")):
        workbook(folder / name / "Node.xlsx", ("Name",), (name,), ("Bite",))
        workbook(
            folder / name / "Relations.xlsx",
            ("Head", "Relation", "Tail"),
            (name, "mated pair", mate),
            (name, "attack of", "Bite"),
            (name, "attack of", "Slam"),
        )
    return [folder / "Rathian", folder / "Rathalos"]


def test_folders_of_workbooks_that_are_imported_one_by_one_connect(kb, tmp_path):
    for folder in (*pairs(tmp_path), tmp_path, *pairs(tmp_path)):
        report = kb.graph.import_file(folder)
    assert report.units_updated == 0
    assert triples(kb) == [
        ("Rathalos", "mated pair", "Rathian"),
        ("Rathalos", "attack of", "Rathalos>Bite"),
        ("Rathalos", "attack of", "Rathalos>Slam"),
        ("Rathian", "mated pair", "Rathalos"),
        ("Rathian", "attack of", "Rathian>Bite"),
        ("Rathian", "attack of", "Rathian>Slam"),
    ]
    assert kb.verify().problems == ()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("unit", [Unit("Rathalos", id="r1"), Unit("King", id="Rathalos")])
def test_relations_of_workbooks_end_at_units_of_the_base(kb, tmp_path, first, unit):
    folder, _ = pairs(tmp_path)
    if first:
        kb.add(unit)
    kb.graph.import_file(folder)
    if not first:
        kb.add(unit)
    assert triples(kb)[0] == ("Rathian", "mated pair", unit.id)
    kb.delete([unit.id])
    assert kb.verify().problems == ()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("end", ["r1", "Rathalos", "RATHALOS"])
@pytest.mark.parametrize("name", ["g.jsonl", "g.graphml"])
def test_relations_of_files_end_at_units_of_the_base(kb, tmp_path, name, end, first):
    if name == "g.jsonl":
        lines = [{"head": "Rathian", "relation": "mated pair", "tail": end}]
        write_records(tmp_path / name, lines)
    else:
        (tmp_path / name).write_text(
            '<graphml><key id="d" for="node" attr.name="declared"/><graph><node id="Rathian"/>'
            f'<node id="{end}"><data key="d">false</data></node><edge source="Rathian" '
            f'target="{end}"><data key="label">mated pair</data></edge></graph></graphml>'
        )
    unit = Unit("Rathalos", id="r1")
    if first:
        kb.add(unit)
    kb.graph.import_file(tmp_path / name)
    if not first:
        kb.add(unit)
    assert triples(kb) == [("Rathian", "mated pair", "r1")]
    assert kb.verify().problems == ()


def test_what_is_called_as_its_folder_is_no_topic_unless_it_was(kb, tmp_path):
    kb.add(Unit("entities", id="e", match=False))
    kb.add(Unit("Zinogre", id="z", metadata={"topic": True}))
    kb.add(Unit("Zinogre", id="z>z", match=False))
    kb.graph.export(tmp_path / "books")
    with KnowledgeBase.open(tmp_path / "kb2", create=True) as copy:
        assert copy.graph.import_file(tmp_path / "books").quarantined == []
        assert dump(copy) == dump(kb)


def test_a_folder_without_workbooks_is_refused(kb, tmp_path):
    (tmp_path / "mmkg" / "Zinogre").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"holds no Node\.xlsx and no Relations\.xlsx"):
        kb.graph.import_file(tmp_path / "mmkg")


# ---- round trips -------------------------------------------------------------------------------


def awkward(kb: KnowledgeBase, folder: Path) -> None:
    """A graph with everything that is difficult for a format."""
    images = (picture(folder / "a.png", 1), picture(folder / "b.png", 2))
    formula = Unit(
        '=1+1 <b> & "quotes"',
        id="odd>id",
        aliases=("A | B; C", "北京"),
        texts=("One text.\r\nWith lines\tand <tags> & é.", "[another] of _x000D_, _x005F_x0041_"),
        images=images,
        metadata={
            "topic": True,
            "caption": "It says\n=SUM(A1)",
            "n": 1.5,
            "list": [1, {"a": None}],
        },
        relations=(
            Relation("likes", "plain"),
            Relation("likes", "plain", condition='if <so> & "such"'),
            Relation("self", "odd>id", information="=loop\r\nagain"),
            Relation("ends at", "Bite", target_kind="attack"),
            Relation("ends at", "Bite", target_kind="meal"),
        ),
    )
    kb.add(Unit("plain", id="plain", kind="thing", match=False, texts=("[1, 2]",)))
    kb.add(Unit("Bite", id="bite", kind="snack", metadata={"caption by x": "by a machine"}))
    kb.add(Unit("Twin", id="t1", relations=(Relation("mirrors", "t2"),)))
    kb.add(Unit("Twin", id="t2", relations=(Relation("mirrors", "t1"),), images=images[:1]))
    kb.add(formula)


@pytest.mark.parametrize("name", ["g.jsonl", "g.graphml", "books"])
def test_what_goes_out_comes_back_the_same(kb, tmp_path, name):
    awkward(kb, tmp_path / "shown")
    exported = kb.graph.export(tmp_path / "out" / name).to_dict()
    assert exported == {"entities": 5, "relations": 7, "images": 3, "left_out": []}
    with KnowledgeBase.open(tmp_path / "kb2", create=True) as copy:
        report = copy.graph.import_file(tmp_path / "out" / name)
        assert report.quarantined == []
        assert dump(copy) == dump(kb)
        assert copy.verify().problems == ()
        copy.graph.export(tmp_path / "again" / name)
        files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
        assert files
        for file in files:
            if file.suffix != ".xlsx":
                twin = tmp_path / "again" / file.relative_to(tmp_path / "out")
                assert twin.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ["g.jsonl", "g.graphml", "books"])
def test_the_published_layout_through_every_format(kb, monsters, tmp_path, name):
    kb.graph.import_file(monsters)
    kb.graph.export(tmp_path / name)
    with KnowledgeBase.open(tmp_path / "kb2", create=True) as copy:
        assert copy.graph.import_file(tmp_path / name).quarantined == []
        assert dump(copy) == dump(kb)


def test_an_export_is_whole_or_not_there(kb, tmp_path):
    awkward(kb, tmp_path / "shown")
    kb.add(Unit("Long", id="long", texts=("word " * 10_000,)))
    with pytest.raises(BadInput, match=r"a cell holds 32,767: export as \.jsonl"):
        kb.graph.export(tmp_path / "out" / "books")
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(BadInput, match=r"expected a name that ends in \.jsonl or \.graphml"):
        kb.graph.export(tmp_path / "g.csv")
    kb.graph.export(tmp_path / "out" / "g.jsonl")
    first = json.loads((tmp_path / "out" / "g.jsonl").read_text().splitlines()[0])
    assert first["id"] == "bite"
    kb.delete(["odd>id"])
    kb.graph.export(tmp_path / "out" / "g.jsonl")
    assert len(list((tmp_path / "out" / "g.jsonl.pictures").iterdir())) == 1


@pytest.mark.parametrize("name", ["g.jsonl", "g.graphml", "folder"])
def test_an_export_into_its_own_base_changes_nothing(kb, tmp_path, name):
    image = picture(tmp_path / "a.png", 1)
    facts = (Relation("near", "oslo"), Relation("in", "Norway", information="north"))
    kb.add(Unit("Bergen", id="b", kind="city", texts=("It rains.",), images=(image,)))
    kb.add(Unit("Oslo", id="o", aliases=("Kristiania",), metadata={"fjord": ["one"]}))
    kb.add(Unit("Hills", id="h", texts=("They are high.",), relations=facts))
    kb.graph.import_file(write_records(tmp_path / "z.jsonl", ZINOGRE))
    before, sources = dump(kb), kb.stats().counts["sources"]
    kb.graph.export(tmp_path / "out" / name)
    report = kb.graph.import_file(tmp_path / "out" / name)
    assert (report.quarantined, report.units_updated, report.units_unchanged) == ([], 0, 5)
    assert (dump(kb), kb.stats().counts["sources"]) == (before, sources)


def test_pictures_that_are_lost_are_said_to_be(kb, tmp_path):
    kb.add(Unit("A", id="a", images=(picture(tmp_path / "a.png", 1),)))
    stored = Path(kb.show("a").to_dict()["images"][0])
    stored.unlink()
    exported = kb.graph.export(tmp_path / "g.jsonl").to_dict()
    assert exported["left_out"] == [
        {"item": stored.stem, "reason": f"{stored}: No such file or directory"}
    ]
