"""The number of the last commit, beside the database, so that lost commits are reported.

SQLite drops what follows a damaged place in its write-ahead log without a word. So every commit
has a number, which is stored in the database with it and written to `ku.commits` after it. A file
that is ahead of the database tells that commits were lost. It is not synced: a power cut may leave
an older number there, which reports nothing wrong.
"""

from __future__ import annotations

import logging
import os
import zlib
from contextlib import suppress
from pathlib import Path

import apsw

_log = logging.getLogger("ku_rag")


def file_of(database: Path) -> Path:
    """The file that holds the number of the last commit."""
    return database.with_name("ku.commits")


def last_known(database: Path) -> int:
    """The number in the file; 0 where there is none that can be read."""
    with suppress(OSError, ValueError):
        number, stored = file_of(database).read_bytes().split()
        if int(stored, 16) == zlib.crc32(number):
            return int(number)
    return 0


def note(database: Path, number: int) -> None:
    """Write the number of a commit that is done."""
    digits = b"%020d" % number
    try:
        handle = os.open(file_of(database), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, b"%s %08x\n" % (digits, zlib.crc32(digits)), 0)
        finally:
            os.close(handle)
    except OSError as error:
        _log.warning("%s cannot be written (%s)", file_of(database), error.strerror)


def count(connection: apsw.Connection, database: Path) -> int:
    """Give a change its number, larger than any before even if commits were lost.

    Called at the end of a change.
    """
    last, known = _meta(connection, "commits"), last_known(database)
    if known > last:
        _put(connection, "lost", _meta(connection, "lost") + known - last)
    number = max(last, known) + 1
    _put(connection, "commits", number)
    return number


def lost(connection: apsw.Connection, known: int) -> str | None:
    """A sentence when the database lacks commits that were done, else None.

    Args:
        connection: to the database.
        known: the file's number, read before anything of the database was.
    """
    last = _meta(connection, "commits")
    missing = _meta(connection, "lost") + max(0, known - last)
    if not missing:
        return None
    return (
        f"{missing} commit{' was' if missing == 1 else 's were'} lost: ku.commits names commit "
        f"{known}, ku.sqlite holds {last}. Restore ku.sqlite and ku.sqlite-wal from a copy, or "
        "ingest again what came last; `ku compact` accepts what there is"
    )


def accept(connection: apsw.Connection) -> None:
    """Report earlier losses no longer. Called inside a change, after another one."""
    connection.execute("DELETE FROM meta WHERE key = 'lost'")


def _meta(connection: apsw.Connection, key: str) -> int:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return int(found[0]) if found else 0


def _put(connection: apsw.Connection, key: str, number: int) -> None:
    connection.execute("REPLACE INTO meta VALUES (?, ?)", (key, str(number)))
