"""Ways to get durability wrong, done to the code on purpose: the tests must notice each of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from ku_rag.store import connection, layout
from ku_rag.store.connection import Connection
from ku_rag.store.database import Database


def commit_before_pictures() -> None:
    """Rows that name pictures are committed before the pictures are there."""
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
    """A change is committed in two halves: what comes after its first chunk is another one."""

    def split(made: Connection, sql: str) -> None:
        if sql.startswith("INSERT INTO chunks") and made.in_transaction:
            Connection.execute(made, "COMMIT")
            Connection.execute(made, "BEGIN IMMEDIATE")

    _before_statements(split)


def synchronous_off() -> None:
    """SQLite leaves it to the system when its writes reach the disk."""

    def off(made: Connection, sql: str) -> None:
        if sql.startswith("BEGIN"):
            Connection.execute(made, "PRAGMA synchronous = OFF")

    _before_statements(off)


def synchronous_normal() -> None:
    """SQLite syncs its log only when it folds it in."""

    def normal(made: Connection, sql: str) -> None:
        if sql.startswith("BEGIN"):
            Connection.execute(made, "PRAGMA synchronous = NORMAL")

    _before_statements(normal)


def unsynced_files() -> None:
    """Python's files are never synced, SQLite's are."""
    os.fsync = lambda _: None


def unsynced_folders() -> None:
    """Names are left to the system."""
    import stat

    sync = os.fsync

    def files_only(handle: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            sync(handle)

    os.fsync = files_only


def unsynced_caches() -> None:
    """Cache files are named by their header before they are on the disk."""
    sync = os.fsync

    def others_only(handle: int) -> None:
        if "/indexes/" not in os.readlink(f"/proc/self/fd/{handle}"):
            sync(handle)

    os.fsync = others_only


def trusted_leftovers() -> None:
    """A picture that is there already is taken for durable, whoever wrote it."""
    write = layout.write_durably

    def absent_only(files: Any) -> None:
        write((path, data) for path, data in files if not path.exists())

    _everywhere(write, absent_only)


def _everywhere(function: Callable[..., Any], instead: Callable[..., Any]) -> None:
    """Put another function in the place of one, wherever the package has imported it."""
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
    made.__name__: made
    for made in (
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
