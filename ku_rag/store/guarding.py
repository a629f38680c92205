"""Folding the log into the database file so that the guard knows of it, and asking the guard.

SQLite folds the log in by itself when it has grown, and when the last connection closes. Both are
kept from happening, because what is folded in is noted in the guard first.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ku_rag.store import guard, pages, wal
from ku_rag.store.guard import Damaged, Guard
from ku_rag.store.lock import WriterLock
from ku_rag.store.pages import PageFile

LONG_LOG_BYTES = 64 << 20
"""A log of this size is folded in after a commit."""

_log = logging.getLogger("ku_rag")


@dataclass(slots=True)
class Guarded:
    """One connection that writes, and the file beside it.

    Args:
        connection: to the database.
        file: its file.
        lock: the writer lock.
    """

    connection: sqlite3.Connection
    file: PageFile
    lock: WriterLock
    process: int
    tried_bytes: int = 0
    wrote: bool = False

    @property
    def path(self) -> Path:
        """The database file."""
        return self.file.path

    def fold_if_long(self) -> None:
        """Fold the log in if it has grown and nobody else holds the lock; problems can wait."""
        if wal.bytes_in_log(self.path) < self.tried_bytes + LONG_LOG_BYTES:
            return
        with self.lock.at_once() as ours:
            if ours:
                try:
                    emptied = self.fold()
                except (sqlite3.Error, OSError) as error:
                    _log.warning("the log of %s could not be folded in: %s", self.path, error)
                    emptied = False
                self.tried_bytes = 0 if emptied else wal.bytes_in_log(self.path)

    def fold(self, *, wait: bool = False) -> bool:
        """Fold the log into the file and empty it; the caller holds the writer lock.

        Args:
            wait: for readers of older states, as long as the connection waits for anything.

        Returns:
            Whether the log is empty now: False while others read an older state.

        Raises:
            sqlite3.Error, OSError: a file cannot be read or written; nothing is lost.
        """
        log = wal.read(self.path)
        known = self._known()
        if known and log.frames:
            guard.begin_fold(self.path, log.sums(), log.size)
        busy, frames, folded = self._checkpoint("PASSIVE")
        if known and frames != log.frames and frames > 0:
            log = self._as_folded(log, frames)
        whole = not busy and frames == folded
        if not whole and not wait:
            return False
        with self._waiting(wait):
            busy, *_ = self._checkpoint("TRUNCATE")
        if busy:
            return False
        if not known:
            self._make_guard()
        elif log.frames:
            guard.end_fold(self.path, log.size)
            if guard.grown(self.path, known):
                self._write_anew()
        return True

    def close(self) -> None:
        """Close the connection; the log is folded in before unless another process writes."""
        if os.getpid() != self.process:
            return  # a copy made by fork: the locks are not ours
        with pages.opening, self.lock.at_once() as ours:
            try:
                self._close(ours=ours)
            finally:
                self.file.close()

    def _close(self, *, ours: bool) -> None:
        connection = self.connection
        guarded = False
        with suppress(sqlite3.Error):
            connection.rollback()
        if ours:
            try:
                guarded = self._is_settled() or self.fold()
            except (sqlite3.Error, OSError) as error:
                _log.warning("the log of %s could not be folded in: %s", self.path, error)
        if guarded:
            connection.close()
            return
        # A reader that closes last cannot fold anything in, so SQLite does not either.
        last: sqlite3.Connection | None = None
        with suppress(sqlite3.Error):
            last = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
            last.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.close()
        if last:
            last.close()

    # ---- steps ---------------------------------------------------------------------------------

    def _is_settled(self) -> bool:
        """Whether there is nothing to fold in, nor a guard to be made that costs little."""
        if wal.bytes_in_log(self.path):
            return False
        small = self.path.stat().st_size <= pages.CHECKED_BYTES
        return not (self.wrote or small) or guard.knows_pages(self.path)

    def _known(self) -> Guard | None:
        """The guard, if it knows all pages."""
        try:
            found = guard.read(self.path)
        except Damaged as error:
            _log.warning("%s is made anew: %s", guard.guard_of(self.path), error)
            return None
        return found if found and found.whole else None

    def _as_folded(self, log: wal.Log, frames: int) -> wal.Log:
        """The part of the log that was folded in, noted if it is not what was noted before."""
        log = wal.read(self.path, most=frames)
        if log.frames < frames:
            _log.warning(
                "%s was damaged while it was in use (frame %d of %d): run `ku verify`",
                log.path, log.frames + 1, frames,
            )  # fmt: skip
        if log.frames:
            guard.begin_fold(self.path, log.sums(), log.size)
        return log

    def _checkpoint(self, mode: str) -> tuple[int, int, int]:
        busy, frames, folded = self.connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        return busy, frames, folded

    @contextmanager
    def _waiting(self, wait: bool) -> Iterator[None]:
        (before,) = self.connection.execute("PRAGMA busy_timeout").fetchone()
        if not wait:
            self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {before}")

    def _make_guard(self) -> None:
        """Take the file as it lies, where no guard tells what it must be."""
        (page_size,) = self.connection.execute("PRAGMA page_size").fetchone()
        last = _meta(self.connection).get("commits", 0)
        guard.write(
            self.path,
            Guard(
                page_size=page_size,
                commits=max(guard.last_commit(self.path), last),
                whole=True,
                sums=pages.as_it_lies(self.file, page_size),
            ),
        )

    def _write_anew(self) -> None:
        found = guard.read(self.path)
        if found and not found.between:
            guard.write(self.path, replace(found, whole=True))


def lost_commits(connection: sqlite3.Connection, known: int) -> str | None:
    """What to say when the database does not hold a commit that was done.

    Args:
        connection: to the database.
        known: the guard's number, read before anything of the database was.
    """
    meta = _meta(connection)
    last, lost = meta.get("commits", 0), meta.get("lost", 0)
    lost += max(0, known - last)
    if not lost:
        return None
    return (
        f"{lost} commit{_were(lost)} lost: ku.guard knows of commit {known}, ku.sqlite holds "
        f"{last}. Restore ku.sqlite and ku.sqlite-wal from a copy, or ingest again what came last; "
        "`ku compact` accepts what there is"
    )


def changed_pages(
    connection: sqlite3.Connection, file: PageFile, *, most_bytes: int | None = None
) -> str | None:
    """What to say when pages of the file are not what was written.

    Args:
        connection: to the database.
        file: its file.
        most_bytes: of a larger file only a random window of this size is read; then it is not said
            either what the pages hold, which takes reading all of it.
    """
    try:
        found = pages.differing(file, most_bytes=most_bytes)
    except Damaged as error:
        return f"ku.guard is damaged ({error}): the next change makes it anew"
    except OSError as error:
        return f"{file.path} cannot be read ({error.strerror}): check the disk"
    if not found:
        return None
    which = pages.ranges(found) + ("" if most_bytes else _held_by(connection, found))
    return (
        f"{len(found)} page{_were(len(found))} not written so in {file.path} (page {which}): what "
        "is found may lack something. Run `ku verify` for the extent; restore ku.sqlite from a "
        "copy, or save what is sound with `ku export --salvage DIR`; if nothing else is wrong, "
        "`ku compact` accepts what there is"
    )


def _were(number: int) -> str:
    return " was" if number == 1 else "s were"


def _held_by(connection: sqlite3.Connection, found: Sequence[int]) -> str:
    try:
        owners = dict(connection.execute("SELECT pageno, name FROM dbstat"))
    except sqlite3.Error:
        return ""
    names = dict.fromkeys(owners.get(page, "unused space") for page in found)
    return ", of " + ", ".join(names)


def count_commit(connection: sqlite3.Connection, database: Path) -> int:
    """Give the change that is being made its number, which no other had even if commits were lost.

    Called at the end of a change.
    """
    meta = _meta(connection)
    last, known = meta.get("commits", 0), guard.last_commit(database)
    if known > last:
        _put(connection, "lost", meta.get("lost", 0) + known - last)
    number = max(last, known) + 1
    _put(connection, "commits", number)
    return number


def accept(connection: sqlite3.Connection) -> None:
    """Say no more that commits were lost. Called inside a change."""
    connection.execute("DELETE FROM meta WHERE key = 'lost'")


def _put(connection: sqlite3.Connection, key: str, number: int) -> None:
    connection.execute("REPLACE INTO meta VALUES (?, ?)", (key, str(number)))


def _meta(connection: sqlite3.Connection) -> Mapping[str, int]:
    rows = connection.execute("SELECT key, value FROM meta WHERE key IN ('commits', 'lost')")
    return {key: int(value) for key, value in rows if str(value).isdecimal()}
