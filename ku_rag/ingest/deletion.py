"""Deletion of units, sources and relations, with everything that only they brought."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter

from ku_rag.ingest import assembly
from ku_rag.store import content_rows, facts, relations
from ku_rag.store.connection import Connection, as_json
from ku_rag.types import Deleted


def delete_units(
    connection: Connection,
    units: Sequence[int],
    *,
    keep_entities: bool = False,
) -> Deleted:
    """Delete units with their own sources; shared chunks that no other unit lists go as well.

    Called inside a change. With `keep_entities`, the relations of others to a unit are kept; they
    end at an entity of its name.
    """
    deleted = []
    for unit in units:
        keys = set(connection.column("SELECT key FROM names WHERE unit = ?", (unit,)))
        released = relations.release(connection, unit) if keep_entities else []
        others = relations.sources_aiming_at(connection, unit)
        sources = content_rows.sources_of(connection, unit)
        deleted.append(content_rows.drop_sources(connection, sources))
        named = connection.column("DELETE FROM unit_chunks WHERE unit = ? RETURNING chunk", (unit,))
        deleted.append(_delete_unlisted_chunks(connection, named))
        gone = relations.drop_of_unit(connection, unit)
        facts.drop_unit(connection, unit)
        row = connection.execute("DELETE FROM units WHERE row = ? RETURNING id", (unit,))
        deleted.append(Deleted(units=row.fetchone(), relations=tuple(gone)))
        for source in others:
            assembly.update_relation_digest(connection, source)
        relations.resolve_names(connection, ids=(), keys=keys)
        relations.resolve(connection, released)
    return merged(deleted)


def _delete_unlisted_chunks(connection: Connection, chunks: Sequence[int]) -> Deleted:
    """Delete those chunks of shared sources that no unit lists, and sources without chunks."""
    unlisted = connection.execute(
        "SELECT c.row, c.source FROM json_each(?) w CROSS JOIN chunks c ON c.row = w.value "
        "JOIN sources s ON s.row = c.source WHERE s.unit IS NULL "
        "AND NOT EXISTS (SELECT 1 FROM unit_chunks l WHERE l.chunk = c.row)",
        (as_json(chunks),),
    ).fetchall()
    rows = [chunk for chunk, _ in unlisted]
    content_rows.drop_chunks(connection, rows)
    empty = connection.column(
        "SELECT row FROM sources WHERE row IN (SELECT value FROM json_each(?)) AND NOT chunks",
        (as_json({source for _, source in unlisted}),),
    )
    gone = content_rows.drop_sources(connection, empty)
    return merged([Deleted(chunks=tuple(rows)), gone])


def delete_sources(
    connection: Connection,
    sources: Sequence[int],
    *,
    keep_entities: bool = False,
) -> Deleted:
    """Delete sources and update their units. Called inside a change.

    A unit is deleted when it has no source left, or neither chunk, image, relation nor metadata
    (KU-RAG, appendix A, KU deletion). With `keep_entities`, units are kept as long as they have a
    source, as entities of a graph are, and so are the relations of others to deleted units.
    """
    touched = connection.execute(
        "SELECT DISTINCT u.row, u.id FROM json_each(?) w CROSS JOIN sources s ON s.row = w.value "
        "JOIN units u ON u.row = s.unit",
        (as_json(sources),),
    ).fetchall()
    deleted = [content_rows.drop_sources(connection, sources)]
    for unit, unit_id in touched:
        if keep_entities:
            is_empty = not content_rows.sources_of(connection, unit)
        else:
            is_empty = content_rows.is_empty(connection, unit)
        if is_empty:
            deleted.append(delete_units(connection, [unit], keep_entities=keep_entities))
        else:
            assembly.update_units(connection, {unit_id: unit})
    return merged(deleted)


def delete_relations(
    connection: Connection,
    rows: Sequence[int],
    *,
    single: str,
) -> Deleted:
    """Delete relations by row; their sources then declare the relations that are left.

    Called inside a change. `single` is the prefix of the uris of sources that hold one relation and
    nothing else; they are deleted.
    """
    deleted = [Deleted(relations=tuple(rows))]
    for source in sorted(relations.drop(connection, rows)):
        (uri,) = connection.execute("SELECT uri FROM sources WHERE row = ?", (source,)).fetchone()
        if uri.startswith(single):
            deleted.append(delete_sources(connection, [source], keep_entities=True))
        else:
            assembly.update_relation_digest(connection, source)
    return merged(deleted)


def merged(parts: Iterable[Deleted]) -> Deleted:
    """Return everything that several deletions removed."""
    columns = zip(*map(attrgetter("units", "chunks", "images", "relations"), parts), strict=True)
    return Deleted(*(tuple(chain(*rows)) for rows in columns))
