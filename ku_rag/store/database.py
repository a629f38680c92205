"""The database of a knowledge base: a connection per thread, one change at a time.

SQLite silently drops what follows a damaged place in its write-ahead log. So every commit has a
number, which is stored in the database with it and written to `ku.commits` after it. If the file is
ahead of the database, commits were lost. The file is not synced: a power cut may leave an older
number in it, which reports nothing wrong.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import apsw

from ku_rag.errors import Closed, Corrupt, NotFound, Outdated, ReadOnly
from ku_rag.store import schema
from ku_rag.store.connection import (
    APPLICATION_ID,
    Connection,
    connect,
    damaged,
    explained,
    not_a_base,
    prepare_file,
    roll_back,
    snapshot,
)
from ku_rag.store.lock import WriterLock
from ku_rag.store.text_lengths import TextLengths

_LOCK_WAIT_S = 10.0
_COMMITS = "ku.commits"

_log = logging.getLogger("ku_rag")


class Database:
    """The SQLite file of a knowledge base; threads may share it.

    Args:
        create: make it if it is missing; the caller holds the writer lock.
        read_only: open for reading; a folder that cannot be written to is opened immutable.
        outdated: open a base of an earlier version, too; only its upgrade may do so.
        lock_wait_s: seconds to wait for another process that writes.

    Attributes:
        lock: the writer lock.
        lost: a sentence when commits were lost, else None; it was logged.

    Raises:
        NotFound: there is no knowledge base at `path`, or making it was not finished.
        Outdated: it was made by an earlier version.
        Mismatch: the file is something else, or of a later version.
        ReadOnly: it cannot be written to, or the disk is full.
        Locked: another process did not release it in time.
        Corrupt: it is damaged.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        read_only: bool = False,
        outdated: bool = False,
        lock_wait_s: float = _LOCK_WAIT_S,
    ) -> None:
        if not path.is_file() and not create:
            raise NotFound(
                f"there is no knowledge base in {path.parent}: "
                "make one with `ku init` or `ku ingest FOLDER`, or name another with --kb"
            )
        self.path = path
        self.read_only = read_only
        self.lock = WriterLock(path.with_name("writer.lock"), wait_s=lock_wait_s)
        self._local, self._text_lengths = threading.local(), TextLengths()
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._changing = threading.RLock()
        self._closing = weakref.finalize(self, _close, self._connections, os.getpid())
        noted = self._last_noted()  # before the database, which is ahead of it
        try:
            with explained(path):
                self._local.connection = self.connect(create=create)
                self._check_format(create=create, outdated=outdated)
                self.lost = self.lost_commits(noted)
        except BaseException:
            self._closing()
            raise
        if self.lost:
            _log.warning("%s", self.lost)

    @property
    def connection(self) -> Connection:
        """The connection of the calling thread; `Closed` if the database is closed."""
        try:
            connection: Connection = self._local.connection
        except AttributeError:
            if not self._closing.alive:
                raise Closed(f"{self.path.parent} is closed: open it again") from None
            with explained(self.path):
                connection = self._local.connection = self.connect()
        return connection

    def connect(self, *, create: bool = False) -> Connection:
        """Open one more connection, which is closed with the database at the latest."""
        connection = connect(self.path, create=create, read_only=self.read_only)
        connection.text_lengths = self._text_lengths
        self._connections.add(connection)
        return connection

    def _check_format(self, *, create: bool, outdated: bool) -> None:
        connection, log = self.connection, self.path.with_name(self.path.name + "-wal")
        with snapshot(connection):
            application, tables, page_bytes, pages = connection.execute(
                "SELECT application_id, (SELECT count(*) FROM sqlite_master), page_size, "
                "page_count FROM pragma_application_id, pragma_page_size, pragma_page_count"
            ).fetchone()
            # SQLite fills a page that is cut off with zeros; missing pages may be in the log.
            has_log = log.exists() and log.stat().st_size > 0
            truncated = not has_log and self.path.stat().st_size < pages * page_bytes
        if (application, tables) == (0, 0):
            if self.read_only or not create:
                raise NotFound(
                    f"making the knowledge base in {self.path.parent} was not finished: run "
                    "`ku init`, which finishes it"
                )
            prepare_file(connection)
        elif application != APPLICATION_ID:
            raise not_a_base(self.path, "it was not made by ku-rag")
        elif truncated:
            raise damaged(self.path, "it ends too early")
        if tables == 0:
            schema.create(connection)
        with suppress(Outdated) if outdated else nullcontext():
            schema.check(connection, self.path.parent)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock that one writer of all processes has.

        Raises:
            ReadOnly: the base was opened for reading, or cannot be written to.
            Locked: another process is writing.
        """
        if self.read_only:
            raise ReadOnly(
                f"{self.path.parent} is opened read-only and cannot be changed: "
                "open it for writing, or copy it to a place that you may write to"
            )
        with self.lock:
            yield

    @contextmanager
    def change(self, *, large: bool = False) -> Iterator[Connection]:
        """One transaction: all of it is committed, or nothing.

        Changes of several threads follow each other; a nested call joins the outer one of its
        thread.

        Args:
            large: whether a single statement changes much of the file.

        Raises:
            ReadOnly: the base was opened for reading, or the disk is full.
            Locked: another process did not release it in time.
            Corrupt: it is damaged.
        """
        connection = self.connection
        if connection.in_transaction:
            yield connection
            return
        with self._changing, explained(self.path):
            # SQLite copies the pages that a statement changes, in case that it fails: into memory,
            # or in twice the time of a change into a file. Other temporary data are in files.
            journal = "FILE" if large else "MEMORY"
            connection.execute(
                f"PRAGMA temp_store = {journal}; BEGIN IMMEDIATE; PRAGMA temp_store = FILE"
            )
            number = None
            try:
                before = connection.total_changes()
                yield connection
                if connection.total_changes() != before:
                    noted, last = self._last_noted(), int(self.meta("commits") or 0)
                    if noted > last:
                        self.set_meta("lost", int(self.meta("lost") or 0) + noted - last)
                    # Larger than any number before, even if commits were lost.
                    number = max(last, noted) + 1
                    self.set_meta("commits", number)
                    # Distinguishes this state from another commit of the same number.
                    self.set_meta("state", os.urandom(8).hex())
                connection.execute("COMMIT")
            except BaseException:
                # What made the change fail may make this fail, too: then SQLite takes the change
                # back when the file is opened next.
                roll_back(connection)
                raise
            if number is not None:
                self.note_commit(number)

    def meta(self, key: str) -> Any:  # noqa: ANN401 - whatever JSON was put there
        """Return the JSON value stored under `key`, or None; `Corrupt` if it is not JSON."""
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        try:
            return json.loads(row[0]) if row else None
        except (TypeError, ValueError) as error:
            raise Corrupt(
                f"{self.path} holds something under {key!r} that is no JSON: "
                "restore it from a copy, or ingest into a new knowledge base"
            ) from error

    def set_meta(self, key: str, value: object) -> None:
        """Store a JSON value under `key`; part of the change it is called in."""
        with self.change() as connection:
            connection.execute("REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def lost_commits(self, noted: int | None = None) -> str | None:
        """Return a sentence when commits were lost, now or earlier, else None.

        `noted` is the number in `ku.commits`, read before the database was; None reads it.
        """
        noted = self._last_noted() if noted is None else noted
        last = int(self.meta("commits") or 0)
        missing = int(self.meta("lost") or 0) + max(0, noted - last)
        if not missing:
            return None
        return (
            f"{missing} commit{' was' if missing == 1 else 's were'} lost: ku.commits names commit "
            f"{noted}, ku.sqlite holds {last}. Restore ku.sqlite and ku.sqlite-wal from a copy, or "
            "ingest again what came last; `ku compact` accepts what there is"
        )

    def _last_noted(self) -> int:
        """The number in `ku.commits`; 0 where there is none that can be read."""
        with suppress(OSError, ValueError):
            number, stored = self.path.with_name(_COMMITS).read_bytes().split()
            if int(stored, 16) == zlib.crc32(number):
                return int(number)
        return 0

    def note_commit(self, number: int) -> None:
        """Write the number of a commit that is done to `ku.commits`."""
        file, digits = self.path.with_name(_COMMITS), b"%020d" % number
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(handle, b"%s %08x\n" % (digits, zlib.crc32(digits)))
            finally:
                os.close(handle)
        except OSError as error:
            _log.warning("%s cannot be written (%s)", file, error.strerror)

    def close(self) -> None:
        """Close all connections; the last one of all processes empties the log."""
        self._closing()
        self._local = threading.local()


def _close(connections: weakref.WeakSet[Connection], process: int) -> None:
    if os.getpid() != process:
        return  # a copy made by fork: the locks are not ours
    for connection in list(connections):
        with suppress(apsw.Error):  # in use by another thread, which closes it when it ends
            connection.close(True)
