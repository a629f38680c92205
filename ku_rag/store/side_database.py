"""A small SQLite file beside ku.sqlite: with page checksums, and without a lock of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from ku_rag.errors import Corrupt, Mismatch
from ku_rag.store.connection import Connection, connect, explained, prepare_file, roll_back


class SideDatabase:
    """A database in a file of its own; threads and processes may share it.

    Args:
        file: the file; it is created by the first change.
        schema: the statements that create its tables where they are missing.
        remedy: what to do if it is damaged, such as "delete this file".
        read_only: only read.
    """

    def __init__(self, file: Path, schema: str, remedy: str, *, read_only: bool = False) -> None:
        self.file, self._schema, self._remedy = file, schema, remedy
        self._read_only, self._turn = read_only, threading.Lock()
        self._connection: Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One transaction, which holds the lock of writers unless the database is only read.

        Raises:
            ReadOnly: the disk is full or fails, or the folder is read-only.
            Locked: another process did not release it in time.
            Corrupt: the file is damaged.
        """
        with self._use() as connection:
            connection.execute("BEGIN" if self._read_only else "BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise

    def compact(self) -> None:
        """Erase deleted rows from the file, if there is one, or raise `Locked`."""
        if self.file.exists():
            with self._use() as connection:
                connection.execute("VACUUM")
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        """Close the connection."""
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _use(self) -> Iterator[Connection]:
        try:
            with self._turn, explained(self.file):
                yield self._open()
        except (Corrupt, Mismatch) as error:
            if not str(error).startswith(str(self.file)):
                raise  # of the base, which the transaction reads
            reason = "a page fails its checksum"
            raise Corrupt(f"{self.file} is damaged ({reason}): {self._remedy}") from error

    def _open(self) -> Connection:
        if self._connection is None or not self.file.exists():  # the folder may be deleted
            writes = not self._read_only
            connection = connect(self.file, create=writes, read_only=self._read_only)
            if writes and connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
                prepare_file(connection)
                connection.execute(f"BEGIN IMMEDIATE; {self._schema}; COMMIT")
            self._connection = connection
        return self._connection
