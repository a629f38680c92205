"""A base as a folder of Parquet files and pictures: one state of it, whatever is written meanwhile.

Rows are named by what they are (a unit's id, a source's uri, a picture's content hash), not by
their numbers, and stand in an order that a base into which they are imported has as well: exported
again, it gives the same tables.
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
from ku_rag.store.connection import Connection
from ku_rag.store.database import Database, explained, snapshot
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
    TABLES,
    UNITS,
    Row,
    file_checksum,
    parquet,
    write_table,
)
from ku_rag.types import Quarantined

_TRIES = 3
_MADE_WITH = ("encoder", "segmenter", "max_tokens")
_IN_ORDER = ("s.unit IS NOT NULL ORDER BY s.unit, s.row", "s.unit IS NULL ORDER BY s.row")
"""Sources by unit, then those that belong to none."""
_ORDER = "(SELECT source, row_number() OVER (ORDER BY min(row)) AS place FROM {} GROUP BY source)"
"""In which order sources got what they have: equal scores are told apart by it."""


@dataclass(slots=True)
class Exported:
    """What an export wrote.

    Args:
        counts: rows by table.
        pictures: how many files were copied.
        left_out: pictures that are missing or damaged, and rows of a damaged base.
        seconds: how long it took.
        salvaged: of a damaged base, for each table the rows "saved", those "lost", and how many
            "failed_checksum"; None of another.
    """

    counts: dict[str, int] = field(default_factory=dict)
    pictures: int = 0
    left_out: list[Quarantined] = field(default_factory=list)
    seconds: float = 0.0
    salvaged: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku export --json` prints."""
        shape = {
            "counts": self.counts,
            "pictures": self.pictures,
            "left_out": [{"item": one.item, "reason": one.reason} for one in self.left_out],
            "seconds": round(self.seconds, 3),
        }
        return shape if self.salvaged is None else {**shape, "salvaged": self.salvaged}


def export(database: Database, layout: Layout, folder: Path, *, max_tokens: int) -> Exported:
    """Write one state of a base to a folder that is new, empty or an earlier export.

    Args:
        database: the store.
        layout: where its pictures are.
        folder: appears when everything is written and synced; an earlier export is replaced then.
        max_tokens: longest chunk as its settings say, 0 for the encoder's own limit.

    Raises:
        Refused: the folder holds something else.
        ReadOnly: it cannot be written.
        Corrupt: a row fails its checksum.
        MissingExtra: pyarrow is not installed.
    """
    parquet()
    started = time.monotonic()
    connection = database.connection
    with atomic_folder.beside(folder, replaces=is_export, what="an export") as made:
        for left in reversed(range(_TRIES)):
            try:
                with explained(database.path), snapshot(connection):
                    found = write(connection, layout, made, settings={"max_tokens": max_tokens})
            except Corrupt as error:
                raise Corrupt(
                    f"{error}; `ku export --salvage` writes what is sound, for `ku import`"
                ) from error
            if not (left and _moved_on(connection, found)):
                break
            atomic_folder.empty(made)
    found.seconds = time.monotonic() - started
    return found


