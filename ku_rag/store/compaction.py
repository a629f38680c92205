"""Compaction: deleted content is erased from the files."""

from __future__ import annotations

import apsw

from ku_rag.errors import Locked, Refused
from ku_rag.store.connection import explained, last_row
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout


def compact(database: Database, layout: Layout) -> None:
    """Merge the keyword index, forget old changes, rewrite the file without holes, sweep pictures.

    The caller holds the writer lock and has written the caches before: they cover all changes
    that are forgotten here.

    Raises:
        Refused: the base is an unchanged copy, to which no increment would apply any more.
        Locked: another process reads an older state, so neither could the log be emptied nor
            pictures be swept; everything else was done.
    """
    if layout.copied.exists() and layout.copied.read_text() == database.meta("state"):
        raise Refused(
            f"{layout.root} is an unchanged copy: compact the base that it comes from and apply "
            f"the next increment, or delete {layout.copied.name} to make the copy a base of its own"
        )
    connection = database.connection
    with database.change():
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        database.set_meta("changes_pruned", last_row(connection, "changes"))
        connection.execute("DELETE FROM changes")
    with database.change():  # the change before has counted them
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

    The caller holds the writer lock.

    Returns:
        False if others read an older state, which may need the pictures; then nothing is done.
    """
    with explained(database.path):
        try:
            database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            return False
    known = {file for (file,) in database.connection.execute("SELECT file FROM images")}
    for folder in layout.images.iterdir() if layout.images.is_dir() else ():
        for file in folder.iterdir():
            if f"{folder.name}/{file.name}" not in known:
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
    return True
