"""A copy of the whole base, taken while others read and write.

The store is copied by `VACUUM INTO`: one read transaction that blocks no writer, and a copy without
free pages, so without deleted texts. A picture never changes under its name, so the pictures that
the copy names are copied after it. Caches are left out; a search rebuilds them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw

from ku_rag.store.connection import Connection, connect, explained, snapshot, write_checksums
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout
from ku_rag.transfer import atomic_folder
from ku_rag.types import Quarantined, Serializable

_UNWRITTEN = {apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE}
"""Errors of writing a copy; the base itself is only read."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of a base: its id, and the number and the random value of the last commit."""

    id: str
    commits: int
    state: str = ""

    def __str__(self) -> str:
        return f"commit {self.commits} ({self.state}) of base {self.id}"


@dataclass(frozen=True, slots=True)
class Snapshot(Serializable):
    """A snapshot: the number of its last commit, and of that at which an increment begins."""

    pictures: int = 0
    bytes: int = 0
    left_out: Sequence[Quarantined] = ()
    seconds: float = 0.0
    commit: int = 0
    since: int | None = None


def take(database: Database, layout: Layout, folder: Path, *, link: bool) -> Snapshot:
    """Copy a base into a folder that is new or empty; see `KnowledgeBase.snapshot`."""
    started = time.monotonic()
    with atomic_folder.create(folder, what="a snapshot") as out:
        copy = Layout(out)
        # While a transaction reads this state or an older one, `compact` deletes no picture of it.
        with closing(database.connect()) as reader, explained(database.path), snapshot(reader):
            reader.execute("SELECT count(*) FROM meta").fetchone()
            try:
                database.connection.execute("VACUUM INTO ?", (str(copy.database),))
                write_checksums(copy.database)
            except (apsw.FullError, apsw.IOError) as error:
                if getattr(error, "extendedresult", 0) in _UNWRITTEN:
                    raise OSError(str(error)) from error
                raise
            copy.copied.touch()
            with explained(copy.database), closing(connect(copy.database)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                listed = "SELECT hash, file FROM images ORDER BY hash"
                pictures, left_out = copy_pictures(connection, listed, layout, copy, link=link)
                state = read_state(connection)
        copy.copied.write_text(state.state)
        copy.images.mkdir(exist_ok=True)
        copy.indexes.mkdir()
        if layout.settings.exists():
            atomic_folder.copy_file(layout.settings, copy.settings)
        size = copy.bytes()
    return Snapshot(pictures, size, left_out, round(time.monotonic() - started, 3), state.commits)


def read_state(connection: Connection, schema: str = "main") -> State:
    """Return the state of the base in a schema of a connection."""
    rows = connection.execute(
        f"SELECT key, value FROM {schema}.meta WHERE key IN ('id', 'commits', 'state')"
    )
    return State(**{key: json.loads(value) for key, value in rows})


def copy_pictures(
    connection: Connection, listed: str, layout: Layout, copy: Layout, *, link: bool
) -> tuple[int, list[Quarantined]]:
    """Copy the pictures of the query `listed`; return their number, and those left out."""
    copied, left_out = 0, list[Quarantined]()
    for digest, file in connection.execute(listed):
        path, target = layout.image(file), copy.image(file)
        if path == target:  # linked in place: an absolute path
            if not path.is_file():
                left_out.append(Quarantined(digest, f"{path} is not there"))
        elif problem := atomic_folder.copy_picture(path, target, digest, link=link):
            left_out.append(problem)
        else:
            copied += 1
    return copied, left_out
