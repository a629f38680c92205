"""Facts: statements about units, as rows."""

from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, Unit
from ku_rag.types import Cell, Table
from tests.conftest import connect
from tests.store.test_upgrades import unpack

LAMP = Unit(
    "Steel Lamp",
    id="lamp",
    kind="product",
    aliases=("Lamp 7",),
    texts=("Steel Lamp\nPrice: 1,200 g\n- **Height** 1.2 km\nMade in May 1931.",),
    metadata={
        "weight (kg)": 3,
        "colours": ["Red", "blue"],
        "maker": {"name": "Nordwood", "since": "May 1931"},
        "note": None,
        "story": "long " * 30,
    },
)


def facts_of(kb, unit):
    return {(fact.label, fact.value): fact for fact in kb.facts(unit)}


def test_facts_are_read_from_metadata_and_lines(kb):
    kb.add(LAMP)
    facts = facts_of(kb, "lamp")
    assert {("kind", "product"), ("alias", "Lamp 7"), ("note", None)} <= facts.keys()
    assert {("colours", "Red"), ("colours", "blue"), ("maker.name", "Nordwood")} <= facts.keys()
    weight = facts["weight (kg)", "3"]
    assert (weight.origin, weight.number, weight.measure, weight.amount) == (
        "metadata", 3.0, "mass", 3000.0,
    )  # fmt: skip
    since = facts["maker.since", "May 1931"]
    assert (since.measure, since.number) == ("date", 1931.0)
    height = facts["Height", "1.2 km"]
    assert (height.origin, height.amount, height.scope) == ("text", 1200.0, "Steel Lamp")
    text = kb.show("lamp").texts[0]
    assert text[slice(*height.span)] == "- **Height** 1.2 km"
    assert facts["Price", "1,200 g"].source.startswith("add:lamp/")


