"""Upgrades: a base of an earlier version becomes one of this version, with all of its content.

First its tables are migrated (`ku_rag.store.migrations`). Then names, lists, the keyword index and
the ends of relations are derived again from texts and declarations, in one transaction. Then the
facts of all content are read, unless this version of the extractor has done so. Nothing is encoded.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from contextlib import closing
from dataclasses import dataclass, replace

import apsw

from ku_rag.errors import NotFound, ReadOnly
from ku_rag.indexes import inverted
from ku_rag.ingest import assembly
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.preparation import earlier_texts_hash, hash_texts
from ku_rag.store import facts, migrations, relations, schema
from ku_rag.store.connection import SLICE, Connection, explained, has_checksums
from ku_rag.store.content_rows import content_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, sync_path
from ku_rag.store.lock import WriterLock
from ku_rag.store.unit_records import documents
from ku_rag.types import Progress, Serializable

_WORK = "ku.upgrade"
"""The folder of a copy that is being made; an upgrade that was stopped leaves it behind."""
_GUARD = "ku.guard"
"""The page checksums of 0.1.0."""

_FACTS_READ = "facts_read"
"""Key of the rows up to which facts are read, with the version of the extractor."""

_log = logging.getLogger("ku_rag")


@dataclass(frozen=True, slots=True)
class Upgraded(Serializable):
    """The result of an upgrade.

    Args:
        schema: number of the schema that the base has now.
    """

    upgraded: bool
    schema: int
    seconds: float


def upgrade(layout: Layout, *, lock_wait_s: float, progress: Progress | None = None) -> Upgraded:
    """Upgrade a base; see `KnowledgeBase.upgrade`."""
    started, path = time.monotonic(), layout.database
    if not path.is_file():
        raise NotFound(f"there is no knowledge base in {layout.root}: name its folder with --kb")
    with WriterLock(layout.lock, wait_s=lock_wait_s), explained(path):
        work = Layout(layout.root / _WORK)
        shutil.rmtree(work.root, ignore_errors=True)
        with closing(Database(path, outdated=True)) as database:
            connection = database.connection
            is_copied, is_outdated = not has_checksums(connection), schema.is_outdated(connection)
            if is_copied or schema.version(connection) < schema.FIRST:
                _check_room(layout)
            if is_outdated:
                _log.warning("%s was made by an earlier version: it is upgraded", layout.root)
            if not is_copied:
                _advance(database, layout, progress)
        if is_copied:
            work.root.mkdir()
            try:
                with migrations.copied(path, work.database):
                    (layout.root / _GUARD).unlink(missing_ok=True)
                    with closing(Database(work.database, outdated=True)) as database:
                        _advance(database, layout, progress)
                        # The file is moved without its log, which an error may keep at closing.
                        database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    _replace(work, layout)
            finally:
                shutil.rmtree(work.root, ignore_errors=True)
    return Upgraded(is_outdated, schema.SCHEMA, round(time.monotonic() - started, 3))


def _check_room(layout: Layout) -> None:
    """Raise `ReadOnly` if the disk has no room for the tables as they are and as they will be."""
    needed = 2 * sum(file.stat().st_size for file in layout.root.glob("ku.sqlite*"))
    free = shutil.disk_usage(layout.root).free
    if free < needed:
        raise ReadOnly(
            f"{layout.root} has room for {free:,} bytes, its upgrade may need {needed:,}: nothing "
            "was changed; make room on the disk and run `ku upgrade` again"
        )


def _advance(database: Database, layout: Layout, progress: Progress | None) -> None:
    """Migrate the tables, then derive what follows from them."""
    migrations.migrate(database)
    if schema.is_stale(database.connection):
        for file in layout.indexes.glob("*.*"):  # caches of earlier versions
            file.unlink()
        with database.change(large=True) as connection:
            _derive(connection, progress)
            connection.execute("DELETE FROM meta WHERE key IN ('stale', 'facts')")
    if not schema.has_facts(database.connection):
        _read_facts(database, progress)


def _replace(work: Layout, layout: Layout) -> None:
    """Replace the database by its upgraded copy; a power cut leaves one of them."""
    sync_path(work.database)
    work.database.replace(layout.database)
    # Later than the database: its number must not be ahead of the commits.
    (work.root / "ku.commits").replace(layout.root / "ku.commits")
    sync_path(layout.root)


# ---- derived rows --------------------------------------------------------------------------------


def _derive(connection: Connection, progress: Progress | None) -> None:
    """Derive the rows that follow from others. Called inside a change."""
    connection.execute("DELETE FROM names; DELETE FROM unit_chunks")
    connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
    _update_sources(connection)
    targets = connection.column("SELECT DISTINCT target FROM relations")
    connection.executemany(
        "UPDATE relations SET target_key = ? WHERE target = ?",
        ((relations.target_key(target), target) for target in targets),
    )
    connection.execute(
        "INSERT INTO unit_chunks SELECT s.unit, c.row, 1 FROM chunks c "
        "JOIN sources s ON s.row = c.source WHERE s.unit IS NOT NULL"
    )
    units = connection.execute("SELECT id, row FROM units ORDER BY row").fetchall()
    for at in range(0, len(units), SLICE):
        assembly.update_units(connection, dict(units[at : at + SLICE]))
    (last,) = connection.execute("SELECT coalesce(max(row), 0) FROM chunks").fetchone()
    for first in range(0, last + 1, SLICE):
        rows = connection.execute(
            "SELECT c.row, s.unit, c.text FROM chunks c JOIN sources s ON s.row = c.source "
            "WHERE c.row >= ? AND c.row < ? ORDER BY c.row",
            (first, first + SLICE),
        )
        inverted.add_chunks(connection, {row: (unit, text) for row, unit, text in rows})
        if progress:
            progress(min(first + SLICE, last))
    stated = connection.column("SELECT row FROM relations ORDER BY row")
    for at in range(0, len(stated), SLICE):
        relations.resolve(connection, stated[at : at + SLICE])


def _read_facts(database: Database, progress: Progress | None) -> None:
    """Read the facts of all units and chunks, slice by slice; continue where one was stopped."""
    version, unit, chunk = database.meta(_FACTS_READ) or (0, 0, 0)
    if version != facts.EXTRACTOR:
        unit = chunk = 0
        with database.change(large=True) as connection:
            facts.drop_all_read(connection)
            database.set_meta(_FACTS_READ, (facts.EXTRACTOR, 0, 0))
    while True:
        with database.change() as connection:
            units = connection.execute(
                "SELECT row, metadata FROM units WHERE row > ? ORDER BY row LIMIT ?", (unit, SLICE)
            ).fetchall()
            chunks = connection.execute(
                "SELECT c.row, s.unit, c.text FROM chunks c JOIN sources s ON s.row = c.source "
                "WHERE c.row > ? ORDER BY c.row LIMIT ?",
                (chunk, SLICE),
            ).fetchall()
            if not units and not chunks:
                connection.execute("DELETE FROM meta WHERE key = ?", (_FACTS_READ,))
                schema.finish_facts(connection)
                return
            facts.add_metadata(connection, {row: json.loads(fields) for row, fields in units})
            facts.add_chunks(connection, {row: (of, text) for row, of, text in chunks})
            unit = units[-1][0] if units else unit
            chunk = chunks[-1][0] if chunks else chunk
            database.set_meta(_FACTS_READ, (facts.EXTRACTOR, unit, chunk))
        if progress:
            progress(max(unit, chunk))


def _update_sources(connection: Connection) -> None:
    """Write declarations as this version does, and name what was added by hand by its content."""
    rows = connection.execute("SELECT row, declared FROM sources WHERE unit NOT NULL").fetchall()
    connection.executemany(
        "UPDATE sources SET declared = ? WHERE row = ?",
        (
            (
                replace(
                    Declaration.from_json(declared),
                    relations=relations.stored_digest(connection, row),
                ).to_json(),
                row,
            )
            for row, declared in rows
        ),
    )
    for row, uri, digest in connection.execute(
        "SELECT row, uri, hash FROM sources WHERE origin IN ('add', 'join')"
    ).fetchall():
        texts, _, pictures = digest.partition(":")
        given = list(documents(connection, row).values())
        if earlier_texts_hash(given) == texts:
            stored = f"{hash_texts(given)}:{pictures}"
            begin, end = uri[:-16], content_hash(digest)[:16]
            renamed = begin + content_hash(stored)[:16] if uri[-16:] == end else uri
            connection.execute(
                "UPDATE OR IGNORE sources SET hash = ?, uri = ? WHERE row = ?",
                (stored, renamed, row),
            )
