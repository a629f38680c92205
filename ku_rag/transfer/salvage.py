"""Salvage: the rows of a damaged base that SQLite can still read, in the layout of an export.

The base is opened for reading. Each table is copied row by row into a new store beside the export;
rows on damaged pages are skipped. The new store is then exported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw

from ku_rag.errors import Corrupt, NotFound, Outdated
from ku_rag.ingest.assembly import Declaration
from ku_rag.store import schema
from ku_rag.store.connection import Connection, connect, last_row
from ku_rag.store.layout import Layout
from ku_rag.store.relations import ANY_KIND
from ku_rag.store.vectors import KINDS, place
from ku_rag.transfer import atomic_folder, parquet_export
from ku_rag.transfer.parquet_export import Exported
from ku_rag.transfer.tables import parquet
from ku_rag.types import Quarantined

_WORK = "salvage.sqlite"
_TABLES = (
    "encoders", "units", "sources", "chunks", "images", "unit_images", "vectors", "entities",
    "relations", "table_rows", "text_places", "labels", "facts", "image_words",
)  # fmt: skip
_REPORTED = ("units", "sources", "chunks", "images", "vectors", "relations")
_INCOMPLETE = "incomplete:incomplete"
"""Replaces the hash of a lost source, so that ingesting its file again restores it."""

_Ranges = list[tuple[int, int]]
"""Ranges of row numbers (first, last)."""


def salvage(layout: Layout, folder: Path) -> Exported:
    """Write everything that can be read from a base to an export; the base is not changed."""
    parquet()
    started = time.monotonic()
    path = layout.database
    if not path.is_file() or not path.stat().st_size:
        raise NotFound(f"{path} is missing or empty: nothing can be saved")
    with atomic_folder.create(folder, replaces=parquet_export.is_export, what="an export") as out:
        with closing(Connection(str(out / _WORK))) as work:
            work.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
            schema.create(work)
            work.execute("PRAGMA foreign_keys = OFF; BEGIN")
            lost = {
                table: [f"row {a}" if a == b else f"rows {a} to {b}" for a, b in ranges]
                for table, ranges in _copy(path, work).items()
            }
            done = parquet_export.write(work, layout, out, settings={}, salvaged=True)
            count = "SELECT count(*) FROM {}"
            done.salvaged = {
                name: {"saved": work.execute(count.format(name)).fetchone()[0], "lost": lost[name]}
                for name in _REPORTED
            }
        (out / _WORK).unlink()
    done.left_out += [
        Quarantined(f"{table}: {rows}", "lost") for table, ranges in lost.items() for rows in ranges
    ]
    done.seconds = round(time.monotonic() - started, 3)
    return done


def _copy(path: Path, work: Connection) -> dict[str, _Ranges]:
    """Copy the readable rows of all tables into a new store; return the lost ranges of each."""
    try:
        damaged = connect(path, read_only=True)
        with suppress(Outdated):  # its rows can be read as well
            schema.check(damaged, path.parent)
        damaged.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except apsw.Error as error:
        raise _unreadable(path, error) from error
    with closing(damaged):
        with suppress(apsw.Error):
            for row in damaged.execute("SELECT key, value FROM meta"):
                work.execute("REPLACE INTO meta VALUES (?, ?)", row)
        lost = {table: _copy_table(damaged, work, table) for table in _TABLES}
        _restore_names(damaged, work)
    if not work.execute("SELECT 1 FROM sources").fetchone():
        raise _unreadable(path, "no source can be read")
    for statement in (
        "DELETE FROM sources WHERE unit NOT IN (SELECT row FROM units)",
        "DELETE FROM chunks WHERE source NOT IN (SELECT row FROM sources)",
        "DELETE FROM table_rows WHERE source NOT IN (SELECT row FROM sources)",
        "DELETE FROM text_places WHERE source NOT IN (SELECT row FROM sources)",
        "DELETE FROM relations WHERE source NOT IN (SELECT row FROM sources)",
        "DELETE FROM unit_images WHERE source NOT IN (SELECT row FROM sources) "
        "OR image NOT IN (SELECT row FROM images)",
        "DELETE FROM facts WHERE unit NOT IN (SELECT row FROM units) "
        "OR chunk NOT IN (SELECT row FROM chunks)",
        "DELETE FROM entities WHERE unit NOT IN (SELECT row FROM units)",
    ):
        work.execute(statement)
    return lost


def _copy_table(damaged: Connection, work: Connection, table: str) -> _Ranges:
    """Copy the readable rows of a table; return the ranges of row numbers that are lost."""
    lost: _Ranges = []
    columns = f"SELECT name FROM pragma_table_xinfo('{table}')"
    there = set(damaged.execute(columns))
    names = [name for (name,) in work.execute(columns.replace("xinfo", "info")) if (name,) in there]
    if not names:  # an earlier version had no such table
        return lost
    insert = f"REPLACE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    read = f"SELECT {', '.join(names)} FROM {table} WHERE {names[0]} BETWEEN ? AND ? ORDER BY 1"
    for first, last in _ranges(damaged, work, table):
        waiting = [(first, last)]
        while waiting:
            low, high = waiting.pop()
            try:
                for row in damaged.execute(read, (low, high)):
                    work.execute(insert, row)
                    low = row[0] + 1
            except apsw.Error:
                if low == high:
                    if lost and lost[-1][1] == low - 1:
                        low = lost.pop()[0]
                    lost.append((low, high))
                elif low < high:
                    middle = (low + high) // 2
                    waiting += [(middle + 1, high), (low, middle)]
    return lost


def _ranges(damaged: Connection, work: Connection, table: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the keys that the rows of a table may have."""
    of_sources = dict.fromkeys(("unit_images", "table_rows", "text_places"), ("sources",))
    most = {**of_sources, "vectors": ("chunks", "images")}.get(table, (table,))
    last = 0
    with suppress(apsw.Error):
        for name in most:
            last = max(last, last_row(damaged, name))
    if table != "vectors":
        with suppress(apsw.Error):  # 0: numbers of this table are used again
            last = last or damaged.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0
        yield 1, last
        return
    for (encoder,) in work.execute("SELECT row FROM encoders").fetchall():
        for kind in KINDS:
            yield place(kind, encoder, 1), place(kind, encoder, last)


