"""Reading of stored units: records, texts, pictures and counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from PIL.Image import Image

from ku_rag import pictures
from ku_rag.errors import BadInput, NotFound
from ku_rag.store import facts
from ku_rag.store.connection import Connection, array_of, last_row
from ku_rag.store.content_rows import sources_of
from ku_rag.store.facts import Fact
from ku_rag.store.filters import UnitFilter
from ku_rag.store.layout import Layout
from ku_rag.text.tokens import name_key
from ku_rag.types import INTERNAL, Relation, Serializable

Summary = TypeVar("Summary")

_NEAR = 75
"""Similarity, 0 to 100, from which a name is suggested instead of one that was not found."""
_TABLES = ("units", "chunks", "images", "sources", "entities", "relations")


@dataclass(frozen=True, slots=True)
class UnitSummary(Serializable):
    """A unit without its contents.

    Args:
        metadata: what else was declared, as JSON values.
        match: whether its names are looked up in other units' texts.
        counts: numbers of "chunks", "named_in" (chunks of others that name it), "images" and
            "relations".
    """

    id: str
    name: str
    kind: str
    aliases: tuple[str, ...]
    metadata: Mapping[str, Any]
    match: bool
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoredSource(Serializable):
    """A source by its uri, how it came ("ingest", "add", "join" or "update"), and its texts."""

    uri: str
    origin: str
    texts: tuple[str, ...] = field(default=(), metadata=INTERNAL)


@dataclass(frozen=True, slots=True)
class Mention(Serializable):
    """A chunk of another unit that names this one: its row, its source's uri, its text."""

    chunk: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class UnitRecord(UnitSummary):
    """A unit with its contents.

    Args:
        images: paths of its pictures in the store.
        words: fingerprint of each recogniser → words and lines that it has read in the pictures.
    """

    images: tuple[str, ...]
    texts: tuple[str, ...]
    relations: tuple[Relation, ...]
    sources: tuple[StoredSource, ...]
    named_in: tuple[Mention, ...]
    facts: tuple[Fact, ...]
    words: Mapping[str, tuple[str, ...]]


def counts(connection: Connection) -> dict[str, int]:
    """Number of rows of each kind."""
    return {table: connection.column(f"SELECT count(*) FROM {table}")[0] for table in _TABLES}


def pictures_read(connection: Connection) -> dict[str, int]:
    """Number of pictures in which each recogniser has looked for words, by its fingerprint."""
    rows = connection.execute("SELECT recogniser, count(*) FROM image_words GROUP BY recogniser")
    return dict(rows)


def picture_bytes(connection: Connection) -> int:
    """The size of the pictures that are copies in images/, in bytes."""
    own = "SELECT coalesce(sum(bytes), 0) FROM images WHERE file GLOB '[0-9a-f][0-9a-f]/*'"
    return int(connection.execute(own).fetchone()[0])


def unit_row(connection: Connection, unit_id: str) -> int | None:
    """The row of a unit, or None."""
    row = connection.execute("SELECT row FROM units WHERE id = ?", (unit_id,)).fetchone()
    return row and int(row[0])


def known_row(connection: Connection, unit_id: str) -> int:
    """Return the row of a unit; `NotFound` if there is none."""
    if (row := unit_row(connection, unit_id)) is None:
        raise NotFound(f"there is no unit {unit_id!r}: {hint(connection, unit_id)}")
    return row


def find_row(connection: Connection, name: str) -> int:
    """Return the row of a unit by its id or by a name that no other unit has.

    Raises:
        NotFound: There is no such unit.
        BadInput: Several units have the name.
    """
    named = connection.execute(
        "SELECT u.row, u.id FROM names n JOIN units u ON u.row = n.unit WHERE n.key = ?",
        (name_key(name),),
    ).fetchall()
    if not named or unit_row(connection, name) is not None:
        return known_row(connection, name)
    if len(named) > 1:
        ids = ", ".join(sorted(repr(unit_id) for _, unit_id in named))
        raise BadInput(f"{name!r} is the name of several units: use one of the ids {ids}")
    return int(named[0][0])


