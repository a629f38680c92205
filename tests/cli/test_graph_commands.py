"""`ku graph`: actions, output and exit codes of each command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ku_rag import KnowledgeBase, Unit
from ku_rag.errors import BadInput, NotFound
from ku_rag.types import Relation
from tests.conftest import picture, write_records


@pytest.fixture
def zinogre(ku, tmp_path):
    """A monster with two phases, an attack that both have, and a relation back."""
    steps = [
        ("Zinogre", "phase", "Charging"),
        ("Zinogre", "phase", "Charged"),
        ("Charging", "attack", "Bite"),
        ("Charged", "attack", "Bite"),
        ("Charged", "attack", "Slam"),
        ("Bite", "back to", "Zinogre"),
        ("Slam", "then", "Bite"),
    ]
    records = [{"head": h, "relation": r, "tail": t} for h, r, t in steps]
    records.append({"entity": "Zinogre", "topic": True, "kind": "monster"})
    write_records(tmp_path / "g.jsonl", records)
    assert ku("graph", "import", "g.jsonl").code == 0
    return ku


def test_import_prints_what_it_did_and_exits_3_when_something_was_left_out(ku, tmp_path):
    write_records(tmp_path / "g.jsonl", [{"head": "A", "relation": "to", "tail": "B"}])
    result = ku("graph", "import", "g.jsonl")
    assert result.code == 0
    assert result.out.startswith("units: 1 added, 0 updated, 0 unchanged, 0 deleted\n")
    assert "entities without a description: 1" in result.err
    (tmp_path / "g.jsonl").write_text('{"head": "A", "relation": "to", "tail": "B"}\n{"x"\n')
    result = ku("graph", "import", "g.jsonl", "--json")
    assert result.code == 3
    assert result.json["units_unchanged"] == 1
    assert result.json["only_named"] == 1
    assert [item["item"] for item in result.json["quarantined"]] == [f"{tmp_path}/g.jsonl:2"]
    assert ku("graph", "import", "none.jsonl").code == 1


def test_add_show_and_delete_an_entity(ku, tmp_path):
    picture(tmp_path / "wolf.png", 1)
    described = ("--kind", "monster", "--topic", "--caption", "A wolf.", "--text", "It howls.")
    added = ku(
        "graph", "add", "Zinogre", *described, "--image", "wolf.png", "--alias", "Wolf", "--json"
    )
    assert added.json == {
        **{"id": "Zinogre", "action": "added", "chunks": 1, "images": 1},
        "kept": {},
    }
    assert ku("graph", "add", "--relation", "Zinogre", "attack of", "Bite").out == (
        "added: Zinogre —attack of→ Bite\n"
    )
    entity = ku("graph", "show", "wolf", "--json").json
    (image,) = entity.pop("images")
    assert image.endswith(".png")
    assert entity == {
        "id": "Zinogre",
        "name": "Zinogre",
        "kind": "monster",
        "topic": True,
        "aliases": ["Wolf"],
        "caption": "A wolf.",
        "machine_captions": {},
        "text": "It howls.",
        "videos": [],
        "metadata": {},
        "counts": {"out": 1, "in": 0},
        "out": [{"relation": "attack of", "tail": {"id": None, "name": "Bite", "kind": "entity"}}],
        "in": [],
    }
    assert ku("graph", "show", "Bite").out == "Bite  (entity)\n\n  Zinogre —attack of→\n"
    deleted = ku("graph", "delete", "Wolf", "--json").json
    assert deleted["units"] == ["Zinogre"]
    assert len(deleted["relations"]) == 1
    assert ku("graph", "show", "Bite").code == 1
    assert ku("verify").code == 0


def test_captions_by_people_and_by_machines_are_shown_apart(kb):
    metadata = {"caption": "A wolf.", "caption by gpt": "A dog.", "videos": ["/v.mp4"], "stars": 5}
    kb.add(Unit("Zinogre", id="z", metadata=metadata))
    entity = kb.graph.show("z").to_dict()
    assert entity["caption"] == "A wolf."
    assert entity["machine_captions"] == {"gpt": "A dog."}
    assert entity["videos"] == ["/v.mp4"]
    assert entity["metadata"] == {"stars": 5}


def test_show_prints_one_thing_a_line(zinogre):
    zinogre("graph", "add", "--relation", "Zinogre", "fears", "Ice", "--information", "a lot",
            "--condition", "wet")  # fmt: skip
    assert zinogre("graph", "show", "Zinogre", "--most", "2").out.splitlines() == [
        "Zinogre  (monster; topic)",
        "",
        "  —phase→ Charging",
        "  —phase→ Charged",
        "  Bite —back to→",
        "  … and 1 more from it: --most",
    ]
    lines = zinogre("graph", "show", "Zinogre").out.splitlines()
    assert lines[4] == "  —fears→ Ice  (a lot; when wet)"


def test_a_relation_is_added_once_and_its_ends_may_be_new(kb):
    first = kb.graph.add_relation("A", "meets", "B", condition="at night")
    assert first.to_dict() == {"head": "A", "relation": "meets", "tail": "B", "added": True}
    assert not kb.graph.add_relation("A", "meets", "B", condition="at night").added
    assert kb.graph.add_relation("A", "meets", "B").added
    assert kb.graph.add_relation("A", "is", "A").added
    assert kb.graph.add_relation("B", "meets", "A").added
    assert kb.graph.show("A").counts == {"out": 3, "in": 2}
    tails = [relation["tail"]["id"] for relation in kb.graph.show("A").to_dict()["out"]]
    assert tails == ["B", "B", "A"]
    assert kb.verify().problems == ()


def test_deleting_a_relation_leaves_its_ends_and_the_others(kb, tmp_path):
    records = [{"head": "A", "relation": "meets", "tail": tail} for tail in ("B", "C", "C")]
    kb.graph.import_file(write_records(tmp_path / "g.jsonl", records))
    kb.graph.add_relation("A", "sees", "C")
    kb.graph.add_relation("Z", "sees", "A")
    assert len(kb.graph.delete(relation=("A", "meets", "C")).to_dict()["relations"]) == 1
    assert len(kb.graph.delete(relation=("A", "sees", "C")).to_dict()["relations"]) == 1
    assert [relation["tail"]["name"] for relation in kb.graph.show("A").to_dict()["out"]] == ["B"]
    assert kb.graph.show("A").counts["in"] == 1
    with pytest.raises(NotFound, match="no relation A —sees→ C is stated"):
        kb.graph.delete(relation=("A", "sees", "C"))
    assert len(kb.graph.delete("B").to_dict()["relations"]) == 1
    assert kb.graph.show("A").to_dict()["out"] == []
    assert kb.verify().problems == ()
    kb.graph.import_file(tmp_path / "g.jsonl")
    assert kb.graph.show("A").counts == {"out": 2, "in": 1}


def test_only_the_relation_of_a_condition_is_deleted(zinogre):
    for condition in ("at night", "by day"):
        zinogre("graph", "add", "--relation", "Zinogre", "hunts", "Bite", "--condition", condition)
    relation = ("--relation", "Zinogre", "hunts", "Bite", "--condition")
    assert zinogre("graph", "delete", *relation, "by day").code == 0
    assert zinogre("graph", "delete", *relation, "by day").code == 1
    entity = zinogre("graph", "show", "Zinogre", "--json").json
    hunts = [end for end in entity["out"] if end["relation"] == "hunts"]
    assert [end["condition"] for end in hunts] == ["at night"]
    assert zinogre("graph", "delete", "Zinogre", "--condition", "by day").code == 2


def test_names_of_a_relation_that_is_deleted_are_cleaned(kb):
    kb.graph.add_relation("A\tB", "looks  at", " C")
    assert len(kb.graph.delete(relation=(" A  B", "looks\nat", "C ")).to_dict()["relations"]) == 1
    with pytest.raises(BadInput, match="the tail is empty"):
        kb.graph.delete(relation=("A B", "looks at", " "))


def test_a_condition_that_is_empty_deletes_nothing(kb):
    kb.graph.add_relation("A", "meets", "B")
    kb.graph.add_relation("A", "meets", "B", condition="at night")
    with pytest.raises(NotFound, match="no relation A —meets→ B with the condition '' is stated"):
        kb.graph.delete(relation=("A", "meets", "B"), condition="")
    with pytest.raises(BadInput, match="condition is 5: expected a text"):
        kb.graph.delete(relation=("A", "meets", "B"), condition=5)
    with pytest.raises(BadInput, match="condition belongs to a relation"):
        kb.graph.delete("A", condition="")
    assert kb.graph.show("A").counts["out"] == 2


def test_of_several_tails_only_the_one_that_was_written_is_deleted(kb):
    for name, of in (("Sun", "star"), ("SUN", "paper")):
        kb.add(Unit(name, id=of))
    relations = tuple(Relation("sees", target) for target in ("star", "paper"))
    kb.add(Unit("Ann", id="ann", relations=relations))
    with pytest.raises(BadInput, match="2 entities are called 'sun': name one by its id"):
        kb.graph.delete(relation=("Ann", "sees", "sun"))
    kb.add(Unit("Ann", id="ann", relations=(*relations, Relation("sees", "sun"))))
    assert len(kb.graph.delete(relation=("Ann", "sees", "sun")).to_dict()["relations"]) == 1
    assert len(kb.graph.delete(relation=("Ann", "sees", "SUN")).to_dict()["relations"]) == 1
    tails = [relation["tail"]["id"] for relation in kb.graph.show("ann").to_dict()["out"]]
    assert tails == ["star"]
    assert kb.verify().problems == ()


def test_what_others_say_of_an_entity_is_kept_and_said_to_be(ku, tmp_path):
    write_records(tmp_path / "r.jsonl", [{"name": "France", "id": "fr", "kind": "country"}])
    ku("ingest", "r.jsonl")
    added = ku("graph", "add", "France", "--kind", "wine", "--caption", "A flag.")
    assert added.out == (
        "joined fr: 0 chunks, 0 images\n  kind stays 'country', as another source states it\n"
    )
    assert ku("graph", "show", "fr", "--json").json["caption"] == "A flag."


def test_a_mere_name_of_several_kinds_is_told_by_its_kind(kb):
    ends = [Relation("at", "Bath", target_kind=kind) for kind in ("city", "room")]
    kb.add(Unit("Ann", id="ann", relations=tuple(ends)))
    with pytest.raises(BadInput, match=r"'Bath \(city\)', 'Bath \(room\)'"):
        kb.graph.show("Bath")
    assert kb.graph.show("Bath (room)").to_dict()["kind"] == "room"
    assert [path.text for path in kb.graph.paths("ann", "Bath (city)")] == ["Ann —at→ Bath"]


def baths(kb, *kinds):
    """Names without units, which differ in their kinds."""
    ends = [Relation("at", "Bath", target_kind=kind) for kind in kinds]
    kb.add(Unit("Ann", id="ann", relations=tuple(ends)))


def met(kb):
    tails = [relation["tail"] for relation in kb.graph.show("ann").to_dict()["out"]]
    return [(tail["id"], tail["name"], tail["kind"]) for tail in tails]


def test_a_relation_makes_a_unit_of_the_name_where_it_starts(kb):
    baths(kb, "city", "tub")
    city = kb.graph.add_relation("Bath (city)", "in", "England")
    # With the id "Bath", it would be the target of the relation to the tub.
    assert city.head == "Bath (city)"
    assert met(kb) == [("Bath (city)", "Bath", "city"), (None, "Bath", "tub")]
    kb.graph.add_relation("Bath (city)", "near", "Bristol")
    entity = kb.graph.show("Bath (city)").to_dict()
    assert [relation["relation"] for relation in entity["out"]] == ["in", "near"]
    assert kb.graph.add_entity("Bath", id="b1", kind="tub").id == "b1"
    assert met(kb) == [("Bath (city)", "Bath", "city"), ("b1", "Bath", "tub")]
    assert kb.verify().problems == ()


def test_a_relation_of_a_mere_name_to_itself(kb):
    baths(kb, "city", "tub")
    added = kb.graph.add_relation("Bath (tub)", "is in", "Bath (tub)")
    assert (added.head, added.tail) == ("Bath (tub)", "Bath (tub)")
    assert kb.graph.show("Bath (tub)").counts == {"out": 1, "in": 2}


def test_of_several_spellings_the_one_that_is_given_is_meant(kb):
    for name, of in (("Sun", "star"), ("SUN", "paper")):
        kb.add(Unit(name, id=of))
    kb.graph.add_relation("SUN", "reports on", "Sun")
    assert kb.graph.show("Sun").to_dict()["id"] == "star"
    heads = [relation["head"]["id"] for relation in kb.graph.show("star").to_dict()["in"]]
    assert heads == ["paper"]
    with pytest.raises(BadInput, match="2 entities are called 'sun'"):
        kb.graph.show("sun")


def test_loops_are_the_paths_from_an_entity_to_itself(zinogre):
    paths = zinogre("graph", "paths", "Zinogre", "Zinogre", "--json").json
    assert [path["text"] for path in paths] == [
        "Zinogre —phase→ Charging —attack→ Bite —back to→ Zinogre",
        "Zinogre —phase→ Charged —attack→ Bite —back to→ Zinogre",
        "Zinogre —phase→ Charged —attack→ Slam —then→ Bite —back to→ Zinogre",
    ]


def test_an_entity_joins_the_unit_of_its_name_unless_it_has_an_id(kb):
    kb.add(Unit("France", id="fr", kind="country"))
    assert kb.graph.add_entity("france", caption="A flag.").action == "joined"
    assert kb.graph.show("France").to_dict()["caption"] == "A flag."
    assert kb.graph.show("France").to_dict()["kind"] == "country"
    assert kb.show("fr").to_dict()["match"]
    assert kb.graph.add_entity("Hexagon", unit="France").id == "fr"
    assert kb.show("fr").to_dict()["aliases"] == ["Hexagon", "france"]
    assert kb.show("fr").to_dict()["metadata"] == {"caption": "A flag."}
    assert kb.graph.add_entity("France", id="fr2").action == "added"
    assert not kb.show("fr2").to_dict()["match"]
    with pytest.raises(BadInput, match="2 entities are called 'France': name one by its id: 'fr'"):
        kb.graph.add_entity("France")
    with pytest.raises(NotFound, match="there is no unit 'Atlantis'"):
        kb.graph.add_entity("Atlantis", unit="Atlantis")


def test_a_name_that_relations_wait_for_becomes_a_unit_when_it_is_added(kb):
    kb.graph.add_relation("A", "meets", "B")
    kb.graph.add_entity("B", kind="person")
    (met,) = kb.graph.show("A").to_dict()["out"]
    assert met["tail"] == {"id": "B", "name": "B", "kind": "person"}
    assert kb.verify().problems == ()


def test_the_schema_lists_relations_with_kinds_and_counts(zinogre):
    zinogre("graph", "add", "--relation", "Slam", "back to", "Zinogre")
    zinogre("graph", "add", "Slam", "--kind", "attack")
    zinogre("graph", "add", "--relation", "Zinogre", "fears", "Ice")
    assert zinogre("graph", "schema").out.splitlines()[:2] == [
        "       3  entity —attack→ attack, entity",
        "       2  attack, entity —back to→ monster",
    ]
    assert zinogre("graph", "schema", "--json").json[1] == {
        "heads": ["attack", "entity"],
        "relation": "back to",
        "tails": ["monster"],
        "count": 2,
    }


def test_the_shortest_paths_come_first(zinogre):
    paths = zinogre("graph", "paths", "Zinogre", "Bite", "--json").json
    assert [path["text"] for path in paths] == [
        "Zinogre —phase→ Charging —attack→ Bite",
        "Zinogre —phase→ Charged —attack→ Bite",
        "Zinogre —phase→ Charged —attack→ Slam —then→ Bite",
    ]
    assert paths[0]["ids"] == ["Zinogre", "Charging", "Bite"]
    assert paths[0]["relations"] == ["phase", "attack"]
    shorter = zinogre("graph", "paths", "Zinogre", "Bite", "--longest", "2", "--most", "1")
    assert shorter.out == "Zinogre —phase→ Charging —attack→ Bite\n"
    everywhere = zinogre("graph", "paths", "Zinogre", "--longest", "2").out.splitlines()
    assert everywhere == [
        "Zinogre —phase→ Charging",
        "Zinogre —phase→ Charged",
        "Zinogre —phase→ Charging —attack→ Bite",
        "Zinogre —phase→ Charged —attack→ Bite",
        "Zinogre —phase→ Charged —attack→ Slam",
    ]
    zinogre("graph", "add", "Ice")
    assert zinogre("graph", "paths", "Zinogre", "Ice").out == "no path with --direction out\n"
    assert zinogre("graph", "paths", "Zinogre", "Fire").code == 1


def test_paths_follow_relations_either_way(zinogre):
    result = zinogre("graph", "paths", "Charging", "Slam", "--direction", "both", "--most", "2")
    assert result.out.splitlines() == [
        "Charging —attack→ Bite ←then— Slam",
        "Charging —attack→ Bite ←attack— Charged —attack→ Slam",
    ]
    along = zinogre("graph", "paths", "Charging", "Slam", "--longest", "3")
    assert along.out == "no path with --direction out\n"
    back = zinogre("graph", "paths", "Slam", "Zinogre", "--direction", "in")
    assert back.out == "Slam ←attack— Charged ←phase— Zinogre\n"


def test_every_path_is_found_and_none_twice(kb):
    """Compared with a plain enumeration, on a dense graph with repeated statements and loops."""
    names = "ABCDE"
    pairs = [(a, b) for a in names for b in names if (ord(a) * 7 + ord(b) * 3) % 4]
    for name in names:
        stated = [Relation("to", b.lower()) for a, b in pairs if a == name]
        kb.add(Unit(name, id=name.lower(), relations=(*stated, *stated[:1])))

    def walks(path: str, steps: int):
        if not steps:
            yield path
            return
        for a, b in pairs:
            if a == path[-1] and b not in path:
                yield from walks(path + b, steps - 1)

    expected = [w for n in range(1, 5) for w in walks("A", n) if w[-1] == "E"]
    paths = kb.graph.paths("a", "e", most=10_000, longest=4)
    assert sorted("".join(end.name for end in path.entities) for path in paths) == sorted(expected)
    lengths = [len(path.steps) for path in paths]
    assert lengths == sorted(lengths)


def test_export_and_import_through_the_commands(zinogre, tmp_path):
    result = zinogre("graph", "export", "out.graphml", "--json")
    assert result.json == {"entities": 5, "relations": 7, "images": 0, "left_out": []}
    assert zinogre("graph", "import", "out.graphml", "--kb", "kb2", "--json").code == 0
    with (
        KnowledgeBase.open(tmp_path / "kb") as first,
        KnowledgeBase.open(tmp_path / "kb2") as second,
    ):
        relations = [kb.graph.show("Charged").to_dict()["out"] for kb in (first, second)]
        assert relations[0] == relations[1]
    assert zinogre("graph", "export", "out.csv").code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("add",),
        ("add", "A", "--relation", "A", "to", "B"),
        ("add", "A", "--condition", "x"),
        ("add", "--relation", "A", "to", "B", "--kind", "x"),
        ("delete",),
        ("paths", "A", "--most", "0"),
        ("export",),
    ],
)
def test_what_does_not_fit_together_is_malformed_usage(ku, arguments):
    assert ku("graph", *arguments).code == 2


def test_the_methods_refuse_what_the_commands_do(kb):
    for wrong in ({}, {"name": "A", "relation": ("A", "b", "C")}):
        with pytest.raises(BadInput, match="give one of them"):
            kb.graph.delete(**wrong)
    with pytest.raises(BadInput, match="the relation is empty"):
        kb.graph.add_relation("A", " ", "C")
    with pytest.raises(NotFound, match="there is no entity 'A'"):
        kb.graph.delete("A")
    with pytest.raises(BadInput, match="condition belongs to a relation"):
        kb.graph.delete("A", condition="at night")


class Odd:
    """A path-like object without a path."""

    def __fspath__(self):
        return 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": 5}, "the name is 5"),
        ({"name": " \t"}, "the name is empty"),
        ({"name": "x" * 1_001}, "the name has 1,001 characters, at most 1,000"),
        ({"name": "A", "id": ["A"]}, "the id is a list"),
        ({"name": "A", "id": ""}, "the id is empty"),
        ({"name": "A", "aliases": "xyz"}, "aliases is 'xyz', one where several are expected"),
        ({"name": "A", "aliases": 5}, "aliases is 5: expected a list"),
        ({"name": "A", "caption": 5}, "the caption is 5: expected a text"),
        ({"name": "A", "images": 5}, "images is 5: expected a list"),
        ({"name": "A", "kind": "\ud800"}, "bytes that are not UTF-8"),
        ({"name": "A", "topic": "no"}, "topic is 'no': expected True or False"),
        ({"name": "A", "topic": np.array([1, 2])}, "topic is a ndarray: expected True or False"),
        ({"name": "A", "texts": np.array([1, 2])}, r"texts\[0\] is a int64: expected a text"),
        ({"name": "A", "images": np.zeros((2, 2))}, r"images\[0\] is a ndarray: expected a path"),
        ({"name": "A", "aliases": np.array("B")}, "aliases is a ndarray: expected a list"),
        ({"name": "A", "images": [Odd()]}, r"images\[0\] is a Odd without a text in it"),
        ({"name": "A", "images": Odd()}, "images is a Odd, one where several are expected"),
    ],
)
def test_what_is_no_name_is_refused_in_one_sentence(kb, options, message):
    with pytest.raises(BadInput, match=message):
        kb.graph.add_entity(**options)
    assert list(kb.list()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"relation": ("A", "b")}, "relation has 2 parts"),
        ({"relation": "abc"}, "relation is 'abc', one where several are expected"),
        ({"relation": ("A", "b", 5)}, r"relation\[2\] is 5"),
        ({"relation": ("A", "b", "C"), "condition": 5}, "condition is 5"),
        ({"relation": {"A", "b", "C"}}, "relation is a set, which has no order"),
        ({"relation": np.array(5)}, "relation is a ndarray: expected a list"),
    ],
)
def test_what_is_no_relation_is_refused_in_one_sentence(kb, options, message):
    with pytest.raises(BadInput, match=message):
        kb.graph.delete(**options)


def test_arrays_of_texts_are_taken(kb, tmp_path):
    pictures = np.array([str(picture(tmp_path / "a.png", 1))])
    kb.graph.add_entity("A", texts=np.array(["x", "y"]), aliases=np.array(["B"]), images=pictures)
    kb.graph.add_relation(*np.array(["A", "to", "C"]).tolist())
    entity = kb.graph.show("B").to_dict()
    assert (entity["text"], len(entity["images"]), len(entity["out"])) == ("x\n\ny", 1, 1)
    assert kb.verify().problems == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth_first": 5}, "depth_first is 5: expected True or False"),
        ({"setting": 5}, "the setting is 5: expected a text"),
        ({"images": None}, "images is None: expected a list"),
        ({"images": 5}, "images is 5: expected a list"),
        ({"images": Image.new("RGB", (4, 4))}, "images is a Image: expected a list"),
        ({"images": Path("A")}, "images is 'A', one where several are expected"),
        ({"images": "a.png"}, r"write images=\['a.png'\]"),
        ({"images": np.zeros((4, 4, 3))}, "the picture is a ndarray: expected a path"),
        ({"topic": np.array(["A"])}, "the topic is a ndarray: expected a text"),
    ],
)
def test_a_search_refuses_what_is_of_another_kind(kb, options, message):
    kb.graph.add_relation("Alpha", "to", "Beta")
    with pytest.raises(BadInput, match=message):
        kb.graph.search("What follows on Alpha?", **options)
    assert kb.graph.search("What follows on Alpha?", images=[Image.new("RGB", (32, 32))]).paths


def test_names_are_cleaned_as_in_files(kb):
    kb.graph.add_entity(" Zin\n ogre ", aliases=("", " Thunder\tWolf"), kind=" monster ")
    kb.graph.add_relation("Zin ogre", "bites ", "Rath\x07ian")
    entity = kb.graph.show("Zin ogre").to_dict()
    assert (entity["id"], entity["kind"], entity["aliases"]) == (
        "Zin ogre",
        "monster",
        ["Thunder Wolf"],
    )
    assert [(relation["relation"], relation["tail"]["name"]) for relation in entity["out"]] == [
        ("bites", "Rath ian")
    ]


def test_what_is_added_later_adds_to_what_was_added(kb, tmp_path):
    kb.graph.add_entity("Zinogre", kind="monster", texts=("It howls.",))
    kb.graph.add_entity("Zinogre", topic=True, caption="A dog.", aliases=("Wolf",))
    kb.graph.add_entity("Wolf", caption="A wolf.", texts=("It jumps.",))
    entity = kb.graph.show("Zinogre").to_dict()
    assert (entity["kind"], entity["topic"], entity["caption"]) == ("monster", True, "A wolf.")
    assert (entity["aliases"], entity["text"]) == (["Wolf"], "It howls.\n\nIt jumps.")
    assert kb.show("Zinogre").to_dict()["match"]
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(BadInput, match="not a readable picture"):
        kb.graph.add_entity("New", images=(tmp_path / "broken.png",))
    with pytest.raises(NotFound):
        kb.graph.show("New")
    assert kb.verify().problems == ()


def test_relations_that_are_stated_both_ways_make_one_path(kb):
    for name, neighbour in ["AB", "BC"]:
        kb.graph.add_relation(name, "borders", neighbour)
        kb.graph.add_relation(neighbour, "borders", name)
    kb.graph.add_relation("A", "borders", "B", condition="in summer")
    texts = [path.text for path in kb.graph.paths("A", "C", direction="both")]
    assert texts == [
        "A —borders→ B —borders→ C", "A —borders→ B (when in summer) —borders→ C",
    ]  # fmt: skip
    answer = kb.query(None, "How does A border C?")
    assert len({frozenset(path.entities) for path in answer.paths}) == len(answer.paths) > 0