def _restore_names(damaged: Connection, work: Connection) -> None:
    """Restore the ids of lost units and the uris of lost sources that indexes still contain."""
    with suppress(apsw.Error):
        for row, unit_id in damaged.execute("SELECT row, id FROM units ORDER BY id"):
            work.execute(
                "INSERT OR IGNORE INTO units (row, id, name, kind, aliases, metadata, match) "
                "VALUES (?1, ?2, ?2, ?3, '[]', '{}', 1)",
                (row, unit_id, ANY_KIND),
            )
    owners: dict[int, int | None] = {}
    with suppress(apsw.Error):
        owners.update(damaged.execute("SELECT row, unit FROM sources ORDER BY unit"))
    with suppress(apsw.Error):
        for row, uri in damaged.execute("SELECT row, uri FROM sources ORDER BY uri"):
            declared = "{}" if owners.get(row) is None else Declaration().to_json()
            if row in owners:
                work.execute(
                    "INSERT OR IGNORE INTO sources (row, uri, unit, origin, hash, declared) "
                    "VALUES (?, ?, ?, 'ingest', ?, ?)",
                    (row, uri, owners[row], _INCOMPLETE, declared),
                )


def _unreadable(path: Path, reason: object) -> Corrupt:
    return Corrupt(
        f"the schema or the sources of {path} cannot be read ({reason}): nothing can be saved; "
        "restore a snapshot, or ingest the files again into a new knowledge base"
    )
