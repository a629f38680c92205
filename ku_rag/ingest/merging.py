"""Merging of two units: all sources of one of them join the other."""

from __future__ import annotations

from ku_rag.indexes import keywords
from ku_rag.ingest import assembly
from ku_rag.store import content_rows, facts, relations, table_rows
from ku_rag.store.connection import Connection
from ku_rag.store.unit_records import known_row
from ku_rag.text.tokens import words


def merge_units(connection: Connection, unit_id: str, other_id: str) -> None:
    """Give a unit the sources of another one, which is deleted. Called inside a change."""
    unit, other = rows = known_row(connection, unit_id), known_row(connection, other_id)
    chunks = content_rows.own_chunks(connection, other)
    moved = {row: (unit, text) for row, (_, text) in chunks.items()}
    # What was before a change of one of them was without the texts of the other.
    connection.execute("DELETE FROM history WHERE unit IN (?, ?)", rows)
    # The edits of one of them do not replace what the other declares.
    joined = "origin = 'join', declared = json_replace(declared, '$.replaces', json('false'))"
    connection.execute(f"UPDATE sources SET unit = ?, {joined} WHERE unit = ?", rows)
    connection.execute("UPDATE unit_images SET unit = ? WHERE unit = ?", rows)
    connection.execute(
        "INSERT OR REPLACE INTO unit_chunks (unit, chunk, owned) "
        "SELECT ?, chunk, 1 FROM unit_chunks WHERE unit = ? AND owned",
        rows,
    )
    connection.execute("DELETE FROM unit_chunks WHERE unit = ?", (other,))
    facts.drop_metadata(connection, [other])
    connection.execute("UPDATE facts SET unit = ? WHERE unit = ?", rows)
    relations.merge_entities(connection, unit, other)
    connection.execute("DELETE FROM units WHERE row = ?", (other,))
    cut = ((row, unit, words(text)) for row, (_, text) in moved.items())
    keywords.put(connection, [unit], cut, again=True)
    facts.replace_read(connection, moved)
    assembly.update_units(connection, {unit_id: unit})
    table_rows.replace_links(connection, other_id, unit_id)