def fields_of(connection: Connection, row: int) -> tuple[str, str, str, str, str, int]:
    """The id, name, kind, aliases, metadata (both as JSON) and match of a unit."""
    fields: tuple[str, str, str, str, str, int] = connection.execute(
        "SELECT id, name, kind, aliases, metadata, match FROM units WHERE row = ?", (row,)
    ).fetchone()
    return fields


def list_units(
    connection: Connection, units: UnitFilter, *, limit: int | None = None, offset: int = 0
) -> list[UnitSummary]:
    """Return units that pass a filter, with counts, in the order of their ids."""
    rows = units.rows(connection)
    if rows is not None and not len(rows):
        return []
    listed = ""
    if rows is not None:
        # Either all ids are read in their order up to the end of the page, or those of the rows.
        share = len(rows) / max(1, last_row(connection, "units"))
        row = "+row" if limit is not None and offset + limit < share * len(rows) else "row"
        listed = f"WHERE {row} IN (SELECT value FROM carray(?3)) "
    page = connection.column(
        f"SELECT row FROM units {listed}ORDER BY id LIMIT ?1 OFFSET ?2",
        (-1 if limit is None else limit, offset, *(() if rows is None else (array_of(rows),))),
    )
    return [_unit(connection, row, UnitSummary) for row in page]


def kinds(connection: Connection) -> dict[str, int]:
    """Return the number of units of each kind, the most frequent first."""
    rows = connection.execute(
        "SELECT kind, count(*) FROM units GROUP BY kind ORDER BY count(*) DESC, kind"
    )
    return dict(rows.fetchall())


def read_unit(connection: Connection, layout: Layout, unit_id: str) -> UnitRecord:
    """One unit, by its id or a name that no other unit has, as one state of the store has it.

    Raises:
        NotFound: there is no such unit.
        BadInput: several units have the name.
        Corrupt: a row fails its checksum.
    """
    row = find_row(connection, unit_id)
    sources = connection.execute(
        "SELECT uri, origin, row FROM sources WHERE unit = ? ORDER BY row", (row,)
    ).fetchall()
    stored = [
        StoredSource(uri, origin, tuple(documents(connection, source).values()))
        for uri, origin, source in sources
    ]
    images = connection.column(
        "SELECT DISTINCT i.file FROM unit_images l JOIN images i ON i.row = l.image "
        "WHERE l.unit = ? ORDER BY i.row",
        (row,),
    )
    mentions = connection.execute(
        "SELECT c.row, s.uri, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
        "JOIN sources s ON s.row = c.source WHERE l.unit = ? AND NOT l.owned ORDER BY c.row",
        (row,),
    )
    return _unit(
        connection,
        row,
        UnitRecord,
        images=tuple(str(layout.image(file)) for file in images),
        texts=tuple(text for source in stored for text in source.texts),
        relations=tuple(Relation(*fields) for fields in _relations(connection, row)),
        sources=tuple(stored),
        named_in=tuple(Mention(*fields) for fields in mentions),
        facts=tuple(facts.of_unit(connection, row)),
        words=_words(connection, row),
    )


def _unit(
    connection: Connection,
    row: int,
    make: Callable[..., Summary],
    **contents: Any,  # noqa: ANN401 - passed on to `make`
) -> Summary:
    unit_id, name, kind, aliases, metadata, match = fields_of(connection, row)
    owned, named, images = connection.execute(
        "SELECT (SELECT count(*) FROM unit_chunks WHERE unit = ?1 AND owned), "
        "(SELECT count(*) FROM unit_chunks WHERE unit = ?1 AND NOT owned), "
        "(SELECT count(DISTINCT image) FROM unit_images WHERE unit = ?1)",
        (row,),
    ).fetchone()
    relations = len(_relations(connection, row))
    return make(
        id=unit_id,
        name=name,
        kind=kind,
        aliases=tuple(json.loads(aliases)),
        metadata=json.loads(metadata),
        match=bool(match),
        counts={"chunks": owned, "named_in": named, "images": images, "relations": relations},
        **contents,
    )


