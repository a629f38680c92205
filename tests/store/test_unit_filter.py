"""Filters of units by kind and metadata."""

from __future__ import annotations

import pytest

from ku_rag import BadInput, Unit

METADATA = {
    "a": {"Calories": 60, "price": "49 euros", "tags": ["sweet", "Red"], "ripe": True},
    "b": {"calories": 110, "price": "1,200 euros", "tags": ["sour"], "ripe": False},
    "c": {"calories": "about 90", "opened": "1931-05-01", "price": None},
    "d": {},
}


@pytest.fixture
def units(kb):
    kb.add_many(
        Unit(unit, id=unit, kind="fruit" if unit < "c" else "thing", metadata=metadata)
        for unit, metadata in METADATA.items()
    )
    return lambda *where, **options: [unit.id for unit in kb.list(where=where, **options)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("calories<100", "a"),
        ("calories <= 110", "ab"),
        ("CALORIES>=60.5", "b"),
        ("calories=60", "a"),
        ("calories!=60", "bc"),
        ("price<100", "a"),
        ("price>100", "b"),
        ("price = 49 EUROS", "a"),
        ("tags=red", "a"),
        ("tags!=sweet", "b"),
        ("ripe=true", "a"),
        ("opened<1931-06", "c"),
        ("opened>1930", "c"),
        ("opened=' OR 1=1", ""),
        ("nothing!=x", ""),
    ],
)
def test_conditions_compare_numbers_as_numbers(units, where, expected):
    assert units(where) == list(expected)


def test_all_conditions_and_the_kind_must_hold(units):
    assert units("calories>50", "tags=sour") == ["b"]
    assert units("calories>50", kind="fruit", limit=1) == ["a"]
    assert units(kind="thing") == ["c", "d"]
    assert units() == ["a", "b", "c", "d"]


def test_one_condition_may_be_a_text(kb, units):
    assert [unit.id for unit in kb.list(where="calories<100")] == ["a"]


@pytest.mark.parametrize("wrong", ["calories", "<100", "calories<", "=", ""])
def test_a_malformed_condition_is_refused_with_its_form(kb, wrong):
    with pytest.raises(BadInput, match='expected FIELD OPERATOR VALUE, such as "calories<100"'):
        kb.list(where=wrong)
