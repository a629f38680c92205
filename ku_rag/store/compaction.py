"""Compaction: what was deleted leaves the files, not only the tables."""

from __future__ import annotations

import time

from ku_rag.errors import Locked
from ku_rag.store import commits
from ku_rag.store.database import Database, explained
from ku_rag.store.layout import Layout

_PARTIAL_AGE_S = 3600


def compact(database: Database, layout: Layout) -> None:
    """Merge the keyword index, forget old changes, rewrite the file without holes, sweep pictures.

    The caller holds the writer lock and has written the caches before: they cover all changes
    that are forgotten here.

    Raises:
        Locked: another process reads an older state, so neither could the log be emptied nor
            pictures be swept; everything else was done.
    """
    connection = database.connection
    with database.change():
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        (last,) = connection.execute(
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)"
        ).fetchone()
        database.set_meta("changes_pruned", last)
        connection.execute("DELETE FROM changes")
    # What was lost is what there was to say of it; from now on the base is as it is.
    with database.change():
        commits.accept(connection)
    with explained(database.path):
        connection.execute("VACUUM")
    if not database.checkpoint():
        raise Locked(
            f"another process is reading {database.path.parent}: compact again when it is done; "
            "deleted text may still be in ku.sqlite-wal, and pictures in images/, until then"
        )
    # Who reads an older state may still look at its pictures: with the log empty, nobody does.
    _sweep(database, layout)


def _sweep(database: Database, layout: Layout) -> None:
    """Delete the picture files that no row names."""
    known = {file for (file,) in database.connection.execute("SELECT file FROM images")}
    for folder in layout.images.iterdir() if layout.images.is_dir() else ():
        for file in folder.iterdir():
            if f"{folder.name}/{file.name}" not in known and not _in_progress(
                file.name, file.stat().st_mtime
            ):
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def _in_progress(name: str, modified: float) -> bool:
    return name.endswith(".partial") and time.time() - modified < _PARTIAL_AGE_S
