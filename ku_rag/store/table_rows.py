"""Rows of tables, and the units that their cells link to.

The text of a row is a document of its source, so that rows are cut, encoded, searched and deleted
like texts. These tables store the rest: the table of each row, its number, and its cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, groupby
from operator import itemgetter

from ku_rag.store import facts
from ku_rag.store.connection import Connection, array_of, as_json
from ku_rag.store.content_rows import sources_of
from ku_rag.text.tokens import name_key
from ku_rag.types import Cell, Table, TableRow


def put(connection: Connection, source: int, tables: Sequence[Table], first: int) -> None:
    """Store the tables of a source that has none, before its chunks are listed.

    Called inside a change. `first` is the number of the document that holds the first row.
    """
    connection.executemany(
        "INSERT INTO table_rows VALUES (?, ?, ?, ?, ?, ?)",
        ((source, *row) for row in stored_rows(tables, first)),
    )
    all_rows = chain.from_iterable(table.rows for table in tables)
    connection.executemany(
        "INSERT INTO cell_links VALUES (?, ?, ?)",
        (
            (source, document, link)
            for document, row in enumerate(all_rows, first)
            for link in {cell.link for cell in row if cell.link}
        ),
    )


def stored_rows(tables: Sequence[Table], first: int) -> Iterator[tuple[int, int, str, int, str]]:
    """Yield the rows of tables: document, place and name of the table, number, cells in JSON.

    `first` is the number of the document that holds the first row.
    """
    document = count(first)
    for place, table in enumerate(tables):
        for number, row in enumerate(table.rows):
            named = zip(table.header, row, strict=True)
            cells = as_json((column, cell.text, cell.link) for column, cell in named)
            yield next(document), place, table.name, number, cells


def link_named(connection: Connection, unit: int, key: str) -> None:
    """Link the cells that hold a name of a unit, see `name_key`, and nothing else, to the unit.

    Called inside a change.
    """
    rows = connection.execute(
        "SELECT DISTINCT t.source, t.document, t.cells, u.id FROM unit_chunks l "
        "JOIN units u ON u.row = l.unit JOIN chunks c ON c.row = l.chunk "
        "JOIN table_rows t ON t.source = c.source AND t.document = c.document "
        "WHERE l.unit = ? AND NOT l.owned",
        (unit,),
    ).fetchall()
    for source, document, cells, id in rows:
        row = json.loads(cells)
        named = [cell for cell in row if cell[2] is None and name_key(cell[1]) == key]
        for cell in named:
            cell[2] = id
        if named:
            _link_row(connection, source, document, row, id)


def replace_links(connection: Connection, target: str, new: str) -> None:
    """Let the cells that link to a unit link to another one, by their ids. Inside a change."""
    for source, document, cells in connection.execute(
        "SELECT t.source, t.document, t.cells FROM cell_links l JOIN table_rows t "
        "ON t.source = l.source AND t.document = l.document WHERE l.target = ?",
        (target,),
    ).fetchall():
        row = [(*cell, new if link == target else link) for *cell, link in json.loads(cells)]
        _link_row(connection, source, document, row, new)
    connection.execute("DELETE FROM cell_links WHERE target = ?", (target,))


def _link_row(
    connection: Connection, source: int, document: int, row: Sequence[object], unit_id: str
) -> None:
    """Store the changed cells of a row, which now link to a unit."""
    place = source, document
    connection.execute(
        "UPDATE table_rows SET cells = ? WHERE source = ? AND document = ?", (as_json(row), *place)
    )
    connection.execute("INSERT OR IGNORE INTO cell_links VALUES (?, ?, ?)", (*place, unit_id))
    connection.execute(
        "INSERT OR IGNORE INTO unit_chunks (unit, chunk, owned) SELECT u.row, c.row, 0 "
        "FROM units u, chunks c WHERE u.id = ? AND c.source = ? AND c.document = ?",
        (unit_id, *place),
    )
    facts.replace_row(connection, source, document)


def drop(connection: Connection, source: int) -> None:
    """Delete the tables of a source; those of a source that is deleted go with it."""
    connection.execute("DELETE FROM table_rows WHERE source = ?", (source,))
    connection.execute("DELETE FROM cell_links WHERE source = ?", (source,))


def are_stored(connection: Connection) -> bool:
    """Return whether the base has tables."""
    return bool(connection.column("SELECT 1 FROM table_rows LIMIT 1"))


def has_rows(connection: Connection, source: int) -> bool:
    """Return whether a source has tables."""
    return bool(connection.column("SELECT 1 FROM table_rows WHERE source = ? LIMIT 1", (source,)))


def row_chunks(connection: Connection, chunks: Sequence[int]) -> list[int]:
    """Return those of the chunks that are parts of rows."""
    return connection.column(
        "SELECT c.row FROM carray(?) w JOIN chunks c ON c.row = w.value "
        "JOIN table_rows t ON t.source = c.source AND t.document = c.document",
        (array_of(chunks),),
    )


def of_chunks(connection: Connection, chunks: Sequence[int]) -> dict[int, TableRow]:
    """Return chunk → its row, for those of the chunks that are parts of rows."""
    return {
        chunk: TableRow(name, number, tuple((c, Cell(text, link)) for c, text, link in cells))
        for chunk, name, number, cells in (
            (*fields, json.loads(cells))
            for *fields, cells in connection.execute(
                "SELECT c.row, t.name, t.number, t.cells FROM json_each(?) w "
                "CROSS JOIN chunks c ON c.row = w.value "
                "JOIN table_rows t ON t.source = c.source AND t.document = c.document",
                (as_json(chunks),),
            )
        )
    }


def of_unit(connection: Connection, unit: int) -> list[Table]:
    """Return the tables of a unit's own sources."""
    result = []
    for source in sources_of(connection, unit):
        rows = connection.execute(
            "SELECT place, name, cells FROM table_rows WHERE source = ? ORDER BY document",
            (source,),
        )
        result += tables(rows)
    return result


def without_rows(texts: Sequence[str], tables: Sequence[Table]) -> tuple[str, ...]:
    """Return the texts of a unit that are not rows of its tables."""
    rows = {table.row_text(number) for table in tables for number in range(len(table.rows))}
    return tuple(text for text in texts if text not in rows)


def tables(rows: Iterable[tuple[int, str, str]]) -> list[Table]:
    """Return the tables of rows in order: place and name of the table, and cells in JSON.

    Raises:
        BadInput, ValueError, TypeError: The cells of a row are something else.
    """
    result = []
    for (_, name), group in groupby(rows, key=itemgetter(0, 1)):
        cells = [json.loads(text) for *_, text in group]
        header = tuple(column for column, *_ in cells[0])
        values = tuple(tuple(Cell(*cell) for _, *cell in row) for row in cells)
        result.append(Table(header, values, name))
    return result
