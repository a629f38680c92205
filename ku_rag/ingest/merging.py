"""Merging of two units: all sources of one of them join the other. It can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ku_rag.errors import Refused
from ku_rag.indexes import inverted
from ku_rag.ingest import assembly
from ku_rag.store import content_rows, facts, relations, table_rows
from ku_rag.store.connection import Connection, as_json
from ku_rag.store.unit_records import known_row, unit_row

_PARTS = {
    "sources": "SELECT uri, origin, declared -> '$.replaces' FROM sources WHERE unit = ?",
    "renamed": "SELECT r.renamed, r.row FROM entities e JOIN relations r ON r.tail = e.row "
    "WHERE e.unit = ?",
    "cells": "SELECT t.source, t.document, t.cells FROM units u JOIN cell_links l "
    "ON l.target = u.id JOIN table_rows t USING (source, document) WHERE u.row = ?",
}
"""What the merge of a unit, by its row, changes."""
_LISTED = "(SELECT value FROM json_each(?))"


def merge_units(connection: Connection, unit_id: str, other_id: str) -> dict[str, Any]:
    """Give a unit the sources of another one, which is deleted. Called inside a change.

    Returns:
        What `split_unit` takes to undo it.
    """
    unit, other = known_row(connection, unit_id), known_row(connection, other_id)
    parts = {name: connection.execute(sql, (other,)).fetchall() for name, sql in _PARTS.items()}
    # The edits of one of them do not replace what the other declares.
    joined = "origin = 'join', declared = json_replace(declared, '$.replaces', json('false'))"
    connection.execute(f"UPDATE sources SET {joined} WHERE unit = ?", (other,))
    sources = as_json(content_rows.sources_of(connection, other))
    facts.drop_metadata(connection, [other])
    connection.execute("DELETE FROM unit_chunks WHERE unit = ? AND NOT owned", (other,))
    _move_sources(connection, sources, other, unit)
    relations.merge_entities(connection, unit, other)
    connection.execute("DELETE FROM units WHERE row = ?", (other,))
    _read_chunks(connection, sources)
    assembly.update_units(connection, {unit_id: unit})
    table_rows.replace_links(connection, other_id, unit_id)
    return parts | {"id": other_id, "row": other}


def split_unit(connection: Connection, unit_id: str, parts: Mapping[str, Any]) -> None:
    """Undo a merge with the parts that it returned. Called inside a change.

    Raises:
        Refused: a unit has the id again, or no source of the other unit is left.
    """
    unit, other_id, other = known_row(connection, unit_id), parts["id"], parts["row"]
    if unit_row(connection, other_id) is not None:
        raise Refused(f"there is a unit {other_id!r} again: delete it before the merge is undone")
    restored = "origin = ?, declared = json_replace(declared, '$.replaces', json(?))"
    connection.executemany(
        f"UPDATE sources SET {restored} WHERE uri = ? AND unit = ?",
        ((origin, replaces, uri, unit) for uri, origin, replaces in parts["sources"]),
    )
    uris = as_json(uri for uri, *_ in parts["sources"])
    declared = connection.execute(
        f"SELECT ?, origin, uri, declared, row FROM sources WHERE unit = ? AND uri IN {_LISTED}",
        (other, unit, uris),
    ).fetchall()
    if not declared:
        raise Refused(f"every source of {other_id!r} was deleted: the merge cannot be undone")
    sources = as_json(row for *_, row in declared)
    stated = ((*f, assembly.Declaration.from_json(text)) for *f, text, _ in declared)
    keys = assembly.insert_units(connection, {other_id: other}, stated)
    _move_sources(connection, sources, unit, other)
    relations.split_entities(connection, other, sources, parts["renamed"])
    assembly.update_units(connection, {unit_id: unit})
    relations.resolve_names(connection, ids=[other_id], keys=keys)
    table_rows.restore_links(connection, parts["cells"], other_id, unit_id)
    _read_chunks(connection, sources, as_json(cells[:2] for cells in parts["cells"]))


def _move_sources(connection: Connection, sources: str, unit: int, other: int) -> None:
    """Let sources, a JSON list of rows, belong to another unit."""
    chunks = f"chunk IN (SELECT row FROM chunks WHERE source IN {_LISTED})"
    for table, owned in (
        ("sources", f"row IN {_LISTED}"),
        ("unit_images", f"source IN {_LISTED}"),
        ("facts", chunks),
        ("unit_chunks", f"owned AND {chunks}"),
    ):
        moved = f"UPDATE OR REPLACE {table} SET unit = ? WHERE unit = ? AND {owned}"
        connection.execute(moved, (other, unit, sources))


def _read_chunks(connection: Connection, sources: str, rows: str = "[]") -> None:
    """List, index and read again the chunks of sources, and those of rows of tables."""
    chunks = {
        row: (owner, text)
        for row, owner, text in connection.execute(
            "SELECT c.row, s.unit, c.text FROM chunks c JOIN sources s ON s.row = c.source "
            f"WHERE s.row IN {_LISTED} OR (s.row, c.document) IN "
            "(SELECT value ->> 0, value ->> 1 FROM json_each(?))",
            (sources, rows),
        )
    }
    inverted.replace_chunks(connection, chunks)
    facts.replace_read(connection, chunks)
