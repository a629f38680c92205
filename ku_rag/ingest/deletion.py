"""Deletion of units, sources and relations, with everything that only they brought."""

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
    *,
    keep_entities: bool = False,
) -> Dropped:
    """Delete units.

    Args:
        connection: Inside a change.
        units: Their rows.
        inverted: The lists to update.
        keep_entities: Keep the relations of others to a unit; they end at an entity of its name.
    """
    dropped = Dropped()
    for unit in units:
        keys = {
            key for (key,) in connection.execute("SELECT key FROM names WHERE unit = ?", (unit,))
        }
        inverted.drop(unit, keys)
        released = relations.release(connection, unit) if keep_entities else []
        others = relations.sources_aiming_at(connection, unit)
        content_rows.drop_unit(connection, unit, dropped)
        for source in others:
            assembly.update_relation_digest(connection, source)
        relations.resolve_names(connection, ids=(), keys=keys)
        relations.resolve(connection, released)
    return dropped


def delete_sources(
    connection: Connection,
    sources: Sequence[int],
    inverted: InvertedIndex,
    *,
    keep_entities: bool = False,
) -> Dropped:
    """Delete sources and update their units.

    A unit is deleted when it has no source left, or neither chunk nor image nor relation (KU-RAG,
    appendix A, KU deletion).

    Args:
        connection: Inside a change.
        sources: Their rows.
        inverted: The lists to update.
        keep_entities: Keep units as long as they have a source, as entities of a graph are, and
            the relations of others to deleted units.
    """
    dropped = Dropped()
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
        if keep_entities:
            is_empty = not content_rows.sources_of(connection, unit)
        else:
            is_empty = content_rows.is_empty(connection, unit)
        if is_empty:
            dropped += delete_units(connection, [unit], inverted, keep_entities=keep_entities)
        else:
            assembly.update_unit(connection, unit_id, inverted, row=unit)
    return dropped


def delete_relations(
    connection: Connection,
    rows: Sequence[int],
    inverted: InvertedIndex,
    *,
    single: str,
) -> Dropped:
    """Delete relations; their sources then declare the relations that are left.

    Args:
        connection: Inside a change.
        rows: Of the relations.
        inverted: The lists to update.
        single: Prefix of the uris of sources that hold one relation and nothing else. They are
            deleted.
    """
    dropped = Dropped(relations=list(rows))
    for source in sorted(relations.drop(connection, rows)):
        (uri,) = connection.execute("SELECT uri FROM sources WHERE row = ?", (source,)).fetchone()
        if uri.startswith(single):
            dropped += delete_sources(connection, [source], inverted, keep_entities=True)
        else:
            assembly.update_relation_digest(connection, source)
    return dropped