def test_a_sentence_on_a_thing_is_no_fact_of_a_property(kb):
    text = "The lamp 17 was built in Kern. The North Hall is closed. The lamp is heavy. "
    kb.add(
        Unit("Steel Lamp 17", id="lamp", texts=(text + "The height is 40 m. Its wick is flat.",))
    )
    assert {label for label, _ in facts_of(kb, "lamp")} - {"kind"} == {"height", "wick"}


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Iko is waterproof. It is not red.", {("waterproof", "yes"), ("red", "no")}),
        ("Iko is a small tent for two and light.", {("is a", "tent"), ("is", "small")}),
        (
            "Iko is a red lamp built in Kent. It is a kind of torch.",
            {("is a", "lamp"), ("is", "red"), ("built in", "Kent")},
        ),
        (
            "The Iko costs 1.200 euros and is heavy.",
            {("price", "1.200 euros"), ("heavy", "yes")},
        ),
        (
            "Iko is made of oak and brass and weighs 2 kg, but it is not new.",
            {("material", "oak and brass"), ("weight", "2 kg"), ("new", "no")},
        ),
        (
            "Designed by Mia Roe in 1961, it stands 40 cm tall and 20 cm wide.",
            {
                ("designed by", "Mia Roe"),
                ("designed", "1961"),
                ("height", "40 cm"),
                ("width", "20 cm"),
            },
        ),
        (
            "It was cast by the smith J. M. Lind in Hull in 1702. The town gave it to Ann.",
            {
                ("cast by", "J. M. Lind"),
                ("made by", "J. M. Lind"),
                ("cast in", "Hull"),
                ("year", "1702"),
            },
        ),
        ("Ann Roe repaired it in 1901.", {("repaired by", "Ann Roe"), ("repaired", "1901")}),
        ("Ann Roe repaired the bell beside it in 1901. It was cast in 1702.", set()),
        (
            "Made of steel, the Iko has a range of 90 km.",
            {("material", "steel"), ("range", "90 km")},
        ),
        ("It is a lamp. The lamp lasts 9 hours.", {("is a", "lamp"), ("lasts", "9 hours")}),
        (
            "Iko is a small red fruit that weighs 60 g.",
            {("is a", "fruit"), ("is", "small"), ("is", "red"), ("weight", "60 g")},
        ),
        (
            "Iko is a large painted vase made in Kent.",
            {("is a", "vase"), ("is", "large"), ("is", "painted"), ("made in", "Kent")},
        ),
        ("An older Iko cost 9 euros. It weighs 3 kg.", set()),
        ("It may be made of oak. It is not made of brass. It was never sold in 1920.", set()),
        ("It is bought by people who live in Kent and weighs about 2 kg.", set()),
        ("Iko costs 30 euros a day.", set()),
        ("It is not in stock.", {("availability", "not in stock")}),
        ("Iko is with a red bag. Bags are soft. It is waterproof.", set()),
        ("It is supposed. It is not so. Iko is red, if wet. It is waterproof up to 1 m.", set()),
        ("# Care\n\nIt is washable.", set()),
        ("The mill beside the Iko was built in 1890. It is 9 m long.", set()),
        (
            "Iko is red, if wet. The old mill, a barn, was rebuilt in 1890. It is flat.",
            set(),
        ),
        ("The Iko has a range of 80 to 95 km. It is made of beech or oak.", set()),
        ("Iko is a large cat native to Asia. It is a bit slow. It is 3 km from Kent.", set()),
        ("It is a story about a painter who is loved. According to Ann, it is a toy.", set()),
        ("Iko is a composer known as the Bear.", set()),
        ("Iko is a text editor written in Rust.", {("is a", "editor"), ("is", "text")}),
        ("It is opened by a motor that was made in Hull.", {("opened by", "a motor")}),
        ("It was found by a trawler from Hull.", {("found by", "a trawler")}),
        ("It is made by the team behind Fyn. It is near a garden laid out in 1920.", set()),
        ("It was owned by Mr. Roe and Col. Grey.", {("owned by", "Mr. Roe and Col. Grey")}),
        ("It is closed on Mondays. It has a clock made in Hull.", set()),
        ("It is an hour from Hull. It has a handle broken in 1920.", set()),
        ("The lid is made of tin and weighs 2 kg.", set()),
        ("Iko is red, if wet. The leaves are 6 cm long. They are white.", set()),
    ],
)
def test_sentences_say_what_a_thing_is_and_is_not(kb, text, stated):
    kb.add(Unit("Iko", id="iko", texts=(text,)))
    facts = {(fact.label, fact.value) for fact in kb.facts("iko") if fact.label != "kind"}
    assert facts == stated
    assert kb.verify().problems == ()


def test_facts_of_tables_belong_to_the_unit_that_a_row_links_to_or_names(kb):
    rows = ((Cell("Old Rhine", link="rhine"), Cell("1,230 km")), (Cell("Elbe"), Cell("1,094 km")))
    table = Table(("River", "Length"), rows, "Rivers of Europe")
    kb.add(Unit("Rivers", id="rivers", texts=("A list.",), tables=(table,)))
    kb.add(Unit("Rhine", id="rhine", texts=("A river.",)))
    kb.add(Unit("Elbe", id="elbe", texts=("A river.",)))
    for unit, length in (("rhine", "1,230 km"), ("elbe", "1,094 km")):
        fact = facts_of(kb, unit)["Length", length]
        assert (fact.origin, fact.measure, fact.scope) == ("table", "length", "Rivers of Europe")
    kb.update("elbe", name="Labe")
    assert ("Length", "1,094 km") in facts_of(kb, "elbe")
    assert kb.verify().problems == ()


def test_relations_are_facts_in_both_directions(kb):
    kb.graph.add_relation("Pawmi", "evolves into", "Pawmo", condition="level 18")
    kb.add(Unit("Pawmo", id="Pawmo", texts=("A thing.",)))
    (into,) = [fact for fact in kb.facts("Pawmi") if fact.origin == "relation"]
    (back,) = [fact for fact in kb.facts("Pawmo") if fact.origin == "inverse relation"]
    assert (into.label, into.value, into.condition) == ("evolves into", "Pawmo", "level 18")
    assert (back.label, back.value, back.condition) == ("evolves into", "Pawmi", "level 18")


