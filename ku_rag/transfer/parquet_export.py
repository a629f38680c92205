"""An export: one state of a base as a folder of Parquet files and pictures.

Rows are identified by a unit's id, a source's uri or a picture's content hash, not by their
numbers, in an order that an import keeps: the imported base exports the same tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import ku_rag
from ku_rag.errors import Corrupt
from ku_rag.store import vectors
from ku_rag.store.connection import Connection, explained, snapshot
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, image_file
from ku_rag.transfer import atomic_folder
from ku_rag.transfer.tables import (
    CHUNKS,
    ENTITIES,
    FORMAT,
    IMAGES,
    MANIFEST,
    PICTURES,
    RELATIONS,
    SHOWINGS,
    SOURCES,
    TABLE_ROWS,
    TABLES,
    UNITS,
    Row,
    file_checksum,
    parquet,
    write_table,
)
from ku_rag.types import Quarantined, Serializable

_MADE_WITH = ("encoder", "segmenter", "max_tokens", "language")
_IN_ORDER = ("s.unit IS NOT NULL ORDER BY s.unit, s.row", "s.unit IS NULL ORDER BY s.row")
"""Sources by unit, then those that belong to none."""


@dataclass(slots=True)
class Exported(Serializable):
    """What an export wrote.

    Args:
        counts: Rows by table.
        pictures: Number of files copied.
        left_out: Pictures that are missing or damaged, and lost rows of a damaged base.
        seconds: Duration.
        salvaged: For each table of a damaged base the number of rows "saved", the ranges of row
            numbers "lost"; None for a sound base.
    """

    counts: dict[str, int] = field(default_factory=dict)
    pictures: int = 0
    left_out: list[Quarantined] = field(default_factory=list)
    seconds: float = 0.0
    salvaged: dict[str, Any] | None = None


def export(database: Database, layout: Layout, folder: Path, *, max_tokens: int) -> Exported:
    """Write one state of a base to a folder that is new, empty or an earlier export.

    Args:
        database: The store.
        layout: Places of the picture files.
        folder: Appears when everything is written and synced; an earlier export is replaced then.
        max_tokens: Longest chunk in the settings, 0 for the encoder's own limit.

    Raises:
        Refused: The folder holds something else.
        ReadOnly: The folder cannot be written.
        Corrupt: A page fails its checksum.
        MissingExtra: pyarrow is not installed.
    """
    parquet()
    started = time.monotonic()
    connection = database.connection
    with (
        atomic_folder.beside(folder, replaces=is_export, what="an export") as made,
        explained(database.path),
        snapshot(connection),  # while this state is read, `compact` deletes no picture of it
    ):
        found = write(connection, layout, made, settings={"max_tokens": max_tokens})
    found.seconds = round(time.monotonic() - started, 3)
    return found


def is_export(folder: Path) -> bool:
    """Whether a folder is an export and nothing else."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        known = {MANIFEST, PICTURES, *(table.file for table in TABLES)}
        return "format" in manifest and {one.name for one in folder.iterdir()} <= known
    except (OSError, ValueError, TypeError):
        return False


def write(
    connection: Connection,
    layout: Layout,
    folder: Path,
    *,
    settings: Mapping[str, int],
    salvaged: bool = False,
) -> Exported:
    """Write the state that a connection reads into an empty folder.

    Args:
        connection: In a read transaction.
        layout: Places of the picture files.
        folder: Receives the tables, the pictures and, last, the manifest.
        settings: Settings of a base that is made from the export.
        salvaged: Whether the manifest says that the base was damaged.

    Raises:
        Corrupt: A page fails its checksum.
    """
    made_with = {key: _meta(connection, key) for key in _MADE_WITH}
    encoders = _encoders(connection, made_with["encoder"])
    files, left_out = _copy_pictures(connection, layout, folder)
    done = Exported(pictures=len(files), left_out=left_out)
    for table, rows, kind in (
        (UNITS, _units(connection), None),
        (SOURCES, _sources(connection), None),
        (CHUNKS, _chunks(connection, encoders), "chunk"),
        (IMAGES, _images(connection, encoders, files), "image"),
        (SHOWINGS, _showings(connection), None),
        (RELATIONS, _relations(connection), None),
        (ENTITIES, _entities(connection), None),
        (TABLE_ROWS, _table_rows(connection), None),
    ):
        dim = encoders[kind][1] if kind in encoders else None
        done.counts[table.name] = write_table(folder, table, rows, dim)
    manifest = {
        "format": FORMAT,
        "ku_rag": ku_rag.__version__,
        "schema": connection.execute("PRAGMA user_version").fetchone()[0],
        "salvaged": salvaged,
        **made_with,
        "settings": dict(settings),
        "counts": done.counts,
        "pictures": done.pictures,
        "sha256": {table.file: file_checksum(folder / table.file) for table in TABLES},
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=2)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return done


# ---- pictures ----------------------------------------------------------------------------------


