"""Facts of units, of their metadata and the lines of their texts, as relations to values."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ku_rag.graph.model import (
    CAPTION,
    MACHINE_CAPTION,
    NO_ROW,
    TOPIC,
    VIDEOS,
    Entity,
    Step,
)
from ku_rag.indexes import keywords
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.stems import query_terms
from ku_rag.text.tokens import name_key
from ku_rag.text.values import unit_of_label

_MOST_UNITS, _MOST_LINES = 20_000, 2_000
"""Units of a kind, and chunks of theirs, that are read for a question about the kind."""
_NO_ROW = "(c.source, c.document) NOT IN (SELECT source, document FROM table_rows)"
"""The lines of a row of a table say nothing of the unit that owns the table."""
_FIELDS = "l.label, coalesce(f.value, f.key), coalesce(f.scope, ''), f.chunk, f.first, f.last"
_OF_UNITS = (
    f"SELECT {_FIELDS}, u.row, coalesce(e.row, -u.row), u.name, u.kind, u.id "
    "FROM units u JOIN facts f ON f.unit = u.row AND f.key != '' "
    "JOIN labels l ON l.row = f.label LEFT JOIN entities e ON e.unit = u.row"
)
_TRUTH = {"true": "yes", "false": "no"}


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
                "JOIN labels l ON l.row = f.label WHERE u.id = ? ORDER BY f.row",
                (entity.unit,),
            )
            if not _is_internal(fields[0])
        ]
        # Reversed: of facts that are stated twice, the first.
        unique = {(name_key(one.relation), one.tail.row): one for one in reversed(found)}
        return [*unique.values()][::-1]

    def of_kinds(
        self,
        kinds: Sequence[str],
        words_: Sequence[str],
        labels: Collection[str],
        among: Collection[int] | None,
    ) -> list[list[Step]]:
        """Return the metadata and labelled lines of the units of some kinds, unit by unit.

        Args:
            kinds: Their kinds.
            words_: Folded words, all of which a chunk has whose lines are read.
            labels: Stems, one of which it has; none for any chunk.
            among: Rows of the units that count; None for all.
        """
        found: dict[int, list[Step]] = {}
        listed = as_json(kinds)
        rows = self._first(
            _MOST_UNITS,
            "facts",
            f"{_OF_UNITS} WHERE u.kind IN (SELECT value FROM json_each(?)) AND f.chunk IS NULL ",
            listed,
        )
        terms = query_terms(words_, keywords.language_of(self.connection))
        parts = [" AND ".join(f'"{one}"' for one in terms), " OR ".join(f'"{o}"' for o in labels)]
        query = " AND ".join(f"({one})" for one in parts if one)
        rows += self._first(
            _MOST_LINES,
            "lines",
            f"{_OF_UNITS} WHERE f.chunk IN (SELECT rowid FROM words WHERE words MATCH ?) "
            "AND u.kind IN (SELECT value FROM json_each(?))",
            query or '""',
            listed,
        )
        for *fields, row, entity, name, kind, unit in rows:
            if not _is_internal(fields[0]):
                step = _fact(Entity(entity, name, kind, unit), *fields)
                found.setdefault(row, []).append(step)
        return [found[row] for row in sorted(found) if among is None or row in among]

    def values(self, key: str) -> list[str]:
        """Return the values that units have under a key of their metadata."""
        rows = self.connection.execute(
            "SELECT DISTINCT coalesce(f.value, f.key) FROM labels l "
            "JOIN facts f ON f.label = l.row "
            "WHERE l.label = ? AND l.origin = 'metadata' AND f.key != '' LIMIT ?",
            (key, _MOST_UNITS),
        )
        return [value for (value,) in rows]

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

    def _first(self, most: int, what: str, query: str, *values: object) -> list[Any]:
        """The first rows of a query; that there are more is noted."""
        rows = list(self.connection.execute(f"{query} LIMIT ?", (*values, most + 1)))
        if len(rows) > most:
            self.note = f"Only the first {most:,} {what} were read: there may be more."
        return rows[:most]


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
