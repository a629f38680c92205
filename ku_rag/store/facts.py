"""Facts: what units and rows of tables state, as rows that filters and answers read.

Facts are written in the change that writes what they are read from: those of metadata with the row
of the unit, those of texts and tables with the chunk. Kinds, names and relations have tables of
their own and are not repeated here; `of_unit` returns them as well.

Functions that write are called inside a change (`Database.change`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from ku_rag.store import text_places
from ku_rag.store.connection import Connection, array_of, as_json
from ku_rag.text import statements
from ku_rag.text.statements import Statement, locate
from ku_rag.text.values import Quantity, quantity, unit_of_label
from ku_rag.types import Serializable

EXTRACTOR = 6
"""Version of the rules by which facts are read. A base of an earlier one is upgraded."""
METADATA, TEXT, SENTENCE, TABLE, PART = "metadata", "text", "sentence", "table", "part"
"""Origins of facts. A part is an item of a list, "red" of "pink and red", or "in stock: yes". Not
all that sentences say is read."""
EXTRACTED = "extracted by "
"""Beginning of the origin of facts that a model read from texts."""
_READERS = {TEXT: statements.of_text, SENTENCE: statements.of_sentences}
"""What reads the facts of texts, by their origin."""
_LONGEST_KEY = 48
_KEY_BEGIN = 40
_READ_LABELS = f"SELECT row FROM labels WHERE origin NOT LIKE '{EXTRACTED}%'"
_COLUMNS = (
    "unit, subject, label, value, key, number, measure, amount, upper, scope, chunk, first, last"
)


@dataclass(frozen=True, slots=True)
class Fact(Serializable):
    """A statement about a unit.

    Args:
        label: Of the statement, such as a field of metadata, a column or a relation.
        value: As written; None for null.
        origin: "metadata", "text" (a labelled line), "sentence", "table", "relation", "inverse
            relation", "kind", "alias", or "extracted by" and the name of a model.
        number: The number that the value begins with; of a date, the year.
        measure: Dimension of the amount, or "date".
        amount: The number in the base unit of the dimension (m, g, l, m², s).
        scope: Heading of the text, name of the table, or kind of the entity at the other end.
        source: URI of the source; None for metadata, kinds and aliases, which sources declare
            together.
        span: Where the chunk states it, in characters.
    """

    label: str
    value: str | None
    origin: str
    number: float | None = None
    measure: str | None = None
    amount: float | None = None
    condition: str | None = None
    scope: str = ""
    source: str | None = None
    chunk: int | None = None
    span: tuple[int, int] | None = None


class ExtractedFact(NamedTuple):
    """A fact that a model read: row of the unit, what is stated, and row of the chunk.

    The span of the statement is that of its sentence, which has the value in it.
    """

    unit: int
    statement: Statement
    chunk: int


class _Row(NamedTuple):
    """A fact that is to be stored: row of the unit or subject of a row of a table, and the rest."""

    unit: int | None
    subject: str | None
    statement: Statement
    chunk: int | None = None


# ---- writing -------------------------------------------------------------------------------------


def drop_metadata(connection: Connection, units: Sequence[int]) -> None:
    """Delete the facts of the metadata of units, by their rows."""
    if units:
        listed = "unit IN (SELECT value FROM carray(?)) AND chunk IS NULL"
        _delete(connection, listed, array_of(units))


def add_metadata(connection: Connection, units: Mapping[int, Mapping[str, object]]) -> None:
    """Store the facts of the metadata of units, by their rows."""
    rows = (
        _Row(unit, None, stated)
        for unit, metadata in units.items()
        for stated in statements.of_metadata(metadata)
    )
    _insert(connection, METADATA, rows)


def add_chunks(connection: Connection, chunks: Mapping[int, tuple[int | None, str]]) -> None:
    """Store the facts of new chunks: rows of tables, and labelled lines of other texts.

    `chunks` has the row of the owner and the text of each row.
    """
    if not chunks:
        return
    cells, sections = _cells(connection, chunks), text_places.sections(connection, chunks)
    names = dict(
        connection.execute(
            "SELECT u.row, u.name FROM json_each(?) w CROSS JOIN units u ON u.row = w.value",
            (as_json({unit for unit, _ in chunks.values() if unit is not None}),),
        )
    )
    for origin, read in _READERS.items():
        stated = (
            _Row(unit, None, statement, chunk)
            for chunk, (unit, text) in chunks.items()
            if unit is not None and chunk not in cells
            for statement in read(text, names[unit], sections.get(chunk))
        )
        _insert(connection, origin, stated)
    _insert(connection, TABLE, _of_rows(cells))


def replace_read(connection: Connection, chunks: Mapping[int, tuple[int | None, str]]) -> None:
    """Read the facts of chunks again, see `add_chunks`: the name of their unit has changed."""
    _drop_read(connection, list(chunks))
    add_chunks(connection, chunks)


def replace_row(connection: Connection, source: int, document: int) -> None:
    """Replace the facts of a row of a table whose cells have changed."""
    listed = "SELECT row FROM chunks WHERE source = ? AND document = ?"
    chunks = connection.column(listed, (source, document))
    _drop_read(connection, chunks)
    _insert(connection, TABLE, _of_rows(_cells(connection, chunks)))


def add_extracted(connection: Connection, model: str, facts: Iterable[ExtractedFact]) -> int:
    """Store facts that a model read from texts, and return how many are new.

    What a labelled line or another model states as well is stored too, since those may be deleted.
    """
    new = [
        fact
        for fact in facts
        if not connection.execute(
            "SELECT 1 FROM facts f JOIN labels l ON l.row = f.label "
            "WHERE f.unit = ? AND l.key = ? AND f.key = ? AND l.origin = ?",
            (
                fact.unit,
                fact.statement.label.casefold(),
                value_key(fact.statement.value or ""),
                EXTRACTED + model,
            ),
        ).fetchone()
    ]
    rows = [_Row(fact.unit, None, fact.statement, fact.chunk) for fact in dict.fromkeys(new)]
    _insert(connection, EXTRACTED + model, rows)
    return len(rows)


def drop_extracted(connection: Connection, model: str) -> int:
    """Delete the facts that a model read from texts, and return how many they were."""
    of_model = "label IN (SELECT row FROM labels WHERE origin = ?)"
    return _delete(connection, of_model, EXTRACTED + model)


def drop_chunks(connection: Connection, chunks: Sequence[int]) -> None:
    """Delete the facts of chunks."""
    if chunks:
        _delete(connection, "chunk IN (SELECT value FROM carray(?))", array_of(chunks))


def _drop_read(connection: Connection, chunks: Sequence[int]) -> None:
    """Delete the facts of chunks that are read without a model."""
    if chunks:
        condition = f"chunk IN (SELECT value FROM carray(?)) AND label IN ({_READ_LABELS})"
        _delete(connection, condition, array_of(chunks))


def drop_all_read(connection: Connection) -> None:
    """Delete all facts that are read without a model, and their labels."""
    connection.execute(f"DELETE FROM facts WHERE label IN ({_READ_LABELS})")
    connection.execute(f"DELETE FROM labels WHERE row IN ({_READ_LABELS})")


def drop_unit(connection: Connection, unit: int) -> None:
    """Delete the facts of a unit."""
    _delete(connection, "unit = ?", unit)


def _delete(connection: Connection, condition: str, value: object) -> int:
    """Delete facts, and labels that no other fact has; return the number of facts."""
    labels = connection.column(f"DELETE FROM facts WHERE {condition} RETURNING label", (value,))
    if labels:
        connection.execute(
            "DELETE FROM labels WHERE row IN (SELECT value FROM json_each(?)) "
            "AND NOT EXISTS (SELECT 1 FROM facts WHERE label = labels.row)",
            (as_json({*labels}),),
        )
    return len(labels)


def _cells(connection: Connection, chunks: Iterable[int]) -> dict[int, tuple[str, str] | None]:
    """Return table and cells (JSON) of chunks of rows; None for all but the first of a row."""
    cells: dict[int, tuple[str, str] | None] = {}
    for chunk, is_first, name, row in connection.execute(
        "SELECT c.row, NOT EXISTS (SELECT 1 FROM chunks p WHERE p.source = c.source "
        "AND p.document = c.document AND p.position < c.position), t.name, t.cells "
        "FROM json_each(?) w CROSS JOIN chunks c ON c.row = w.value "
        "JOIN table_rows t ON t.source = c.source AND t.document = c.document "
        "WHERE EXISTS (SELECT 1 FROM table_rows)",
        (as_json(chunks),),
    ):
        cells[chunk] = (name, row) if is_first else None
    return cells


def _of_rows(cells: Mapping[int, tuple[str, str] | None]) -> Iterator[_Row]:
    for chunk, row in cells.items():
        if row is not None:
            subject, stated = statements.of_row(orjson.loads(row[1]), row[0])
            yield from (_Row(None, subject, fact, chunk) for fact in stated)


def _insert(connection: Connection, origin: str, rows: Iterable[_Row]) -> None:
    for kind, listed in _with_parts(origin, rows).items():
        labels = _labels(connection, kind, {row.statement.label for row in listed})
        connection.executemany(
            f"INSERT INTO facts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (row.unit, row.subject, labels[row.statement.label], *_columns(row))
                for row in listed
            ),
        )


def _with_parts(origin: str, rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    """Return facts by origin; what no model read has the items of lists as facts of their own."""
    listed = list(rows)
    parts = [
        row._replace(statement=part)
        for row in ([] if origin.startswith(EXTRACTED) else listed)
        for part in statements.parts(row.statement)
    ]
    return {origin: listed, PART: parts}


def _columns(row: _Row) -> tuple[object, ...]:
    """The columns of a fact from `value` on."""
    label, value, scope, first, last = row.statement
    key, numbers = None, Quantity()
    if value is not None:
        key, numbers = value_key(value), quantity(value, unit_of_label(label)[1])
    span = (None, None) if row.chunk is None or row.unit is None else (first, last)
    written = None if value == key else value
    return written, key, *numbers, scope or None, row.chunk, *span


def _labels(connection: Connection, origin: str, labels: Iterable[str]) -> dict[str, int]:
    """Return the rows of labels; new ones are inserted."""
    wanted = sorted(labels)
    if not wanted:
        return {}
    connection.executemany(
        "INSERT INTO labels (label, origin, key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        ((label, origin, label.casefold()) for label in wanted),
    )
    rows = connection.execute(
        "SELECT l.label, l.row FROM json_each(?) w "
        "CROSS JOIN labels l ON l.label = w.value AND l.origin = ?",
        (as_json(wanted), origin),
    )
    return dict(rows)


def value_key(value: str) -> str:
    """Return the key by which values are compared; of a long one, its beginning and a checksum."""
    key = value.casefold()
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[:_KEY_BEGIN]}{zlib.crc32(key.encode()):08x}"


# ---- reading -------------------------------------------------------------------------------------


def of_unit(connection: Connection, unit: int) -> list[Fact]:
    """Return everything that is stated of a unit: declared, in texts and tables, by relations."""
    kind, aliases, unit_id = connection.execute(
        "SELECT kind, aliases, id FROM units WHERE row = ?", (unit,)
    ).fetchone()
    declared = [Fact("kind", kind, "kind")]
    declared += [Fact("alias", alias, "alias") for alias in json.loads(aliases)]
    keys = connection.column("SELECT key FROM names WHERE unit = ?", (unit,))
    stored = connection.execute(
        "SELECT l.label, coalesce(f.value, f.key), l.origin, f.number, f.measure, f.amount, "
        "NULL, coalesce(f.scope, ''), s.uri, f.chunk, f.first, f.last "
        "FROM facts f JOIN labels l ON l.row = f.label LEFT JOIN chunks c ON c.row = f.chunk "
        "LEFT JOIN sources s ON s.row = c.source "
        "WHERE l.origin != ?3 AND (f.unit = ?1 "
        "OR f.subject IN (SELECT value FROM json_each(?2))) ORDER BY f.row",
        (unit, as_json([unit_id, *keys]), PART),
    )
    related = connection.execute(
        "SELECT r.relation, t.name, 'relation', NULL, NULL, NULL, r.condition, t.kind, s.uri "
        "FROM entities e JOIN relations r ON r.head = e.row JOIN entities t ON t.row = r.tail "
        "JOIN sources s ON s.row = r.source WHERE e.unit = ?1 UNION ALL "
        "SELECT r.relation, h.name, 'inverse relation', NULL, NULL, NULL, r.condition, h.kind, "
        "s.uri FROM entities e JOIN relations r ON r.tail = e.row "
        "JOIN entities h ON h.row = r.head JOIN sources s ON s.row = r.source WHERE e.unit = ?1 "
        "ORDER BY 3 DESC, 1, 2, 7, 9",  # not by rows: an import numbers them anew
        (unit,),
    )
    facts = [
        Fact(*(*fields, None if first is None else (first, last)))
        for *fields, first, last in stored
    ]
    return [*declared, *facts, *(Fact(*fields) for fields in related)]


# ---- for verify and upgrade ----------------------------------------------------------------------


def differences(
    connection: Connection, units: Sequence[int], chunks: Sequence[int]
) -> Iterator[str]:
    """Yield where the facts of some units and chunks differ from what these state."""
    for unit, unit_id, metadata in connection.execute(
        "SELECT u.row, u.id, u.metadata FROM json_each(?) w CROSS JOIN units u ON u.row = w.value",
        (as_json(units),),
    ).fetchall():
        rows = (_Row(unit, None, fact) for fact in statements.of_metadata(json.loads(metadata)))
        if _stored(connection, "f.unit = ? AND f.chunk IS NULL", unit) != _expected(METADATA, rows):
            yield f"the facts of unit {unit_id!r} are not what its metadata states"
    cells, sections = _cells(connection, chunks), text_places.sections(connection, chunks)
    for chunk, unit, name, text in connection.execute(
        "SELECT c.row, s.unit, u.name, c.text FROM json_each(?) w "
        "CROSS JOIN chunks c ON c.row = w.value JOIN sources s ON s.row = c.source "
        "LEFT JOIN units u ON u.row = s.unit",
        (as_json(chunks),),
    ).fetchall():
        if chunk in cells:
            expected = _expected(TABLE, _of_rows({chunk: cells[chunk]}))
        else:
            expected = [
                row
                for origin, read in (_READERS if unit is not None else {}).items()
                for row in _expected(
                    origin,
                    (_Row(unit, None, f, chunk) for f in read(text, name, sections.get(chunk))),
                )
            ]
        if _stored(connection, "f.chunk = ?", chunk) != expected:
            yield f"the facts of chunk {chunk} are not what its text states"
        for value, first, last in connection.execute(
            "SELECT coalesce(value, key), first, last FROM facts WHERE chunk = ? "
            f"AND label NOT IN ({_READ_LABELS})",
            (chunk,),
        ):
            if locate(value, text, first, last) is None:
                yield f"chunk {chunk} does not state {value!r}, which a model read there"


def _expected(origin: str, rows: Iterable[_Row]) -> list[tuple[object, ...]]:
    return [
        (kind, row.unit, row.subject, row.statement.label, *_columns(row))
        for kind, listed in _with_parts(origin, rows).items()
        for row in listed
    ]


def _stored(connection: Connection, condition: str, value: int) -> list[tuple[object, ...]]:
    columns = ", ".join(f"f.{column}" for column in _COLUMNS.split(", ")[3:])
    rows: list[tuple[object, ...]] = connection.execute(
        f"SELECT l.origin, f.unit, f.subject, l.label, {columns} FROM facts f "
        f"JOIN labels l ON l.row = f.label WHERE {condition} AND l.row IN ({_READ_LABELS}) "
        "ORDER BY f.row",
        (value,),
    ).fetchall()
    return rows
