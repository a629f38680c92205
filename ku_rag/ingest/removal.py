"""Taking knowledge out again: units and sources, with everything that only they brought."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest import assembly
from ku_rag.store import contents, relations
from ku_rag.store.contents import Dropped


def delete_units(
    connection: sqlite3.Connection,
    units: Sequence[int],
    inverted: InvertedIndex,
    dropped: Dropped,
) -> None:
    """Delete units by row, inside a change."""
    for unit in units:
        keys = {
            key for (key,) in connection.execute("SELECT key FROM names WHERE unit = ?", (unit,))
        }
        inverted.drop(unit, keys)
        others = relations.sources_aiming_at(connection, unit)
        contents.drop_unit(connection, unit, dropped)
        for source in others:
            assembly.restate(connection, source)
        relations.resolve_names(connection, ids=(), keys=keys)


def delete_sources(
    connection: sqlite3.Connection,
    sources: Sequence[int],
    inverted: InvertedIndex,
    dropped: Dropped,
) -> None:
    """Delete sources by row, inside a change.

    Their units are settled again without them, and go when nothing speaks of them any more: no
    source is left, or neither chunk nor image (KU-RAG, appendix A, KU deletion).
    """
    touched: dict[int, str] = {}
    for source in sources:
        owner = connection.execute(
            "SELECT u.row, u.id FROM sources s JOIN units u ON u.row = s.unit WHERE s.row = ?",
            (source,),
        ).fetchone()
        contents.drop_source(connection, source, dropped)
        if owner:
            touched[owner[0]] = owner[1]
    for unit, unit_id in touched.items():
        if contents.is_empty(connection, unit):
            delete_units(connection, [unit], inverted, dropped)
        else:
            assembly.settle(connection, unit_id, inverted, row=unit)
