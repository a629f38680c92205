"""Chunks, images, sources and units: how rows come, and how they go without leaving a trace.

Everything here is called inside a change (`Database.change`).
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import count

from ku_rag.store import facts, relations, vectors
from ku_rag.store.connection import Connection, array_of, as_json, last_row
from ku_rag.types import Deleted, Word


def text_hash(text: str) -> int:
    """CRC-32 of a text, by which equal texts are found; the texts are compared as well."""
    return zlib.crc32(text.encode())


def content_hash(data: str | bytes) -> str:
    """SHA-256 of a text or a file, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def sources_of(connection: Connection, unit: int) -> list[int]:
    """The rows of a unit's own sources."""
    return connection.column("SELECT row FROM sources WHERE unit = ? ORDER BY row", (unit,))


def drop_sources(connection: Connection, sources: Sequence[int]) -> Deleted:
    """Delete sources with their chunks, their images and the relations that they stated."""
    if not sources:
        return Deleted()
    listed, wanted = "(SELECT value FROM carray(?))", (array_of(sources),)
    rows = drop_source_chunks(connection, sources)
    drop_links = f"DELETE FROM unit_images WHERE source IN {listed} RETURNING image"
    images = _drop_unseen_images(connection, set(connection.column(drop_links, wanted)))
    stated = relations.drop_of_sources(connection, sources)
    connection.execute(f"DELETE FROM sources WHERE row IN {listed}", wanted)
    return Deleted(chunks=tuple(rows), images=tuple(images), relations=tuple(stated))


def own_chunks(connection: Connection, unit: int) -> dict[int, tuple[int | None, str]]:
    """The chunks of a unit's own sources: row → row of the unit, and text."""
    rows = connection.execute(
        "SELECT c.row, l.unit, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
        "WHERE l.unit = ? AND l.owned",
        (unit,),
    )
    return {row: (owner, text) for row, owner, text in rows}


def drop_source_chunks(connection: Connection, sources: Sequence[int]) -> list[int]:
    """Delete the chunks of sources from every list that they are in; return their rows."""
    listed = "SELECT row FROM chunks WHERE source IN (SELECT value FROM carray(?))"
    rows = connection.column(listed, (array_of(sources),))
    drop_chunks(connection, rows)
    return rows


def add_texts(
    connection: Connection, texts: Sequence[tuple[int, int | None, Sequence[tuple[int, str]]]]
) -> dict[int, tuple[int | None, str]]:
    """Store the chunks of sources and list them under their units; the sources state their number.

    Called inside a change. `texts` has row of the source, row of its unit (None for shared text),
    and its chunks, each (number of the document, text), in order. Returns row → row of the unit,
    and text, of the new chunks, in order.
    """
    rows = count(last_row(connection, "chunks") + 1)
    chunks = [
        (next(rows), source, position, document, text_hash(text), text)
        for source, _, parts in texts
        for position, (document, text) in enumerate(parts)
    ]
    connection.executemany(
        "INSERT INTO chunks (row, source, position, document, hash, text) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        chunks,
    )
    units = {source: unit for source, unit, _ in texts}
    connection.executemany(
        "INSERT INTO unit_chunks (unit, chunk, owned) VALUES (?, ?, 1)",
        ((units[source], row) for row, source, *_ in chunks if units[source] is not None),
    )
    return {row: (units[source], text) for row, source, *_, text in chunks}


def drop_chunks(connection: Connection, rows: Sequence[int]) -> None:
    """Delete chunks with their keyword rows, vectors and every list entry."""
    if not rows:
        return
    wanted = array_of(rows)
    listed = "(SELECT value FROM carray(?))"
    facts.drop_chunks(connection, rows)
    connection.execute(f"DELETE FROM unit_chunks WHERE chunk IN {listed}", (wanted,))
    connection.execute(f"DELETE FROM words WHERE rowid IN {listed}", (wanted,))
    sources = connection.column(
        f"DELETE FROM chunks WHERE row IN {listed} RETURNING source", (wanted,)
    )
    connection.executemany(
        "UPDATE sources SET chunks = chunks - ? WHERE row = ?",
        ((number, source) for source, number in Counter(sources).items()),
    )
    vectors.drop(connection, "chunk", rows)


def replace_images(
    connection: Connection, *, source: int, unit: int | None, images: Sequence[int]
) -> int:
    """Replace the images of a source, under its unit; return how many it did not show before.

    Images that no source shows any more are deleted.
    """
    before = images_of(connection, source)
    if before != list(images):
        connection.execute("DELETE FROM unit_images WHERE source = ?", (source,))
        connection.executemany(
            "INSERT INTO unit_images (unit, image, source, position) VALUES (?, ?, ?, ?)",
            ((unit, image, source, position) for position, image in enumerate(images)),
        )
        connection.execute("UPDATE sources SET images = ? WHERE row = ?", (len(images), source))
        _drop_unseen_images(connection, set(before))
    return len(set(images) - set(before))


def images_of(connection: Connection, source: int) -> list[int]:
    """Return the image rows that a source shows, in its order."""
    return connection.column(
        "SELECT image FROM unit_images WHERE source = ? ORDER BY position", (source,)
    )


def put_words(connection: Connection, digest: str, model: str, words: Sequence[Word]) -> None:
    """Store what a recogniser, by its fingerprint, has read in the image of a hash, if stored."""
    insert = "REPLACE INTO image_words SELECT row, ?, ? FROM images WHERE hash = ?"
    connection.execute(insert, (model, as_json(words), digest))


def words_of(connection: Connection, digest: str) -> dict[str, list[Word]]:
    """Return recogniser → what it has read in the image of a hash."""
    rows = connection.execute(
        "SELECT w.recogniser, words FROM image_words w JOIN images i ON i.row = w.image "
        "WHERE i.hash = ?",
        (digest,),
    )
    return {model: [Word(**word) for word in json.loads(words)] for model, words in rows}


def _drop_unseen_images(connection: Connection, images: Collection[int]) -> list[str]:
    """Delete those images that no source shows; return their hashes."""
    if not images:
        return []
    unseen = connection.execute(
        "DELETE FROM images WHERE row IN (SELECT value FROM carray(?)) "
        "AND row NOT IN (SELECT image FROM unit_images) RETURNING row, hash",
        (array_of(sorted(images)),),
    ).fetchall()
    vectors.drop(connection, "image", [row for row, _ in unseen])
    return [digest for _, digest in unseen]


def is_empty(connection: Connection, unit: int) -> bool:
    """Whether nothing speaks of a unit any more.

    That is, no source; or neither chunk nor image is listed, no relation starts there, and no
    source but an update has metadata.
    """
    sources, *content = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM sources WHERE unit = :unit), "
        "EXISTS (SELECT 1 FROM unit_chunks WHERE unit = :unit), "
        "EXISTS (SELECT 1 FROM unit_images WHERE unit = :unit), "
        "EXISTS (SELECT 1 FROM entities e JOIN relations r ON r.head = e.row "
        "WHERE e.unit = :unit), "
        "EXISTS (SELECT 1 FROM sources WHERE unit = :unit AND origin != 'update' "
        "AND declared ->> '$.metadata' != '{}')",
        {"unit": unit},
    ).fetchone()
    return not sources or not any(content)
