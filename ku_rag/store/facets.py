"""Facets: labels of facts by which people narrow down a list of units."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from ku_rag.store.connection import Connection, array_of, fetch_rows
from ku_rag.store.facts import METADATA, TEXT
from ku_rag.store.filters import ANY, UnitFilter
from ku_rag.types import Serializable

_MOST_UNITS = 2_000
"""Units whose facts are read. Of more, these are evenly chosen, and the counts are estimates."""
_MOST_VALUES = 12
_LEAST_SHARE = 0.2
"""Share of the units that a label must cover."""
_MOST_FACETS = 50
_LONGEST = 40
"""Characters of a value, and of a label."""
_SELECT = f"""
WITH counted AS (
    SELECT f.label, min(coalesce(f.value, f.key)) AS value, count(DISTINCT f.unit) AS units,
        min(f.number) AS low, max(f.number) AS high, count(*) - count(f.number) AS words
    FROM carray(?1) w CROSS JOIN facts f ON f.unit = w.value WHERE f.key NOT NULL
    GROUP BY f.label, f.key
)
SELECT l.key, l.label, l.origin, count(*), max(length(value)), min(low), max(high), sum(words),
    sum(units),
    json_group_array(json_array(value, units) ORDER BY units DESC, value)
FROM counted c JOIN labels l ON l.row = c.label
WHERE l.origin IN ('{METADATA}', '{TEXT}') AND length(l.label) <= {_LONGEST}
AND l.label NOT GLOB '*[=!<>]*' AND l.label NOT LIKE '{ANY}%' AND trim(l.label) = l.label
AND value NOT GLOB '[=!<> ]*' AND value NOT GLOB '* ' GROUP BY l.row HAVING sum(units) >= ?2
ORDER BY l.origin, count(*) > {_MOST_VALUES}, l.key
"""


@dataclass(frozen=True, slots=True)
class Facet(Serializable):
    """A label with few values, or with numbers.

    Args:
        label: as written.
        field: what it is called in conditions (`where`): the label, or "any:LABEL" of texts.
        values: values with numbers of units, the most frequent first; empty for a range.
        low: lowest number of a range.
        high: highest number of a range.
    """

    label: str
    field: str
    values: tuple[tuple[str, int], ...] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Facets(Serializable):
    """The facets of the units that pass a filter.

    Args:
        units: number of these units.
        facets: labels with few values first.
        is_estimate: whether the counts of values and the ranges are estimates.
    """

    units: int
    facets: tuple[Facet, ...] = ()
    is_estimate: bool = False


def of_units(connection: Connection, units: UnitFilter, kept: Collection[Facet] = ()) -> Facets:
    """Return the facets of the units that pass a filter.

    Facets `kept` from a longer list are returned even if they cover few of these units, have one
    value, or have many values for so few units.
    """
    rows = units.rows(connection)
    if rows is None:
        rows = fetch_rows(connection, "SELECT row FROM units")
    if not len(rows):
        return Facets(0)
    step = -(-len(rows) // _MOST_UNITS)
    sample = rows[::step]
    least = _LEAST_SHARE * len(sample)
    are_lists = {facet.field: bool(facet.values) for facet in kept}
    facets: dict[str, Facet] = {}
    for key, label, origin, count, longest, low, high, words, covered, listed in connection.execute(
        _SELECT, (array_of(sample), 1 if kept else least)
    ):
        field = label if origin == METADATA else f"{ANY}{label}"
        if covered < least and field not in are_lists:
            continue
        is_list = are_lists.get(field, 1 < count <= covered / 2)
        if is_list and count <= _MOST_VALUES and longest <= _LONGEST:
            values = ((value, _scaled(number, step)) for value, number in json.loads(listed))
            facets.setdefault(key, Facet(label, field, tuple(values)))
        elif not words and low < high:
            facets.setdefault(key, Facet(label, field, low=low, high=high))
    return Facets(len(rows), tuple(facets.values())[:_MOST_FACETS], step > 1)


def _scaled(count: int, step: int) -> int:
    """Return a count in every `step`-th unit as one of all units; estimates have two digits."""
    scaled = count * step
    return scaled if step == 1 else round(scaled, 2 - len(str(scaled)))
