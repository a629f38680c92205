"""Facts of units, of their metadata and the lines of their texts, as relations to values."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ku_rag.graph.model import (
    CAPTION,
    MACHINE_CAPTION,
    NO_ROW,
    TOPIC,
    VIDEOS,
    Entity,
    Step,
)
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.tokens import name_key
from ku_rag.text.values import DIMENSIONS, MONEY, Amount, unit_of_label

_MOST_FACTS = 20_000
"""Facts of a label, or with a value, that are read for a question."""
_FIELDS = "l.label, coalesce(f.value, f.key), coalesce(f.scope, ''), f.chunk, f.first, f.last"
_UNIT = "u.row, coalesce(e.row, -u.row), u.name, u.kind, u.id, f.number, f.measure, f.amount"
_OF_UNITS = "JOIN units u ON u.row = f.unit AND f.key != '' LEFT JOIN entities e ON e.unit = u.row"
_TRUTH = {"true": "yes", "false": "no"}


class Label(NamedTuple):
    """A label of facts, and its row."""

    row: int
    label: str


class Numbers(NamedTuple):
    """What a value says in numbers; see `text.values.Quantity`."""

    number: float | None = None
    measure: str | None = None
    amount: float | None = None

    @property
    def comparable(self) -> float | None:
        """The amount in the base unit, or else the number as written."""
        return self.number if self.amount is None else self.amount


@dataclass(frozen=True, slots=True)
class UnitFact:
    """A fact of a unit: row of the unit, its entity, the fact as a relation, and numbers."""

    row: int
    unit: Entity
    step: Step
    numbers: Numbers

    @property
    def id(self) -> str:
        """Id of the unit."""
        return self.unit.unit or ""

    def is_beyond(self, limit: Amount, sign: int) -> bool:
        """Return whether it is greater than a limit (`sign` 1), or less (-1)."""
        number, measure, amount = self.numbers
        if measure != limit.unit:
            # A number without a unit is compared as written, as are prices and years.
            is_plain = measure in (None, "date") and limit.unit not in DIMENSIONS - MONEY
            amount = number if is_plain else None
        return amount is not None and sign * amount > sign * limit.number


@dataclass
class FactReader:
    """Reads facts of units, for one question.

    Args:
        connection: To the store.
        note: What was not read, in a sentence; "" if everything was.
    """

    connection: Connection
    note: str = ""

    def of_unit(self, entity: Entity) -> list[Step]:
        """Return the facts of a unit, in the order in which they are stated; [] for no unit."""
        found = [
            _fact(entity, *fields)
            for fields in self.connection.execute(
                f"SELECT {_FIELDS} FROM units u JOIN facts f ON f.unit = u.row AND f.key != '' "
                "JOIN labels l ON l.row = f.label AND l.origin != 'part' WHERE u.id = ? "
                "ORDER BY f.row",
                (entity.unit,),
            )
            if not _is_internal(fields[0])
        ]
        # Reversed: of facts that are stated twice, the first.
        unique = {(name_key(one.relation), one.tail.row): one for one in reversed(found)}
        return [*unique.values()][::-1]

    def values(self, key: str) -> list[str]:
        """Return the values that units have under a key of their metadata."""
        rows = self.connection.execute(
            "SELECT DISTINCT coalesce(f.value, f.key) FROM labels l "
            "JOIN facts f ON f.label = l.row "
            "WHERE l.label = ? AND l.origin = 'metadata' AND f.key != '' LIMIT ?",
            (key, _MOST_FACTS),
        )
        return [value for (value,) in rows]

    def of_tables(self, entity: Entity) -> list[tuple[Step, list[str]]]:
        """Return the cells of the tables of a unit, each with the others of its row.

        The name of the table and the rest of the row are the information of a cell.
        """
        found = []
        for name, cells in self.connection.execute(
            "SELECT t.name, t.cells FROM units u JOIN sources s ON s.unit = u.row "
            "JOIN table_rows t ON t.source = s.row WHERE u.id = ? ORDER BY s.row, t.document",
            (entity.unit,),
        ):
            row = [(column, text) for column, text, _ in json.loads(cells) if text.strip()]
            for column, text in row:
                others = [cell for other, cell in row if other != column]
                notes = [f"{other} {cell}" for other, cell in row if other != column]
                step = _fact(entity, column, text, "; ".join([*notes, name]), None, None, None)
                found.append((step, others))
        return found

    @cached_property
    def labels(self) -> list[Label]:
        """The labels of facts, without those that describe nodes of the graph."""
        rows = self.connection.execute(
            "SELECT row, label FROM labels WHERE origin != 'part' ORDER BY row"
        )
        return [Label(*one) for one in rows if not _is_internal(one[1])]

    def with_labels(self, labels: Iterable[int]) -> list[UnitFact]:
        """Return the facts that have one of some labels, by the rows of these."""
        query = (
            f"SELECT {_FIELDS}, {_UNIT} FROM json_each(?) w CROSS JOIN labels l ON l.row = w.value "
            f"CROSS JOIN facts f ON f.label = l.row {_OF_UNITS}"
        )
        return [_unit_fact(*row) for row in self._first(query, as_json(labels))]

    def with_values(self, keys: Sequence[str]) -> Iterator[tuple[str, UnitFact]]:
        """Yield the key and the fact for each fact that has one of some values in lower case."""
        query = (
            f"SELECT {_FIELDS}, {_UNIT}, w.value FROM json_each(?) w CROSS JOIN labels l "
            f"CROSS JOIN facts f ON f.label = l.row AND f.key = w.value {_OF_UNITS}"
        )
        for *fields, key in self._first(query, as_json(keys)):
            if not _is_internal(fields[0]):
                yield key, _unit_fact(*fields)

    def of_end(self, unit: Entity, step: Step) -> UnitFact:
        """Return a relation as a fact of the unit at one of its ends."""
        (row,) = self.connection.execute(
            "SELECT row FROM units WHERE id = ?", (unit.unit,)
        ).fetchone()
        return UnitFact(row, unit, step, Numbers())

    def kinds(self) -> list[str]:
        """Return the kinds of the units."""
        rows = self.connection.execute(
            "WITH RECURSIVE k(kind) AS (SELECT min(kind) FROM units UNION ALL "
            "SELECT (SELECT min(u.kind) FROM units u WHERE u.kind > k.kind) FROM k "
            "WHERE k.kind IS NOT NULL) SELECT kind FROM k WHERE kind IS NOT NULL"
        )
        return [kind for (kind,) in rows]

    def count(self, kinds: Sequence[str]) -> int:
        """Return the number of units of some kinds."""
        query = "SELECT count(*) FROM units WHERE kind IN (SELECT value FROM json_each(?))"
        return int(self.connection.execute(query, (as_json(kinds),)).fetchone()[0])

    def _first(self, query: str, *values: object) -> list[Any]:
        """The first rows of a query; that there are more is noted."""
        rows = list(self.connection.execute(f"{query} LIMIT ?", (*values, _MOST_FACTS + 1)))
        if len(rows) > _MOST_FACTS:
            self.note = f"Only the first {_MOST_FACTS:,} facts were read: there may be more."
        return rows[:_MOST_FACTS]


def _is_internal(label: str) -> bool:
    """Return whether a field of metadata describes a node of the graph and is no fact."""
    return label in (TOPIC, CAPTION, VIDEOS, "aliases") or label.startswith(MACHINE_CAPTION)


def _fact(
    entity: Entity,
    label: str,
    value: str,
    heading: str,
    chunk: int | None,
    start: int | None,
    end: int | None,
) -> Step:
    """A fact; the unit of "Weight (kg): 3" goes to the value."""
    plain, unit = unit_of_label(label)
    if unit and value.replace(",", "").replace(".", "").isdigit():
        label, value = plain, f"{value} {unit}"
    value = _TRUTH.get(value.lower(), value)
    tail = Entity(NO_ROW - zlib.crc32(name_key(value).encode()), value, "")
    line = None if chunk is None or start is None or end is None else (chunk, start, end)
    return Step(tail.row, entity, label, tail, heading, line=line)


def _unit_fact(
    label: str,
    value: str,
    heading: str,
    chunk: int | None,
    start: int | None,
    end: int | None,
    row: int,
    *rest: Any,  # noqa: ANN401 - columns of a row
) -> UnitFact:
    unit = Entity(*rest[:4])
    step = _fact(unit, label, value, heading, chunk, start, end)
    return UnitFact(row, unit, step, Numbers(*rest[4:]))
