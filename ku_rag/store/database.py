"""One connection to the truth: how it is opened, how a change is made, how damage is noticed."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ku_rag.errors import Corrupt, KuError, Locked, Mismatch, NotFound, ReadOnly
from ku_rag.store import guard, guarding, pages
from ku_rag.store.guarding import Guarded
from ku_rag.store.lock import WriterLock
from ku_rag.store.schema import SCHEMA, check_schema, migrate

_PAGE_BYTES = 8192
_BUSY_MS = 10_000
_CACHE_KIB = 128 << 10  # the vectors of 100,000 chunks
_POLL_S = 0.02
_PRIMARY = 0xFF  # the lower byte of SQLite's error codes; the rest says more than is needed here
_LOCK_WAIT_S = 10.0
_APPLICATION_ID = 0x4B55_5241  # "KURA": tells a knowledge base from any other SQLite file

_log = logging.getLogger("ku_rag")


class Database:
    """The SQLite file of a knowledge base.

    Args:
        path: the file.
        create: make it if it is not there.
        read_only: open for reading; a folder that cannot be written to is read as it lies.
        lock_wait_s: seconds to wait for another writer.

    Attributes:
        connection: to SQLite.
        lock: the writer lock.
        doubts: what the guard says against the file, one sentence each; they were logged, too.

    Raises:
        NotFound: there is no knowledge base at `path`, or making it was not finished.
        Mismatch: the file is something else, or of a newer schema.
        ReadOnly: it cannot be written to, or the disk is full.
        Locked: another process did not let go of it in time.
        Corrupt: it is damaged.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        read_only: bool = False,
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
        self.doubts: tuple[str, ...] = ()
        known = guard.last_commit(path)  # before anything of the database, which is ahead of it
        with pages.opening, explained(path):
            self.connection = _connect(path, create=create, read_only=read_only)
            self._file = pages.PageFile(path)
        self._guarded = Guarded(self.connection, self._file, self.lock, os.getpid())
        closing = _close_reader if read_only else Guarded.close
        self._closing = weakref.finalize(self, closing, self._guarded)
        try:
            self._look(known)
            with self.explained():
                self._check_kind(create=create)
                self.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        except BaseException:
            self._closing()
            raise

    def _look(self, known: int) -> None:
        """Ask the guard whether the file is what was written, and say if not."""
        try:
            lost = guarding.lost_commits(self.connection, known)
        except sqlite3.Error:
            lost = None  # not finished, not ours or damaged, which is found out next
        # Of an older copy of the file, which misses commits, all pages may differ.
        doubt = lost or guarding.changed_pages(
            self.connection, self._file, most_bytes=pages.CHECKED_BYTES
        )
        if doubt:
            self.doubts = (doubt,)
            _log.warning("%s", doubt)

    def problems(self) -> Iterator[str]:
        """What the guard says against the file, all pages read."""
        known = guard.last_commit(self.path)
        if lost := guarding.lost_commits(self.connection, known):
            yield lost
        if changed := guarding.changed_pages(self.connection, self._file):
            yield changed

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say in one sentence what SQLite met; where the file is damaged, whatever was met.

        Raises:
            ReadOnly, Locked, Corrupt: see `explained`.
        """
        try:
            with explained(self.path):
                yield
        except KuError:
            raise
        except Exception as error:  # rows that are damaged may hold anything
            if not self.doubts:
                raise
            raise damaged(self.path, str(error)) from error

    def _check_kind(self, *, create: bool) -> None:
        connection = self.connection
        try:
            application, tables = connection.execute(
                "SELECT application_id, (SELECT count(*) FROM sqlite_master) "
                "FROM pragma_application_id"
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & _PRIMARY != sqlite3.SQLITE_NOTADB:
                raise
            raise _not_a_base(self.path, str(error)) from error
        if (application, tables) == (0, 0):
            if self.read_only or not create:
                raise NotFound(
                    f"making the knowledge base in {self.path.parent} was not finished: run "
                    "`ku init`, which finishes it"
                )
            _prepare_file(connection)
        elif application != _APPLICATION_ID:
            raise _not_a_base(self.path, "it was not made by ku-rag")
        if self.read_only:
            if check_schema(connection) < SCHEMA:
                raise Mismatch(
                    f"{self.path.parent} has an older schema and is opened read-only: "
                    "open it once for writing, which brings it up to date"
                )
        else:
            if not self.doubts and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                # Made by `VACUUM INTO`, say. A guard would know nothing of what was written so.
                with suppress(OSError):
                    guard.write(self.path, guard.Guard(commits=guard.last_commit(self.path)))
                _set_journal_mode(connection)
            migrate(connection, application=_APPLICATION_ID)

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it lands, or nothing does. Nested calls join the outer one.

        Raises:
            ReadOnly: the base was opened for reading, or the disk is full.
            Locked: another process did not let go of it in time.
            Corrupt: it is damaged.
        """
        connection = self.connection
        if connection.in_transaction:
            yield connection
            return
        if self.read_only:
            raise ReadOnly(
                f"{self.path.parent} is opened read-only and cannot be changed: "
                "open it for writing, or copy it to a place that you may write to"
            )
        number = None
        with self.explained():
            connection.execute("BEGIN IMMEDIATE")
            try:
                before = connection.total_changes
                yield connection
                if connection.total_changes != before:
                    number = guarding.count_commit(connection, self.path)
                connection.execute("COMMIT")
            except BaseException:
                # What made the change fail may make this fail, too: then SQLite takes the change
                # back when the file is opened next.
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise
        if number is not None:
            # Only now: a guard that is ahead means that a commit was lost.
            guard.note_commit(self.path, number)
            self._guarded.wrote = True
            self._guarded.fold_if_long()

    def fold(self, *, wait: bool = False) -> bool:
        """Fold the log into the file; the caller holds the writer lock.

        Args:
            wait: for others that read older states.

        Returns:
            Whether the log is empty now.

        Raises:
            ReadOnly: the disk is full, or fails.
        """
        with self.explained():
            return self._guarded.fold(wait=wait)

    def meta(self, key: str) -> Any:  # noqa: ANN401 - whatever JSON was put there
        """The value kept under `key`, or None.

        Raises:
            Corrupt: it is no JSON.
        """
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        try:
            return json.loads(row[0]) if row else None
        except (TypeError, ValueError) as error:
            raise Corrupt(
                f"{self.path} keeps something under {key!r} that is no JSON: the file was damaged; "
                "restore it from a copy, or ingest into a new knowledge base"
            ) from error

    def set_meta(self, key: str, value: object) -> None:
        """Keep a JSON value under `key`; part of the change it is called in."""
        with self.change() as connection:
            connection.execute("REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def version(self) -> int:
        """A number that changes when another connection has committed."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connection; the log is folded into the file unless another process writes."""
        self._closing()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say in one sentence what SQLite met, whatever statement met it.

    Args:
        path: the SQLite file.

    Raises:
        ReadOnly: it cannot be written to, or the disk is full or fails.
        Locked: another process did not let go of it in time.
        Corrupt: it is damaged.
    """
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _explain(error, path) from error


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one state of the base, whatever is committed meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


def checksum(*fields: str | bytes | int | None) -> int:
    """CRC-32 over the fields of a row, each with its length, so that none can run into the next."""
    return zlib.crc32(b"".join(map(framed, fields)))


def framed(field: str | bytes | int | None) -> bytes:
    """A field as `checksum` takes it in."""
    data = field if isinstance(field, bytes) else str(field).encode()
    return len(data).to_bytes(8, "little") + data


def check(stored: int, *fields: str | bytes | int | None, what: str) -> None:
    """Compare a stored checksum with its fields.

    Raises:
        Corrupt: they differ.
    """
    if checksum(*fields) != stored:
        raise Corrupt(
            f"{what} fails its checksum: the file was damaged after it was written; "
            "run `ku verify` for the extent, and ingest its source again; "
            "`ku export --salvage DIR` saves what is sound"
        )


def _connect(path: Path, *, create: bool, read_only: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    if not read_only:
        connection = _open(f"{uri}?mode={'rwc' if create else 'rw'}")
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA wal_autocheckpoint = 0")  # see `guarding`
        except sqlite3.DatabaseError as error:
            connection.close()
            if error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_NOTADB:
                raise _not_a_base(path, str(error)) from error
            raise
        return connection
    connection = _open(f"{uri}?mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # A log cannot be opened where nothing may be written; without one the file is whole.
        connection.close()
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size > 0:
            raise ReadOnly(
                f"{path.parent} has changes that were not folded in and cannot be written to: "
                "open it once as its owner, then read it"
            ) from None
        return _open(f"{uri}?mode=ro&immutable=1")
    except sqlite3.DatabaseError:
        return connection  # not a database: the caller says so
    return connection


def _open(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
    )
    connection.execute("PRAGMA temp_store = FILE")
    return connection


def _prepare_file(connection: sqlite3.Connection) -> None:
    """What has to be said of a new file before its first transaction."""
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
    _set_journal_mode(connection)


def _set_journal_mode(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite does not wait here of itself when another process does the same.
            busy = error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return


def _explain(error: sqlite3.DatabaseError, path: Path) -> Exception:
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY:
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return ReadOnly(
                f"{path.parent} cannot be written to ({error}): "
                "check its permissions, or use it read-only"
            )
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return ReadOnly(
                f"{path} could not be written or read ({error}): what was committed before is "
                "safe; make room on the disk, or check it, and do it again"
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Locked(
                f"another process uses {path} and did not let go of it within "
                f"{_BUSY_MS // 1000} s: nothing was changed; wait for it, and do it again"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, str(error))
    return error


def is_doubtful(path: Path) -> bool:
    """Whether pages of a database file that cannot be opened are not what was written."""
    try:
        with pages.opening:
            file = pages.PageFile(path)
            try:
                return bool(pages.differing(file))
            finally:
                file.close()
    except (OSError, guard.Damaged):
        return False


def damaged(path: Path, why: str) -> Corrupt:
    """The error to raise where a database file is damaged."""
    return Corrupt(
        f"{path} is damaged ({why}): nothing was changed; run `ku verify` for the extent, then "
        "restore it from a copy, or save what is sound with `ku export --salvage DIR` and import "
        "it into a new knowledge base"
    )


def _close_reader(guarded: Guarded) -> None:
    if os.getpid() != guarded.process:
        return
    with pages.opening:
        guarded.connection.close()
        guarded.file.close()


def _not_a_base(path: Path, why: str) -> Mismatch:
    return Mismatch(
        f"{path} is not a knowledge base ({why}): "
        "name the folder that `ku init` made with --kb, or make a new one"
    )
