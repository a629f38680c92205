"""Chunks, images, sources and units: how rows come, and how they go without leaving a trace.

Everything here is called inside a change (`Database.change`).
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ku_rag.store import relations, vectors
from ku_rag.store.connection import Connection, array_of, as_json, next_row
from ku_rag.text.tokens import indexed
from ku_rag.types import Deleted


@dataclass(slots=True)
class Dropped:
    """What a deletion took with it."""

    units: list[str] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    relations: list[int] = field(default_factory=list)

    def __add__(self, other: Dropped) -> Dropped:
        """Return what both deletions took with them."""
        return Dropped(
            self.units + other.units,
            self.chunks + other.chunks,
            self.images + other.images,
            self.relations + other.relations,
        )

    def result(self) -> Deleted:
        """All of it, for the caller of the deletion."""
        return Deleted(
            tuple(self.units), tuple(self.chunks), tuple(self.images), tuple(self.relations)
        )


def text_hash(text: str) -> int:
    """CRC-32 of a text, by which equal texts are found; the texts are compared as well."""
    return zlib.crc32(text.encode())


def content_hash(data: str | bytes) -> str:
    """SHA-256 of a text or a file, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


# ---- sources -----------------------------------------------------------------------------------


def put_source(
    connection: Connection,
    *,
    uri: str,
    unit: int | None,
    origin: str,
    digest: str,
    declared: str,
) -> int:
    """Write a source's row, new or changed, and return its number."""
    (row,) = connection.execute(
        "INSERT INTO sources (uri, unit, origin, hash, declared) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT (uri) DO UPDATE SET unit = excluded.unit, "
        "origin = excluded.origin, hash = excluded.hash, declared = excluded.declared "
        "RETURNING row",
        (uri, unit, origin, digest, declared),
    ).fetchone()
    return int(row)


def add_sources(
    connection: Connection, sources: Sequence[tuple[str, int | None, str, str, str]]
) -> int:
    """Write sources that are new: (uri, unit, origin, digest, declared); returns the first row."""
    first = next_row(connection, "sources")
    connection.executemany(
        "INSERT INTO sources (row, uri, unit, origin, hash, declared) VALUES (?, ?, ?, ?, ?, ?)",
        ((row, *said) for row, said in enumerate(sources, first)),
    )
    return first


def sources_of(connection: Connection, unit: int) -> list[int]:
    """The rows of a unit's own sources."""
    rows = connection.execute("SELECT row FROM sources WHERE unit = ? ORDER BY row", (unit,))
    return [row for (row,) in rows]


def forget_added(connection: Connection, unit: int) -> None:
    """Let what was added to a unit by hand count as new when it is added once more.

    Called when an update replaces it; files keep their hashes, so that ingesting them again does
    not bring back what was replaced.
    """
    for uri, origin, declared in connection.execute(
        "SELECT uri, origin, declared FROM sources WHERE unit = ? AND origin IN ('add', 'join')",
        (unit,),
    ).fetchall():
        put_source(
            connection, uri=uri, unit=unit, origin=origin, digest="replaced", declared=declared
        )


def drop_source(connection: Connection, source: int, dropped: Dropped) -> None:
    """Delete a source with its chunks, its images and the relations that it stated."""
    drop_source_chunks(connection, source, dropped)
    replace_images(connection, source=source, unit=None, images=(), dropped=dropped)
    dropped.relations += relations.drop_of_source(connection, source)
    connection.execute("DELETE FROM sources WHERE row = ?", (source,))


def drop_source_chunks(connection: Connection, source: int, dropped: Dropped) -> None:
    """Delete the chunks of a source from every list that they are in."""
    rows = connection.execute("SELECT row FROM chunks WHERE source = ?", (source,))
    drop_chunks(connection, [row for (row,) in rows], dropped)


# ---- chunks ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Texts:
    """The chunks of one source on their way in.

    Args:
        source: row of the source.
        unit: row of its unit; None for shared text.
        chunks: (number of the document, text) in order.
    """

    source: int
    unit: int | None
    chunks: Sequence[tuple[int, str]]


