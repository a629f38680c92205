"""Taking back what single sources say, where a unit may be worth keeping without text or picture.

`removal` lets a unit go with its last chunk and picture. What a graph says of an entity may be
neither, so here a unit goes with the last source that speaks of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest import assembly
from ku_rag.ingest.removal import delete_units
from ku_rag.store import contents, relations
from ku_rag.store.contents import Dropped


def drop_sources(
    connection: sqlite3.Connection,
    sources: Iterable[int],
    inverted: InvertedIndex,
    dropped: Dropped,
) -> None:
    """Delete sources of units by row, inside a change; others settle what is left of a unit."""
    units: dict[int, str] = {}
    for source in sources:
        row, unit_id = connection.execute(
            "SELECT u.row, u.id FROM sources s JOIN units u ON u.row = s.unit WHERE s.row = ?",
            (source,),
        ).fetchone()
        units[row] = unit_id
        contents.drop_source(connection, source, dropped)
    for row, unit_id in units.items():
        if contents.sources_of(connection, row):
            assembly.settle(connection, unit_id, inverted, row=row)
        else:
            delete_units(connection, [row], inverted, dropped)


def unstate(
    connection: sqlite3.Connection,
    rows: Sequence[int],
    inverted: InvertedIndex,
    dropped: Dropped,
    *,
    by_hand: str,
) -> None:
    """Delete relations by row, inside a change; their sources state what is left.

    Args:
        connection: inside a change.
        rows: of the relations.
        inverted: the lists to keep right.
        dropped: is added to.
        by_hand: begins the uris of sources that state one relation and nothing else: they go.
    """
    dropped.relations += rows
    for source in sorted(relations.drop(connection, rows)):
        (uri,) = connection.execute("SELECT uri FROM sources WHERE row = ?", (source,)).fetchone()
        if uri.startswith(by_hand):
            drop_sources(connection, [source], inverted, dropped)
        else:
            assembly.restate(connection, source)
