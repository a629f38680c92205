"""Taking knowledge out again: units and sources, with everything that only they brought."""

from __future__ import annotations

from collections.abc import Sequence

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest import assembly
from ku_rag.store import content_rows, relations
from ku_rag.store.connection import Connection
from ku_rag.store.content_rows import Dropped


def delete_units(
    connection: Connection,
    units: Sequence[int],
    inverted: InvertedIndex,
    dropped: Dropped,
    *,
    waiting: bool = False,
) -> None:
    """Delete units by row, inside a change.

    Args:
        connection: inside a change.
        units: rows.
        inverted: the lists to keep right.
        dropped: is added to.
        waiting: what others state of them stays, and waits for somebody who bears the name.
    """
    for unit in units:
        keys = {
            key for (key,) in connection.execute("SELECT key FROM names WHERE unit = ?", (unit,))
        }
        inverted.drop(unit, keys)
        left = relations.let_go(connection, unit) if waiting else []
        others = relations.sources_aiming_at(connection, unit)
        content_rows.drop_unit(connection, unit, dropped)
        for source in others:
            assembly.update_relation_digest(connection, source)
        relations.resolve_names(connection, ids=(), keys=keys)
        relations.resolve(connection, left)


def delete_sources(
    connection: Connection,
    sources: Sequence[int],
    inverted: InvertedIndex,
    dropped: Dropped,
    *,
    bare: bool = False,
) -> None:
    """Delete sources by row, inside a change.

    Their units are settled again without them, and go when nothing speaks of them any more: no
    source is left, or neither chunk nor image nor relation (KU-RAG, appendix A, KU deletion).

    Args:
        connection: inside a change.
        sources: rows.
        inverted: the lists to keep right.
        dropped: is added to.
        bare: units stay as long as any source speaks of them, as entities of a graph do, and what
            others state of those that go stays.
    """
    touched: dict[int, str] = {}
    for source in sources:
        owner = connection.execute(
            "SELECT u.row, u.id FROM sources s JOIN units u ON u.row = s.unit WHERE s.row = ?",
            (source,),
        ).fetchone()
        content_rows.drop_source(connection, source, dropped)
        if owner:
            touched[owner[0]] = owner[1]
    for unit, unit_id in touched.items():
        gone = content_rows.is_empty(connection, unit)
        if bare:
            gone = not content_rows.sources_of(connection, unit)
        if gone:
            delete_units(connection, [unit], inverted, dropped, waiting=bare)
        else:
            assembly.update_unit(connection, unit_id, inverted, row=unit)


def unstate(
    connection: Connection,
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
            delete_sources(connection, [source], inverted, dropped, bare=True)
        else:
            assembly.update_relation_digest(connection, source)