def is_export(folder: Path) -> bool:
    """Whether a folder is an export and nothing else."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        known = {MANIFEST, PICTURES, *(table.file for table in TABLES)}
        return bool(manifest["format"]) and {one.name for one in folder.iterdir()} <= known
    except (OSError, ValueError, KeyError, TypeError):
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
        connection: in a read transaction.
        layout: where the pictures are.
        folder: gets the tables, the pictures and, last, the manifest.
        settings: what a base made of it should be opened with.
        salvaged: say so in the manifest.

    Raises:
        Corrupt: a row fails its checksum.
    """
    done = Exported()
    made_with = {key: _meta(connection, key) for key in _MADE_WITH}
    encoders = _encoders(connection, made_with["encoder"])
    files = _copy_pictures(connection, layout, folder, done)
    for table, rows, kind in (
        (UNITS, _units(connection), None),
        (SOURCES, _sources(connection), None),
        (CHUNKS, _chunks(connection, encoders), "chunk"),
        (IMAGES, _images(connection, encoders, files), "image"),
        (SHOWINGS, _showings(connection), None),
        (RELATIONS, _relations(connection), None),
        (ENTITIES, _entities(connection), None),
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


def _moved_on(connection: Connection, found: Exported) -> bool:
    """Whether a picture is missing because its rows were deleted, and it swept, meanwhile."""
    return any(
        not connection.execute("SELECT 1 FROM images WHERE hash = ?", (one.item,)).fetchone()
        for one in found.left_out
    )


# ---- pictures ----------------------------------------------------------------------------------


def _copy_pictures(
    connection: Connection, layout: Layout, folder: Path, done: Exported
) -> dict[str, str]:
    """Copy the pictures that are what they were; returns content hash → place below the folder."""
    files: dict[str, str] = {}
    (folder / PICTURES).mkdir()
    with closing(connection.execute("SELECT hash, file FROM images ORDER BY hash")) as rows:
        for digest, file in rows:
            place = f"{PICTURES}/{image_file(digest, PurePath(file).suffix.lower())}"
            path = layout.image(file)
            try:
                found = atomic_folder.copy_file(path, folder / place)
            except OSError as error:
                done.left_out.append(Quarantined(digest, f"{path}: {error.strerror}"))
                continue
            if found != digest:
                (folder / place).unlink()
                done.left_out.append(Quarantined(digest, f"{path}: its content has changed"))
                continue
            files[digest] = place
    done.pictures = len(files)
    return files


# ---- tables ------------------------------------------------------------------------------------


def _units(connection: Connection) -> Iterator[Row]:
    for unit, name, kind, aliases, metadata, match in connection.execute(
        "SELECT id, name, kind, aliases, metadata, match FROM units ORDER BY row"
    ):
        yield unit, name, kind, json.loads(aliases), metadata, bool(match)


def _sources(connection: Connection) -> Iterator[Row]:
    for which in _IN_ORDER:
        yield from connection.execute(
            "SELECT s.uri, u.id, s.origin, s.hash, s.declared, s.chunks, s.images, t.place, "
            "r.place FROM sources s LEFT JOIN units u ON u.row = s.unit "
            f"LEFT JOIN {_ORDER.format('chunks')} t ON t.source = s.row "
            f"LEFT JOIN {_ORDER.format('relations')} r ON r.source = s.row WHERE {which}"
        )


def _chunks(
    connection: Connection, encoders: Mapping[str | None, tuple[int, int]]
) -> Iterator[Row]:
    encoder, dim = encoders.get("chunk", (None, 0))
    for which in _IN_ORDER:
        for *fields, blob in connection.execute(
            "SELECT u.id, s.uri, c.position, c.document, c.hash, c.text, v.vector "
            "FROM sources s CROSS JOIN chunks c "
            "ON c.source = s.row LEFT JOIN units u ON u.row = s.unit LEFT JOIN vectors v "
            "ON v.row = ? + c.row "
            f"WHERE {which}, c.position",
            (encoder and vectors.place("chunk", encoder),),
        ):
            yield (*fields, blob) if dim else tuple(fields)


def _images(
    connection: Connection,
    encoders: Mapping[str | None, tuple[int, int]],
    files: Mapping[str, str],
) -> Iterator[Row]:
    encoder, dim = encoders.get("image", (None, 0))
    for place, digest, *rest, blob in connection.execute(
        "SELECT row_number() OVER (ORDER BY i.row), i.hash, i.width, i.height, i.bytes, v.vector "
        "FROM images i LEFT JOIN vectors v "
        "ON v.row = ? + i.row ORDER BY i.hash",
        (encoder and vectors.place("image", encoder),),
    ):
        out = (digest, files.get(digest), *rest, place)
        yield (*out, blob) if dim else out


def _showings(connection: Connection) -> Iterator[Row]:
    for which in _IN_ORDER:
        yield from connection.execute(
            "SELECT u.id, s.uri, l.position, i.hash FROM sources s "
            "CROSS JOIN unit_images l ON l.source = s.row JOIN images i ON i.row = l.image "
            f"LEFT JOIN units u ON u.row = s.unit WHERE {which}, l.position"
        )


def _relations(connection: Connection) -> Iterator[Row]:
    for which in _IN_ORDER:
        before, position = None, 0
        for unit, uri, *fields in connection.execute(
            "SELECT u.id, s.uri, r.relation, r.target, r.target_kind, "
            "r.information, r.condition, t.name, tu.id FROM sources s "
            "CROSS JOIN relations r ON r.source = s.row LEFT JOIN units u ON u.row = s.unit "
            "LEFT JOIN entities t ON t.row = r.tail LEFT JOIN units tu ON tu.row = t.unit "
            f"WHERE {which}, r.row"
        ):
            position = position + 1 if uri == before else 0
            before = uri
            yield unit, uri, position, *fields


def _entities(connection: Connection) -> Iterator[Row]:
    yield from connection.execute(
        "SELECT e.name, e.kind, u.id FROM entities e LEFT JOIN units u ON u.row = e.unit "
        "ORDER BY e.name, e.kind, u.id"
    )


# ---- what it was made with ---------------------------------------------------------------------


def _meta(connection: Connection, key: str) -> Any:  # noqa: ANN401 - JSON
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    try:
        return json.loads(row[0]) if row else None
    except ValueError as error:
        raise Corrupt(f"the base keeps something under {key!r} that is no JSON") from error


def _encoders(
    connection: Connection, made_with: Mapping[str, Any] | None
) -> dict[str | None, tuple[int, int]]:
    """(row of the encoder, length of its vectors) for each kind that has one."""
    found: dict[str | None, tuple[int, int]] = {}
    for kind, (fingerprint, dim) in (made_with or {}).get("sides", {}).items():
        row = connection.execute(
            "SELECT row FROM encoders WHERE fingerprint = ? AND dim = ?", (fingerprint, dim)
        ).fetchone()
        if row:
            found[kind] = (int(row[0]), dim)
    return found
