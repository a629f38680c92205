"""Reading units back as records, and counting what there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from PIL.Image import Image

from ku_rag import pictures
from ku_rag.errors import NotFound
from ku_rag.store.connection import Connection
from ku_rag.store.database import check, snapshot
from ku_rag.store.layout import Layout
from ku_rag.text.tokens import name_key

_TABLES = ("units", "chunks", "images", "sources", "entities", "relations")


def counts(connection: Connection) -> dict[str, int]:
    """Number of rows of each kind."""
    with snapshot(connection):
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in _TABLES
        }


def units(
    connection: Connection, *, kind: str | None = None, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Units as records with counts, in the order of their ids.

    Args:
        connection: the store.
        kind: only this kind.
        limit: most units.
    """
    with snapshot(connection):
        rows = connection.execute(
            "SELECT row FROM units WHERE (?1 IS NULL OR kind = ?1) ORDER BY id LIMIT ?2",
            (kind, -1 if limit is None else limit),
        ).fetchall()
        # All at once: a generator would keep the state open for as long as its reader likes.
        return iter([_record(connection, row) for (row,) in rows])


def unit(connection: Connection, layout: Layout, unit_id: str) -> dict[str, Any]:
    """One unit as a record, with its images, texts, relations, sources and what else lists.

    Raises:
        NotFound: there is no such unit.
    """
    with snapshot(connection):
        return _unit(connection, layout, unit_id)


def _unit(connection: Connection, layout: Layout, unit_id: str) -> dict[str, Any]:
    found = connection.execute("SELECT row FROM units WHERE id = ?", (unit_id,)).fetchone()
    if not found:
        raise NotFound(f"there is no unit {unit_id!r}: {hint(connection, unit_id)}")
    (row,) = found
    sources = connection.execute(
        "SELECT uri, origin FROM sources WHERE unit = ? ORDER BY row", (row,)
    ).fetchall()
    images = connection.execute(
        "SELECT DISTINCT i.file FROM unit_images l JOIN images i ON i.row = l.image "
        "WHERE l.unit = ? ORDER BY i.row",
        (row,),
    )
    named = connection.execute(
        "SELECT c.row, s.uri, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
        "JOIN sources s ON s.row = c.source WHERE l.unit = ? AND NOT l.owned ORDER BY c.row",
        (row,),
    )
    return {
        **_record(connection, row),
        "images": [str(layout.image(file)) for (file,) in images],
        "texts": texts_of(connection, row),
        "relations": _relations(connection, row),
        "sources": [{"uri": uri, "origin": origin} for uri, origin in sources],
        "named_in": [{"chunk": chunk, "source": uri, "text": text} for chunk, uri, text in named],
    }


def _record(connection: Connection, row: int) -> dict[str, Any]:
    *fields, stored = connection.execute(
        "SELECT id, name, kind, aliases, metadata, match, checksum FROM units WHERE row = ?",
        (row,),
    ).fetchone()
    check(stored, *fields, what=f"the row of unit {fields[0]!r}")
    unit_id, name, kind, aliases, metadata, match = fields
    owned, named, images = connection.execute(
        "SELECT (SELECT count(*) FROM unit_chunks WHERE unit = ?1 AND owned), "
        "(SELECT count(*) FROM unit_chunks WHERE unit = ?1 AND NOT owned), "
        "(SELECT count(DISTINCT image) FROM unit_images WHERE unit = ?1)",
        (row,),
    ).fetchone()
    relations = len(_relations(connection, row))
    return {
        "id": unit_id,
        "name": name,
        "kind": kind,
        "aliases": json.loads(aliases),
        "metadata": json.loads(metadata),
        "match": bool(match),
        "counts": {"chunks": owned, "named_in": named, "images": images, "relations": relations},
    }


def texts_of(connection: Connection, unit: int) -> list[str]:
    """The texts of a unit's own sources, as they were given.

    Raises:
        Corrupt: a chunk fails its checksum.
    """
    sources = connection.execute("SELECT row FROM sources WHERE unit = ? ORDER BY row", (unit,))
    return [text for (source,) in sources.fetchall() for text in _texts(connection, source)]


def _texts(connection: Connection, source: int) -> list[str]:
    """A source's texts as they were given: their chunks put together again."""
    texts: dict[int, str] = {}
    for row, position, document, digest, text, stored in connection.execute(
        "SELECT row, position, document, hash, text, checksum FROM chunks "
        "WHERE source = ? ORDER BY position",
        (source,),
    ):
        check(stored, source, position, document, digest, text, what=f"chunk {row}")
        texts[document] = texts.get(document, "") + text
    return list(texts.values())


def _relations(connection: Connection, row: int) -> list[dict[str, Any]]:
    stated = connection.execute(
        "SELECT r.relation, r.target, r.information, r.condition, r.row, r.source, r.target_kind, "
        "r.checksum FROM relations r "
        "JOIN entities e ON e.row = r.head WHERE e.unit = ? ORDER BY r.row",
        (row,),
    ).fetchall()
    for relation, target, information, condition, number, source, kind, stored in stated:
        fields = (source, relation, target, kind, information, condition)
        check(stored, *fields, what=f"relation {number}")
    return [
        {
            "relation": relation,
            "target": target,
            **({"information": information} if information is not None else {}),
            **({"condition": condition} if condition is not None else {}),
        }
        for relation, target, information, condition, *_ in stated
    ]


def picture(connection: Connection, layout: Layout, row: int, longest: int | None = None) -> Image:
    """The stored picture of a row; see `ku_rag.pictures.load_picture`.

    Raises:
        NotFound, BadInput: it cannot be read.
        Corrupt: it, or its row, is not what was stored.
    """
    *fields, stored = connection.execute(
        "SELECT hash, file, width, height, bytes, checksum FROM images WHERE row = ?", (row,)
    ).fetchone()
    check(stored, *fields, what=f"the row of picture {row}")
    digest, file, *_ = fields
    return pictures.load_picture(layout.image(file), longest, digest=digest)


def hint(connection: Connection, wanted: str) -> str:
    """Where to look for an id: a unit may bear it as a name."""
    found = connection.execute(
        "SELECT u.id FROM names n JOIN units u ON u.row = n.unit WHERE n.key = ? ORDER BY u.id",
        (name_key(wanted),),
    ).fetchone()
    return f"one of that name has the id {found[0]!r}" if found else "`ku list` prints the ids"