def add_chunks(
    connection: Connection,
    *,
    source: int,
    unit: int | None,
    chunks: Sequence[tuple[int, str]],
) -> list[int]:
    """Store the chunks of one source as `add_texts` does; returns their rows."""
    return list(add_texts(connection, [Texts(source, unit, chunks)]))


def add_texts(connection: Connection, texts: Sequence[Texts]) -> dict[int, str]:
    """Store the chunks of sources, make them searchable, and list them under their units.

    Args:
        connection: inside a change.
        texts: the chunks of each source.

    Returns:
        Row → text of the new chunks, in order.
    """
    first = next_row(connection, "chunks")
    flat = [
        (of.source, position, document, text)
        for of in texts
        for position, (document, text) in enumerate(of.chunks)
    ]
    connection.executemany(
        "INSERT INTO chunks (row, source, position, document, hash, text) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            (row, source, position, document, text_hash(text), text)
            for row, (source, position, document, text) in enumerate(flat, first)
        ),
    )
    connection.executemany(
        "INSERT INTO words (rowid, terms) VALUES (?, ?)",
        ((row, indexed(text)) for row, (*_, text) in enumerate(flat, first)),
    )
    owners = (of.unit for of in texts for _ in of.chunks)
    connection.executemany(
        "INSERT INTO unit_chunks (unit, chunk, owned) VALUES (?, ?, 1)",
        ((unit, row) for row, unit in enumerate(owners, first) if unit is not None),
    )
    connection.executemany(
        "UPDATE sources SET chunks = chunks + ? WHERE row = ?",
        ((len(of.chunks), of.source) for of in texts),
    )
    return {first + n: text for n, (*_, text) in enumerate(flat)}


def drop_chunks(connection: Connection, rows: Sequence[int], dropped: Dropped) -> None:
    """Delete chunks with their keyword rows, vectors and every list entry."""
    if not rows:
        return
    wanted = array_of(rows)
    listed = "(SELECT value FROM carray(?))"
    connection.execute(f"DELETE FROM unit_chunks WHERE chunk IN {listed}", (wanted,))
    connection.execute(f"DELETE FROM words WHERE rowid IN {listed}", (wanted,))
    sources = connection.execute(
        f"DELETE FROM chunks WHERE row IN {listed} RETURNING source", (wanted,)
    ).fetchall()
    connection.executemany(
        "UPDATE sources SET chunks = chunks - ? WHERE row = ?",
        ((number, source) for (source,), number in Counter(sources).items()),
    )
    vectors.drop(connection, "chunk", rows)
    dropped.chunks += rows


# ---- images ------------------------------------------------------------------------------------


def add_image(
    connection: Connection, *, digest: str, file: str, width: int, height: int, size: int
) -> int:
    """The row of the image with this content, made if it is new."""
    found = connection.execute("SELECT row FROM images WHERE hash = ?", (digest,)).fetchone()
    if found:
        return int(found[0])
    (row,) = connection.execute(
        "INSERT INTO images (hash, file, width, height, bytes) VALUES (?, ?, ?, ?, ?) "
        "RETURNING row",
        (digest, file, width, height, size),
    ).fetchone()
    return int(row)


def replace_images(
    connection: Connection,
    *,
    source: int,
    unit: int | None,
    images: Sequence[int],
    dropped: Dropped,
) -> None:
    """Let a source show these images, under its unit; those that nobody shows any more go."""
    before = sorted(set(shown(connection, source)))
    connection.execute("DELETE FROM unit_images WHERE source = ?", (source,))
    connection.executemany(
        "INSERT INTO unit_images (unit, image, source, position) VALUES (?, ?, ?, ?)",
        ((unit, image, source, position) for position, image in enumerate(images)),
    )
    connection.execute("UPDATE sources SET images = ? WHERE row = ?", (len(images), source))
    _drop_unseen_images(connection, before, dropped)


def shown(connection: Connection, source: int) -> list[int]:
    """The image rows that a source shows, in its order."""
    rows = connection.execute(
        "SELECT image FROM unit_images WHERE source = ? ORDER BY position", (source,)
    )
    return [image for (image,) in rows]


