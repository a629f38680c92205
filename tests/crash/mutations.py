"""Deliberate durability errors: the tests must detect each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from ku_rag.store import connection, layout
from ku_rag.store.connection import Connection
from ku_rag.store.database import Database


def commit_before_pictures() -> None:
    """Rows that reference pictures are committed before the pictures are written."""
    late: list[list[Any]] = []
    write, change = layout.write_durably, Database.change

    def later(files: Any) -> None:
        late.append(list(files))

    def changing(self: Database) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def managed() -> Any:
            with change(self) as connection:
                yield connection
            if not self.connection.in_transaction:
                while late:
                    write(late.pop())

        return managed()

    _everywhere(write, later)
    Database.change = changing


def split_change() -> None:
    """A change is committed in two parts: after its first chunk, a new change begins."""

    def split(database: Connection, sql: str) -> None:
        if sql.startswith("INSERT INTO chunks") and database.in_transaction:
            Connection.execute(database, "COMMIT")
            Connection.execute(database, "BEGIN IMMEDIATE")

    _before_statements(split)


def synchronous_off() -> None:
    """SQLite leaves it to the system when its writes reach the disk."""

    def off(database: Connection, sql: str) -> None:
        if sql.startswith("BEGIN"):
            Connection.execute(database, "PRAGMA synchronous = OFF")

    _before_statements(off)


def synchronous_normal() -> None:
    """SQLite syncs its log only at a checkpoint."""

    def normal(database: Connection, sql: str) -> None:
        if sql.startswith("BEGIN"):
            Connection.execute(database, "PRAGMA synchronous = NORMAL")

    _before_statements(normal)


def unsynced_files() -> None:
    """Files of Python are never synced; those of SQLite are."""
    os.fsync = lambda _: None


def unsynced_folders() -> None:
    """Changes of folders are left to the system."""
    import stat

    sync = os.fsync

    def files_only(handle: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            sync(handle)

    os.fsync = files_only


def unsynced_caches() -> None:
    """A header names cache files before they are on the disk."""
    sync = os.fsync

    def others_only(handle: int) -> None:
        if "/indexes/" not in os.readlink(f"/proc/self/fd/{handle}"):
            sync(handle)

    os.fsync = others_only


def trusted_leftovers() -> None:
    """A picture that exists already is assumed durable, whoever wrote it."""
    write = layout.write_durably

    def absent_only(files: Any) -> None:
        write((path, data) for path, data in files if not path.exists())

    _everywhere(write, absent_only)


def _everywhere(function: Callable[..., Any], instead: Callable[..., Any]) -> None:
    """Replace a function wherever the package has imported it."""
    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("ku_rag.") and vars(module).get(function.__name__) is function
    ]
    assert len(users) > 1, f"nobody uses {function.__name__}"
    for module in users:
        setattr(module, function.__name__, instead)


def _before_statements(act: Callable[[Connection, str], None]) -> None:
    class Mutated(connection.Connection):
        def execute(self, sql: str, *args: Any) -> Any:
            act(self, sql)
            return super().execute(sql, *args)

        def executemany(self, sql: str, *args: Any) -> Any:
            act(self, sql)
            return super().executemany(sql, *args)

    connection.Connection = Mutated


APPLY: dict[str, Callable[[], None]] = {
    mutation.__name__: mutation
    for mutation in (
        commit_before_pictures,
        split_change,
        synchronous_off,
        synchronous_normal,
        unsynced_files,
        unsynced_folders,
        unsynced_caches,
        trusted_leftovers,
    )
}
