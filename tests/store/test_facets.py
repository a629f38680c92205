"""Facets: labels that narrow down a list of units."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, Unit

COLOURS = ("red", "green", "blue", "red")


@pytest.fixture
def kb(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        tools = [
            Unit(
                f"Tool {number}",
                id=f"t{number}",
                kind="tool",
                texts=[f"Maker: {'Ann' if number % 2 else 'Bob'}"],
                metadata={
                    "Colour": COLOURS[number % 4],
                    "price": number,
                    "code": f"x{number}",
                    "tags": ["new", "old"] if number % 2 else ["old"],
                }
                | ({"rare": "yes" if number else "no"} if number < 3 else {}),
            )
            for number in range(40)
        ]
        kb.add_many([*tools, Unit("Book", id="book", kind="book", metadata={"pages": 300})])
        yield kb


def values(facets):
    return {facet.field: facet.values for facet in facets.facets if facet.values}


def test_labels_with_few_values_are_counted(kb):
    facets = kb.facets(kind="tool")
    assert (facets.units, facets.is_estimate) == (40, False)
    assert values(facets) == {
        "Colour": (("red", 20), ("blue", 10), ("green", 10)),
        "any:Maker": (("Ann", 20), ("Bob", 20)),
        "tags": (("old", 40), ("new", 20)),
    }


def test_numbers_are_ranges(kb):
    ranges = [(f.field, f.low, f.high) for f in kb.facets().facets if not f.values]
    assert ranges == [("price", 0, 39)]


def test_values_are_conditions(kb):
    for field, listed in values(kb.facets(kind="tool")).items():
        for value, count in listed:
            assert len(kb.list(where=f"{field}={value}")) == count
    narrowed = kb.facets(where=["colour=red", "price>=30"])
    assert narrowed.units == 5
    assert values(narrowed)["any:Maker"] == (("Ann", 3), ("Bob", 2))


def test_facets_of_all_units_stay_when_few_units_pass(kb):
    narrowed = kb.facets(kind="tool", where=["price>=36"])
    assert narrowed.units == 4
    assert values(narrowed) == {
        "Colour": (("red", 2), ("blue", 1), ("green", 1)),
        "any:Maker": (("Ann", 2), ("Bob", 2)),
        "tags": (("old", 4), ("new", 2)),
    }
    assert [facet.label for facet in narrowed.facets if not facet.values] == ["price"]
    assert values(kb.facets(kind="tool", where=["price>=36", "colour=red"])) == {
        "Colour": (("red", 2),),
        "tags": (("old", 2), ("new", 1)),
        "any:Maker": (("Ann", 1), ("Bob", 1)),
    }


def test_values_and_labels_that_no_condition_can_name_are_left_out(kb):
    marks = ("=a", "<b>", "!c", " d", "e ", 'f"', "g=h")
    for number in range(28):
        metadata = {"mark": marks[number % 7], " edge": number % 2, "any:x": number % 2}
        kb.add(Unit(f"Sign {number}", id=f"s{number}", kind="sign", metadata=metadata))
    facets = kb.facets(kind="sign")
    assert values(facets) == {"mark": (('f"', 4), ("g=h", 4))}
    assert len(facets.facets) == 1
    assert len(kb.list(where=['mark=f"'])) == 4


def test_the_number_of_facets_is_bounded(kb):
    columns = {f"c{number}": 1 for number in range(200)}
    for number in range(2):
        metadata = {name: value + number for name, value in columns.items()}
        kb.add(Unit(f"Row {number}", kind="row", metadata=metadata))
    assert len(kb.facets(kind="row").facets) == 50


def test_no_units_have_no_facets(kb):
    assert kb.facets(kind="nothing").to_dict() == {"units": 0, "facets": [], "is_estimate": False}


def test_the_counts_of_many_units_are_estimates(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(
            Unit(f"Thing {number}", id=f"t{number}", metadata={"size": "SML"[number // 3 % 3]})
            for number in range(4_500)
        )
        facets = kb.facets()
    assert (facets.units, facets.is_estimate) == (4_500, True)
    assert facets.facets[0].values == (("L", 1_500), ("M", 1_500), ("S", 1_500))