def _drop_unseen_images(connection: Connection, images: Sequence[int], dropped: Dropped) -> None:
    if not images:
        return
    unseen = connection.execute(
        "DELETE FROM images WHERE row IN (SELECT value FROM carray(?)) "
        "AND row NOT IN (SELECT image FROM unit_images) RETURNING row, hash",
        (array_of(images),),
    ).fetchall()
    vectors.drop(connection, "image", [row for row, _ in unseen])
    dropped.images += [digest for _, digest in unseen]


# ---- units -------------------------------------------------------------------------------------


def put_unit(
    connection: Connection,
    *,
    unit_id: str,
    name: str,
    kind: str,
    aliases: Iterable[str],
    metadata: str,
    match: bool,
) -> int:
    """Write a unit's row, new or changed, and return its number."""
    (row,) = connection.execute(
        "INSERT INTO units (id, name, kind, aliases, metadata, match) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name, "
        "kind = excluded.kind, aliases = excluded.aliases, metadata = excluded.metadata, "
        "match = excluded.match RETURNING row",
        (unit_id, name, kind, as_json(aliases), metadata, int(match)),
    ).fetchone()
    return int(row)


def add_units(
    connection: Connection,
    units: Sequence[tuple[str, str, str, Iterable[str], str, bool]],
) -> int:
    """Write units that are new, as `put_unit` would: (id, name, kind, aliases, metadata, match).

    Returns:
        The row of the first; the others follow.
    """
    first = next_row(connection, "units")
    connection.executemany(
        "INSERT INTO units (row, id, name, kind, aliases, metadata, match) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (row, unit_id, name, kind, as_json(aliases), metadata, int(match))
            for row, (unit_id, name, kind, aliases, metadata, match) in enumerate(units, first)
        ),
    )
    return first


def drop_unit(connection: Connection, unit: int, dropped: Dropped) -> None:
    """Delete a unit with its own sources; shared chunks that nobody else lists go as well."""
    for source in sources_of(connection, unit):
        drop_source(connection, source, dropped)
    named = connection.execute("SELECT chunk FROM unit_chunks WHERE unit = ?", (unit,)).fetchall()
    connection.execute("DELETE FROM unit_chunks WHERE unit = ?", (unit,))
    _drop_unlisted_chunks(connection, [chunk for (chunk,) in named], dropped)
    dropped.relations += relations.drop_of_unit(connection, unit)
    (unit_id,) = connection.execute("SELECT id FROM units WHERE row = ?", (unit,)).fetchone()
    connection.execute("DELETE FROM units WHERE row = ?", (unit,))
    dropped.units.append(unit_id)


def _drop_unlisted_chunks(connection: Connection, chunks: Sequence[int], dropped: Dropped) -> None:
    if not chunks:
        return
    unlisted = connection.execute(
        "SELECT c.row, c.source FROM chunks c JOIN sources s ON s.row = c.source "
        "WHERE c.row IN (SELECT value FROM carray(?)) AND s.unit IS NULL "
        "AND NOT EXISTS (SELECT 1 FROM unit_chunks l WHERE l.chunk = c.row)",
        (array_of(chunks),),
    ).fetchall()
    drop_chunks(connection, [chunk for chunk, _ in unlisted], dropped)
    for source in {source for _, source in unlisted}:
        rest = connection.execute("SELECT 1 FROM chunks WHERE source = ?", (source,)).fetchone()
        if not rest:
            drop_source(connection, source, dropped)


def is_empty(connection: Connection, unit: int) -> bool:
    """Whether nothing speaks of a unit any more.

    That is, no source; or neither chunk nor image is listed, and no relation starts there.
    """
    sources, chunks, images, stated = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM sources WHERE unit = :unit), "
        "EXISTS (SELECT 1 FROM unit_chunks WHERE unit = :unit), "
        "EXISTS (SELECT 1 FROM unit_images WHERE unit = :unit), "
        "EXISTS (SELECT 1 FROM entities e JOIN relations r ON r.head = e.row WHERE e.unit = :unit)",
        {"unit": unit},
    ).fetchone()
    return not sources or not (chunks or images or stated)