def texts_of(connection: Connection, unit: int) -> list[str]:
    """The texts of a unit's own sources, as they were given."""
    rows = sources_of(connection, unit)
    return [text for row in rows for text in documents(connection, row).values()]


def documents(connection: Connection, source: int) -> dict[int, str]:
    """The documents of a source as they were given, by number: their chunks put together again."""
    texts: dict[int, str] = {}
    for document, text in connection.execute(
        "SELECT document, text FROM chunks WHERE source = ? ORDER BY position", (source,)
    ):
        texts[document] = texts.get(document, "") + text
    return texts


def _words(connection: Connection, unit: int) -> dict[str, tuple[str, ...]]:
    """The words in the pictures of a unit, each once, by the recogniser that has read them."""
    words: dict[str, dict[str, None]] = {}
    for recogniser, text in connection.execute(
        "SELECT w.recogniser, j.value ->> 'text' FROM unit_images l "
        "JOIN image_words w ON w.image = l.image, json_each(w.words) j "
        "WHERE l.unit = ? ORDER BY l.source, l.position, j.key",
        (unit,),
    ):
        words.setdefault(recogniser, {})[text] = None
    return {recogniser: tuple(texts) for recogniser, texts in words.items()}


def _relations(connection: Connection, row: int) -> list[tuple[Any, ...]]:
    """The fields of each relation that starts at a unit: those of `Relation`, in its order."""
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT r.relation, r.target, r.target_kind, r.information, r.condition FROM relations r "
        "JOIN entities e ON e.row = r.head WHERE e.unit = ? ORDER BY r.source, r.row",
        (row,),
    ).fetchall()
    return rows


def picture_source(connection: Connection, layout: Layout, row: int) -> tuple[Path, str]:
    """Return the file of the stored picture of a row, and its hash."""
    digest, file = connection.execute(
        "SELECT hash, file FROM images WHERE row = ?", (row,)
    ).fetchone()
    return layout.image(file), digest


def picture(connection: Connection, layout: Layout, row: int) -> Image:
    """The stored picture of a row; see `ku_rag.pictures.load_picture`.

    Raises:
        NotFound, BadInput: it cannot be read.
        Corrupt: it is not what was stored.
    """
    file, digest = picture_source(connection, layout, row)
    return pictures.load_picture(file, digest=digest)


def picture_file(connection: Connection, layout: Layout, digest: str) -> Path:
    """Return the file of a stored picture by its hash; `NotFound` if there is none."""
    row = connection.execute("SELECT file FROM images WHERE hash = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound(f"there is no picture {digest[:80]!r}: `ku show` lists those of a unit")
    return layout.image(row[0])


def picture_hash(connection: Connection, layout: Layout, file: Path) -> str:
    """Return the hash of a stored picture by its file; `NotFound` if it is none of the base."""
    inside = file.is_relative_to(layout.images)
    stored = str(file.relative_to(layout.images) if inside else file)
    row = connection.execute("SELECT hash FROM images WHERE file = ?", (stored,)).fetchone()
    if row is None:
        raise NotFound(f"{file.name} is no picture of the knowledge base: `ku show` lists them")
    return str(row[0])


def hint(connection: Connection, wanted: str, *, entities: bool = False) -> str:
    """Return a question for the unit whose id or name is nearest, or where to look for it.

    With `entities`, names of entities that no unit describes count as well.
    """
    from rapidfuzz import fuzz, process, utils  # only where an error is reported

    names: dict[str, str] = {}
    for name, unit in connection.execute(
        "SELECT id, id FROM units UNION ALL SELECT name, id FROM units "
        "UNION ALL SELECT name, name FROM entities WHERE ? AND unit IS NULL",
        (entities,),
    ):
        names.setdefault(name, unit)
    nearest = process.extractOne(
        wanted, list(names), scorer=fuzz.ratio, processor=utils.default_process, score_cutoff=_NEAR
    )
    if nearest is None:
        return "`ku list` prints the ids"
    name, unit = nearest[0], names[nearest[0]]
    return f"did you mean {unit!r}?" if name == unit else f"did you mean {unit!r} ({name})?"
