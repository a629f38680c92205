"""Facts of units, of their metadata and the lines of their texts, as relations to values."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from ku_rag.graph.model import CAPTION, MACHINE_CAPTION, NO_ROW, TOPIC, VIDEOS, Entity, Step
from ku_rag.store.connection import Connection
from ku_rag.text.statements import IN_STOCK
from ku_rag.text.tokens import name_key
from ku_rag.text.values import unit_of_label

_MOST_VALUES = 20_000
FIELDS = "l.label, coalesce(f.value, f.key), coalesce(f.scope, ''), f.chunk, f.first, f.last"
"""Columns of a fact `f` and its label `l`, as `as_step` takes them."""
_TRUTH = {"true": "yes", "false": "no"}


@dataclass(frozen=True, slots=True)
class FactReader:
    """Reads facts of units; `among` are rows of the units that count, None for all."""

    connection: Connection
    among: frozenset[int] | None = None

    def of_unit(self, entity: Entity) -> list[Step]:
        """Return the facts of a unit, in the order in which they are stated; [] for no unit."""
        steps = [
            as_step(entity, label, value, heading, place)
            for label, value, heading, *place in self.connection.execute(
                f"SELECT {FIELDS} FROM facts f JOIN labels l ON l.row = f.label "
                "WHERE (f.unit = ?1 OR f.subject IN (SELECT key FROM names WHERE unit = ?1)) "
                "AND f.key != '' AND (l.origin NOT IN ('part', 'sentence') "
                f"OR l.label = '{IN_STOCK}') ORDER BY f.row",
                (self._row(entity),),
            )
            if not is_internal(label)
        ]
        # Reversed: of facts that are stated twice, the first.
        unique = {(name_key(step.relation), step.tail.row): step for step in reversed(steps)}
        return [*unique.values()][::-1]

    def values(self, key: str) -> list[str]:
        """Return the values that units have under a key of their metadata."""
        rows = self.connection.execute(
            "SELECT DISTINCT coalesce(f.value, f.key) FROM labels l "
            "JOIN facts f ON f.label = l.row "
            "WHERE l.label = ? AND l.origin = 'metadata' AND f.key != '' LIMIT ?",
            (key, _MOST_VALUES),
        )
        return [value for (value,) in rows]

    def of_tables(self, entity: Entity) -> list[tuple[Step, list[str]]]:
        """Return the cells of the tables of a unit, each with the rest of its row."""
        facts = []
        for name, cells in self.connection.execute(
            "SELECT t.name, t.cells FROM sources s JOIN table_rows t ON t.source = s.row "
            "WHERE s.unit = ? ORDER BY s.row, t.document",
            (self._row(entity),),
        ):
            row = [(column, text) for column, text, _ in json.loads(cells) if text.strip()]
            for column, text in row:
                others = [cell for other, cell in row if other != column]
                notes = [f"{other} {cell}" for other, cell in row if other != column]
                step = as_step(entity, column, text, "; ".join([*notes, name]))
                facts.append((step, others))
        return facts

    def kinds(self) -> list[str]:
        """Return the kinds of the units."""
        rows = self.connection.execute(
            "WITH RECURSIVE k(kind) AS (SELECT min(kind) FROM units UNION ALL "
            "SELECT (SELECT min(u.kind) FROM units u WHERE u.kind > k.kind) FROM k "
            "WHERE k.kind IS NOT NULL) SELECT kind FROM k WHERE kind IS NOT NULL"
        )
        return [kind for (kind,) in rows]

    def _row(self, entity: Entity) -> int | None:
        """Return the row of a unit that counts; None if the entity is none."""
        query = "SELECT row FROM units WHERE id = ?"
        (row,) = self.connection.execute(query, (entity.unit,)).fetchone() or (None,)
        return row if self.among is None or row in self.among else None


def is_internal(label: str) -> bool:
    """Return whether a field of metadata describes a node of the graph and is no fact."""
    return label in (TOPIC, CAPTION, VIDEOS, "aliases") or label.startswith(MACHINE_CAPTION)


def as_step(
    entity: Entity, label: str, value: str, heading: str = "", place: Sequence[int | None] = ()
) -> Step:
    """Return a fact as a relation to its value; the unit of "Weight (kg): 3" goes to the value."""
    plain, unit = unit_of_label(label)
    if unit and value.replace(",", "").replace(".", "").isdigit():
        label, value = plain + "".join(label.partition("_per_")[1:]), f"{value} {unit}"
    value = _TRUTH.get(value.lower(), value)
    tail = Entity(NO_ROW - zlib.crc32(name_key(value).encode()), value, "")
    chunk, start, end = place or (None, None, None)
    line = None if chunk is None or start is None or end is None else (chunk, start, end)
    return Step(tail.row, entity, label, tail, heading, line=line)
