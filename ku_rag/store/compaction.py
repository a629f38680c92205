"""Compaction: deleted content is erased from the files."""

from __future__ import annotations

from contextlib import suppress

import apsw

from ku_rag.errors import Locked, Refused
from ku_rag.store.connection import explained, last_row
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, delete_file


def refuse_copy(database: Database, layout: Layout) -> None:
    """Raise `Refused` for an unchanged copy, which may follow its base: a commit would end that."""
    state = str(database.meta("state")).encode()
    if layout.copied.is_file() and state in layout.copied.read_bytes():
        raise Refused(
            f"{layout.root} is an unchanged copy, made by `ku snapshot`: if it follows its base, "
            "compact the base and apply the next increment; if it is an independent base, such as "
            f"a restored backup, delete {layout.copied} and compact again"
        )


def compact(database: Database, layout: Layout) -> None:
    """Merge the keyword index, forget changes and history, close holes, sweep pictures.

    The caller holds the writer lock and has written the caches before: they cover all changes
    that are forgotten here.

    Raises:
        Locked: another process reads an older state, so neither could the log be emptied nor
            pictures be swept; everything else was done.
    """
    connection = database.connection
    with database.change(large=True):
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        database.set_meta("changes_pruned", last_row(connection, "changes"))
        connection.execute("DELETE FROM changes; DELETE FROM history")
    with database.change(large=True):  # the change before has counted them
        connection.execute("DELETE FROM meta WHERE key = 'lost'")
    with explained(database.path):
        connection.execute("VACUUM")
    if not sweep(database, layout):
        raise Locked(
            f"another process is reading {database.path.parent}: compact again when it is done; "
            "deleted text may still be in ku.sqlite-wal, and pictures in images/, until then"
        )


def sweep(database: Database, layout: Layout) -> bool:
    """Empty the log, and delete the picture files that no row names.

    The caller holds the writer lock. False if others read an older state, which may need the
    pictures; then nothing is done.
    """
    with explained(database.path):
        try:
            database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            return False
    stored = set(database.connection.column("SELECT file FROM images"))
    for file in layout.images.glob("*/*"):
        if file.is_file() and f"{file.parent.name}/{file.name}" not in stored:
            delete_file(file)
    for folder in layout.images.glob("*"):
        with suppress(OSError):  # pictures are in it
            folder.rmdir()
    return True