def _copy_pictures(
    connection: Connection, layout: Layout, folder: Path
) -> tuple[dict[str, str], list[Quarantined]]:
    """Copy sound pictures; return content hash → path below the folder, and what was left out."""
    files: dict[str, str] = {}
    left_out: list[Quarantined] = []
    (folder / PICTURES).mkdir()
    with closing(connection.execute("SELECT hash, file FROM images ORDER BY hash")) as rows:
        for digest, file in rows:
            place = f"{PICTURES}/{image_file(digest, PurePath(file).suffix.lower())}"
            if problem := atomic_folder.copy_picture(layout.image(file), folder / place, digest):
                left_out.append(problem)
            else:
                files[digest] = place
    return files, left_out


# ---- tables ------------------------------------------------------------------------------------


def _units(connection: Connection) -> Iterator[Row]:
    for unit, name, kind, aliases, metadata, match in connection.execute(
        "SELECT id, name, kind, aliases, metadata, match FROM units ORDER BY row"
    ):
        yield unit, name, kind, json.loads(aliases), metadata, bool(match)


def _by_source(connection: Connection, sql: str, *values: object) -> Iterator[Any]:
    """Yield the rows of a query in the order of units and sources; {} is its condition."""
    for which in _IN_ORDER:
        yield from connection.execute(sql.format(which), values)


def _sources(connection: Connection) -> Iterator[Row]:
    return _by_source(
        connection,
        "SELECT s.uri, u.id, s.origin, s.hash, s.declared, s.chunks, s.images "
        "FROM sources s LEFT JOIN units u ON u.row = s.unit WHERE {}",
    )


def _chunks(
    connection: Connection, encoders: Mapping[str | None, tuple[int, int]]
) -> Iterator[Row]:
    encoder, dim = encoders.get("chunk", (None, 0))
    rows = _by_source(
        connection,
        "SELECT u.id, s.uri, c.position, c.document, c.text, v.vector "
        "FROM sources s CROSS JOIN chunks c ON c.source = s.row "
        "LEFT JOIN units u ON u.row = s.unit LEFT JOIN vectors v ON v.row = ? + c.row "
        "WHERE {}, c.position",
        encoder and vectors.place("chunk", encoder),
    )
    for unit, uri, position, document, text, blob in rows:
        out = (unit, uri, position, document, text)
        yield (*out, blob) if dim else out


def _images(
    connection: Connection,
    encoders: Mapping[str | None, tuple[int, int]],
    files: Mapping[str, str],
) -> Iterator[Row]:
    encoder, dim = encoders.get("image", (None, 0))
    for digest, *fields, blob in connection.execute(
        "SELECT i.hash, i.width, i.height, i.bytes, v.vector "
        "FROM images i LEFT JOIN vectors v ON v.row = ? + i.row ORDER BY i.hash",
        (encoder and vectors.place("image", encoder),),
    ):
        out = (digest, files.get(digest), *fields)
        yield (*out, blob) if dim else out


def _showings(connection: Connection) -> Iterator[Row]:
    return _by_source(
        connection,
        "SELECT u.id, s.uri, l.position, i.hash FROM sources s "
        "CROSS JOIN unit_images l ON l.source = s.row JOIN images i ON i.row = l.image "
        "LEFT JOIN units u ON u.row = s.unit WHERE {}, l.position",
    )


def _relations(connection: Connection) -> Iterator[Row]:
    before, position = None, 0
    for unit, uri, *fields in _by_source(
        connection,
        "SELECT u.id, s.uri, r.relation, r.target, r.target_kind, r.information, r.condition, "
        "t.name, tu.id FROM sources s CROSS JOIN relations r ON r.source = s.row "
        "LEFT JOIN units u ON u.row = s.unit LEFT JOIN entities t ON t.row = r.tail "
        "LEFT JOIN units tu ON tu.row = t.unit WHERE {}, r.row",
    ):
        position = position + 1 if uri == before else 0
        before = uri
        yield unit, uri, position, *fields


def _entities(connection: Connection) -> Iterator[Row]:
    yield from connection.execute(
        "SELECT e.name, e.kind, u.id FROM entities e LEFT JOIN units u ON u.row = e.unit "
        "ORDER BY e.name, e.kind, u.id"
    )


def _table_rows(connection: Connection) -> Iterator[Row]:
    return _by_source(
        connection,
        "SELECT u.id, s.uri, t.document, t.place, t.name, t.number, t.cells FROM sources s "
        "CROSS JOIN table_rows t ON t.source = s.row LEFT JOIN units u ON u.row = s.unit "
        "WHERE {}, t.document",
    )


# ---- the manifest ---------------------------------------------------------------------


def _meta(connection: Connection, key: str) -> Any:  # noqa: ANN401 - JSON
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return json.loads(row[0]) if row else None
    except ValueError as error:
        raise Corrupt(f"the base holds something under {key!r} that is no JSON") from error


def _encoders(
    connection: Connection, made_with: Mapping[str, Any] | None
) -> dict[str | None, tuple[int, int]]:
    """Return (row of the encoder, length of its vectors) for each kind that has one."""
    found: dict[str | None, tuple[int, int]] = {}
    for kind, (fingerprint, dim) in (made_with or {}).get("sides", {}).items():
        row = connection.execute(
            "SELECT row FROM encoders WHERE fingerprint = ? AND dim = ?", (fingerprint, dim)
        ).fetchone()
        if row:
            found[kind] = (int(row[0]), dim)
    return found
