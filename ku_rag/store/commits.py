"""The number of the last commit, beside the database, so that lost commits are reported.

SQLite silently drops what follows a damaged place in its write-ahead log. So every commit has a
number, which is stored in the database with it and written to `ku.commits` after it. If the file is
ahead of the database, commits were lost. The file is not synced: a power cut may leave an older
number in it, which reports nothing wrong.
"""

from __future__ import annotations

import logging
import os
import zlib
from contextlib import suppress
from pathlib import Path

import apsw

_FILE = "ku.commits"
_log = logging.getLogger("ku_rag")


def last_known(database: Path) -> int:
    """The number in the file; 0 where there is none that can be read."""
    with suppress(OSError, ValueError):
        number, stored = database.with_name(_FILE).read_bytes().split()
        if int(stored, 16) == zlib.crc32(number):
            return int(number)
    return 0


def note(database: Path, number: int) -> None:
    """Write the number of a commit that is done."""
    file, digits = database.with_name(_FILE), b"%020d" % number
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, b"%s %08x\n" % (digits, zlib.crc32(digits)), 0)
        finally:
            os.close(handle)
    except OSError as error:
        _log.warning("%s cannot be written (%s)", file, error.strerror)


def count(connection: apsw.Connection, database: Path) -> int:
    """Number a change; the number is larger than any before even if commits were lost.

    Called at the end of a change.
    """
    (last, missing), known = _numbers(connection), last_known(database)
    number = max(last, known) + 1
    changed = [("commits", str(number))]
    if known > last:
        changed.append(("lost", str(missing + known - last)))
    connection.executemany("REPLACE INTO meta VALUES (?, ?)", changed)
    return number


def lost(connection: apsw.Connection, known: int) -> str | None:
    """A sentence when the database lacks commits that were done, else None.

    Args:
        connection: to the database.
        known: the file's number, read before anything of the database was.
    """
    last, before = _numbers(connection)
    missing = before + max(0, known - last)
    if not missing:
        return None
    return (
        f"{missing} commit{' was' if missing == 1 else 's were'} lost: ku.commits names commit "
        f"{known}, ku.sqlite holds {last}. Restore ku.sqlite and ku.sqlite-wal from a copy, or "
        "ingest again what came last; `ku compact` accepts what there is"
    )


def accept(connection: apsw.Connection) -> None:
    """Stop reporting earlier losses. Called inside a change, after another one."""
    connection.execute("DELETE FROM meta WHERE key = 'lost'")


def _numbers(connection: apsw.Connection) -> tuple[int, int]:
    """The number of the last commit that the database holds, and how many were lost before."""
    rows = connection.execute("SELECT key, value FROM meta WHERE key IN ('commits', 'lost')")
    numbers = {str(key): int(str(value)) for key, value in rows}
    return numbers.get("commits", 0), numbers.get("lost", 0)