def test_facts_change_and_go_with_what_they_were_read_from(kb, tmp_path):
    kb.add(LAMP)
    kb.update("lamp", metadata={"weight": "4 kg"}, texts=("Depth: 5 cm",))
    labels = {fact.label for fact in kb.facts("lamp")}
    assert labels == {"kind", "alias", "weight", "Depth"}
    kb.add(Unit("Oak", id="oak", texts=("The height of Oak is 5 m.", "The age of Ash is 9 years.")))
    assert {fact.label for fact in kb.facts("oak")} == {"kind", "height"}
    kb.update("oak", name="Ash")
    assert {fact.label for fact in kb.facts("oak")} == {"kind", "age"}
    kb.delete(["lamp", "oak"])
    for table in ("facts", "labels"):
        assert rows(tmp_path / "kb", table) == 0
    assert kb.verify().problems == ()


def rows(folder, table):
    connection = connect(folder / "ku.sqlite")
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    connection.close()
    return count


def test_a_fact_takes_at_most_130_bytes_beside_its_value(kb, tmp_path):
    count, value = 4_000, "steel"
    kb.add_many(Unit(f"T{n}", id=f"t{n}", texts=("x",)) for n in range(count))
    connection = connect(tmp_path / "kb" / "ku.sqlite")

    def size():
        kb.compact()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        return pages * 8192 - sum(
            len(metadata)
            for (metadata,) in connection.execute("SELECT metadata FROM units").fetchall()
        )

    before = size()
    fields = {f"field {n}": f"{value} {n}" for n in range(10)}
    kb.add_many(Unit(f"T{n}", id=f"t{n}", texts=("x",), metadata=fields) for n in range(count))
    assert (size() - before) / (10 * count) - len(value) - 2 <= 130
    connection.close()


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0", "0.3.0"])
def test_an_upgrade_reads_the_facts_of_all_content(tmp_path, version):
    unpack(version, tmp_path)
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        assert kb.verify().problems == ()
        units = [kb.show(unit.id) for unit in kb.list()]
        stated = {fact.label for unit in units for fact in unit.facts}
        assert stated >= {label for unit in units for label in unit.metadata}


def test_facts_of_an_older_extractor_are_read_again(kb, ku, tmp_path):
    kb.add(LAMP)
    expected = kb.facts("lamp")
    path = tmp_path / "kb"
    kb.close()
    connection = connect(path / "ku.sqlite")
    connection.execute("UPDATE facts SET value = 'old'; REPLACE INTO meta VALUES ('facts', '0')")
    connection.close()
    refused = ku("show", "lamp", "--kb", str(path))
    assert refused.code == 4
    assert "ku upgrade" in refused.err
    assert ku("upgrade", "--kb", str(path)).code == 0
    with KnowledgeBase.open(path) as again:
        assert again.facts("lamp") == expected


def test_verify_compares_facts_with_what_states_them(kb, tmp_path):
    kb.add(LAMP)
    connection = connect(tmp_path / "kb" / "ku.sqlite")
    connection.execute("UPDATE facts SET number = 4 WHERE number = 3")
    connection.execute("DELETE FROM facts WHERE chunk NOT NULL AND key = '1.2 km'")
    connection.close()
    assert [problem.split(" are not ")[0] for problem in kb.verify().problems] == [
        "no fact has the label 'Height'",
        "the facts of unit 'lamp'",
        "the facts of chunk 1",
    ]


def test_show_prints_what_texts_and_tables_state(kb, ku, tmp_path):
    kb.add(LAMP)
    path = str(tmp_path / "kb")
    assert (
        "read in its texts and in tables:\n  Price: 1,200 g\n"
        in ku("show", "lamp", "--kb", path).out
    )
    facts = json.loads(ku("show", "lamp", "--kb", path, "--json").out)["facts"]
    assert {"label": "note", "value": None}.items() <= next(
        fact for fact in facts if fact["label"] == "note"
    ).items()
