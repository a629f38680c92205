"""An export: one state of a base as a folder of Parquet files and pictures.

Rows are identified by a unit's id, a source's uri or a picture's content hash, not by their
numbers, in an order that an import keeps: the imported base exports the same tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import ku_rag
from ku_rag import arguments
from ku_rag.errors import Corrupt
from ku_rag.store import vectors
from ku_rag.store.connection import Connection, explained, snapshot
from ku_rag.store.database import Database
from ku_rag.store.facts import EXTRACTED
from ku_rag.store.layout import Layout, image_file
from ku_rag.transfer import atomic_folder, tables
from ku_rag.transfer.parquet_reader import TUNING
from ku_rag.transfer.tables import Row, TableFile, write_table
from ku_rag.types import Quarantined, Serializable

_MADE_WITH = ("encoder", "segmenter", "max_tokens", "language", *TUNING)
_IN_ORDER = ("s.unit IS NOT NULL ORDER BY s.unit, s.row", "s.unit IS NULL ORDER BY s.row")
"""Sources by unit, then those that belong to none."""
_UNIT = "LEFT JOIN units u ON u.row = s.unit"
_QUERIES = {
    "units": "SELECT id, name, kind, aliases, metadata, match FROM units ORDER BY row",
    "sources": "SELECT s.uri, u.id, s.origin, s.hash, s.declared, s.chunks, s.images "
    f"FROM sources s {_UNIT} WHERE {{}}",
    "chunks": "SELECT u.id, s.uri, c.position, c.document, c.text, v.vector FROM sources s "
    f"CROSS JOIN chunks c ON c.source = s.row {_UNIT} LEFT JOIN vectors v ON v.row = ? + c.row "
    "WHERE {}, c.position",
    "images": "SELECT i.hash, i.file, i.width, i.height, i.bytes, v.vector FROM images i "
    "LEFT JOIN vectors v ON v.row = ? + i.row ORDER BY i.hash",
    "showings": "SELECT u.id, s.uri, l.position, i.hash FROM sources s CROSS JOIN unit_images l "
    f"ON l.source = s.row JOIN images i ON i.row = l.image {_UNIT} WHERE {{}}, l.position",
    "relations": "SELECT u.id, s.uri, row_number() OVER (PARTITION BY s.row ORDER BY r.row) - 1, "
    "r.relation, r.target, r.target_kind, r.information, r.condition, t.name, tu.id "
    f"FROM sources s CROSS JOIN relations r ON r.source = s.row {_UNIT} "
    "LEFT JOIN entities t ON t.row = r.tail LEFT JOIN units tu ON tu.row = t.unit "
    "WHERE {}, r.row",
    "entities": "SELECT e.name, e.kind, u.id FROM entities e LEFT JOIN units u ON u.row = e.unit "
    "ORDER BY e.name, e.kind, u.id",
    "table_rows": "SELECT u.id, s.uri, t.document, t.place, t.name, t.number, t.cells "
    f"FROM sources s CROSS JOIN table_rows t ON t.source = s.row {_UNIT} WHERE {{}}, t.document",
    "text_places": "SELECT u.id, s.uri, p.document, p.section, p.lines FROM sources s "
    f"CROSS JOIN text_places p ON p.source = s.row {_UNIT} WHERE {{}}, p.document",
    "image_words": "SELECT i.hash, w.recogniser, w.words FROM image_words w "
    "JOIN images i ON i.row = w.image ORDER BY i.hash",
    # A unit is not always the one that the source belongs to.
    "extracted_facts": "SELECT o.id, s.uri, c.position, l.label, coalesce(f.value, f.key), "
    "l.origin, f.first, f.last FROM sources s CROSS JOIN chunks c ON c.source = s.row "
    "CROSS JOIN facts f ON f.chunk = c.row JOIN units o ON o.row = f.unit "
    f"JOIN labels l ON l.row = f.label {_UNIT} WHERE l.origin LIKE '{EXTRACTED}%' AND {{}}, "
    "c.position, f.row",
}
"""Query of the rows of each table; {} is the condition and order of those of sources."""


@dataclass(slots=True)
class Exported(Serializable):
    """What an export wrote.

    Args:
        left_out: Pictures that are missing or damaged, and lost rows of a damaged base.
        salvaged: For each table of a damaged base the number of rows "saved", the ranges of row
            numbers "lost"; None for a sound base.
    """

    counts: dict[str, int] = field(default_factory=dict)
    pictures: int = 0
    left_out: list[Quarantined] = field(default_factory=list)
    seconds: float = 0.0
    salvaged: dict[str, Any] | None = None


def export(database: Database, layout: Layout, folder: Path, *, max_tokens: int) -> Exported:
    """Write one state of a base to a folder that is new, empty or an earlier export."""
    tables.parquet()
    started = time.monotonic()
    connection = database.connection
    with (
        atomic_folder.create(folder, replaces=is_export, what="an export") as out,
        explained(database.path),
        snapshot(connection),  # while this state is read, `compact` deletes no picture of it
    ):
        result = write(connection, layout, out, settings={"max_tokens": max_tokens})
    result.seconds = round(time.monotonic() - started, 3)
    return result


def is_export(folder: Path) -> bool:
    """Whether a folder is an export and nothing else."""
    try:
        manifest = json.loads((folder / tables.MANIFEST).read_bytes())
        files = {tables.MANIFEST, tables.PICTURES, *(table.file for table in tables.TABLES)}
        return "format" in manifest and {path.name for path in folder.iterdir()} <= files
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
    """Write the state that a connection reads into an empty folder."""
    stored = dict(connection.execute("SELECT key, value FROM meta"))
    try:
        made_with = {key: json.loads(stored.get(key, "null")) for key in _MADE_WITH}
    except ValueError as error:
        raise Corrupt(f"the manifest of the base has a value that is not JSON: {error}") from error
    sides = (made_with["encoder"] or {}).get("sides", {})
    rows_of_encoders = {
        tuple(side): row
        for row, *side in connection.execute("SELECT row, fingerprint, dim FROM encoders")
    }
    done = Exported()
    (folder / tables.PICTURES).mkdir()
    for table in tables.TABLES:
        fingerprint, dim = sides.get(table.vectors, (None, None))
        encoder = rows_of_encoders.get((fingerprint, dim))
        rows = _rows(connection, table, encoder)
        if table is tables.IMAGES:
            rows = _with_pictures(rows, layout, folder, done)
        done.counts[table.name] = write_table(folder, table, rows, dim if encoder else None)
    manifest = {
        "format": tables.FORMAT,
        "ku_rag": ku_rag.__version__,
        "schema": connection.execute("PRAGMA user_version").fetchone()[0],
        "salvaged": salvaged,
        **made_with,
        "settings": dict(settings),
        "counts": done.counts,
        "pictures": done.pictures,
        "sha256": {table.file: arguments.file_hash(folder / table.file) for table in tables.TABLES},
    }
    text = json.dumps(manifest, ensure_ascii=False, indent=2)
    (folder / tables.MANIFEST).write_text(text + "\n", encoding="utf-8")
    return done


def _rows(connection: Connection, table: TableFile, encoder: int | None) -> Iterator[Row]:
    """Yield the rows of a table, those of sources in the order of their units."""
    sql = _QUERIES[table.name]
    values = (encoder and vectors.place(table.vectors, encoder),) if table.vectors else ()
    for which in _IN_ORDER if "{}" in sql else ("",):
        yield from connection.execute(sql.format(which), values)


def _with_pictures(
    rows: Iterable[Row], layout: Layout, folder: Path, done: Exported
) -> Iterator[Row]:
    """Copy the picture of each row; yield the rows with its path, None if it is left out."""
    for digest, file, *fields in rows:
        place: str | None = f"{tables.PICTURES}/{image_file(digest, PurePath(file).suffix.lower())}"
        if problem := atomic_folder.copy_picture(layout.image(file), folder / str(place), digest):
            done.left_out.append(problem)
            place = None
        done.pictures += place is not None
        yield digest, place, *fields
