"""Increments: what has changed in a base since a snapshot, for copies that only serve readers.

SQLite's session extension (https://sqlite.org/sessionintro.html) compares the tables with those of
the snapshot and writes the rows that differ as a patchset: new and changed rows as they are now,
deleted ones by their keys. A copy applies it in one transaction, so readers see the state before
or after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import orjson

from ku_rag.arguments import file_hash
from ku_rag.errors import BadInput, Mismatch, NotFound
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.store.compaction import sweep
from ku_rag.store.connection import Connection, explained, roll_back, snapshot
from ku_rag.store.content_rows import content_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, delete_file, write_durably
from ku_rag.transfer import atomic_folder
from ku_rag.transfer.snapshot import Snapshot, State, copy_pictures, read_state
from ku_rag.types import Serializable

FORMAT = 1
_MANIFEST, _ROWS = "manifest.json", "rows.patchset"
_ERASING = "ku.erasing"
"""Name of a file in a copy whose database may still contain what its base has erased."""


@dataclass(frozen=True, slots=True)
class Increment:
    """The manifest of an increment from one state to another; `rows` is the patchset's SHA-256."""

    since: State
    state: State
    rows: str
    sequences: Sequence[tuple[str, int]]
    pictures: int
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Applied(Serializable):
    """What was applied to a copy.

    Args:
        found: number of increments in the folder.
        erased: whether the log was emptied and deleted pictures were erased. False if others read
            an older state; then call again.
    """

    found: int
    increments: int
    pictures: int
    commit: int
    erased: bool


def write(database: Database, layout: Layout, folder: Path, since: Path, *, link: bool) -> Snapshot:
    """Write what has changed since a snapshot, if anything; see `KnowledgeBase.snapshot`."""
    started, earlier = time.monotonic(), Layout(since).database
    with (
        closing(Database(earlier, read_only=True)),  # raises if it cannot be read
        closing(database.connect()) as connection,
        explained(database.path),
    ):
        connection.execute("ATTACH ? AS since", (str(earlier),))
        with snapshot(connection):
            begin, end = read_state(connection, "since"), read_state(connection)
            if begin == end:
                return Snapshot(since=begin.commits, commit=end.commits)
            if begin.id != end.id or begin.commits >= end.commits:
                raise Mismatch(
                    f"{since} is at {begin}, the knowledge base at {end}: "
                    "expected an earlier commit of the same base; take a whole snapshot"
                )
            with atomic_folder.create(folder, what="an increment") as out:
                _write_rows(connection, out / _ROWS)
                copy = Layout(out)
                listed = "SELECT hash, file FROM images EXCEPT SELECT hash, file FROM since.images"
                pictures, left_out = copy_pictures(connection, listed, layout, copy, link=link)
                sequences = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
                increment = Increment(begin, end, file_hash(out / _ROWS), sequences, pictures)
                manifest = {"sha256": content_hash(orjson.dumps(increment)), "increment": increment}
                (out / _MANIFEST).write_bytes(orjson.dumps(manifest))
                size = copy.bytes()
    seconds = round(time.monotonic() - started, 3)
    return Snapshot(pictures, size, left_out, seconds, end.commits, begin.commits)


def _write_rows(connection: Connection, file: Path) -> None:
    tables = connection.column(
        "SELECT name FROM sqlite_master "
        "WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite_%'"
    )
    with file.open("wb") as out:
        write_piece: Any = out.write  # returns a number, which SQLite does not use
        for table in tables:
            with closing(apsw.Session(connection, "main")) as session:
                session.attach(table)
                session.diff("since", table)
                session.patchset_stream(write_piece)


def apply(
    database: Database, layout: Layout, indexes: Sequence[VectorIndex], folder: Path
) -> Applied:
    """Apply an increment, or those of a folder in order; see `KnowledgeBase.apply_increments`."""
    if not folder.is_dir():
        raise NotFound(f"{folder} is not a folder: name an increment, or a folder of increments")
    # Names that begin with a dot are of increments that are being written.
    paths = [folder, *(path for path in folder.iterdir() if not path.name.startswith("."))]
    read = [(path, _read(path)) for path in paths if (path / _MANIFEST).exists()]
    read.sort(key=lambda entry: entry[1].state.commits)
    done: list[Increment] = []
    with database.writing(), closing(database.connect()) as connection, explained(database.path):
        connection.execute("PRAGMA foreign_keys = OFF")  # rows change table by table
        state, erasing = read_state(connection), database.path.with_name(_ERASING)
        while following := [entry for entry in read if entry[1].since == state]:
            path, increment = following[-1]
            _apply(connection, layout, path, increment, erasing)
            state = increment.state
            database.note_commit(state.commits)
            done.append(increment)
        if erasing.exists():  # also of a call that was stopped
            for index in indexes:
                index.remove_files()
            connection.execute("VACUUM")
            delete_file(erasing)
        log = database.path.with_name(f"{database.path.name}-wal")
        erased = not (log.exists() and log.stat().st_size) or sweep(database, layout)
    for index in indexes:
        index.refresh()  # it acquires the lock to write the files of a large base
    ends = [increment.state for _, increment in read]
    own = [end for end in ends if end.id == state.id]
    if ends and state != (newest := (own or ends)[-1]):
        raise Mismatch(
            f"{layout.root} is at {state}; {folder} leads to {newest} but has no increment that "
            "begins there: expected all increments since the copy was made, and no other changes; "
            "otherwise replace the copy by a whole snapshot"
        )
    return Applied(len(read), len(done), sum(part.pictures for part in done), state.commits, erased)


def _apply(
    connection: Connection, layout: Layout, path: Path, increment: Increment, erasing: Path
) -> None:
    """Apply an increment; if the base was compacted, write the file `erasing` before the commit."""
    pruned = "SELECT value FROM meta WHERE key = 'changes_pruned'"
    before = connection.column(pruned)
    rows, pictures = path / _ROWS, sorted(Layout(path).images.glob("*/*"))
    try:
        if len(pictures) != increment.pictures or file_hash(rows) != increment.rows:
            raise _damaged(path)
        write_durably(_contents(pictures, path, layout))
        connection.execute("BEGIN IMMEDIATE")
        with rows.open("rb") as data:
            apsw.Changeset.apply(data.read, connection)
        connection.execute("DELETE FROM sqlite_sequence")
        connection.executemany("INSERT INTO sqlite_sequence VALUES (?, ?)", increment.sequences)
        if connection.column(pruned) != before:
            write_durably([(erasing, b"")])
        states = f"{increment.since.state} {increment.state.state}"  # the commit may fail
        write_durably([(layout.copied, states.encode())])
        connection.execute("COMMIT")
    except (OSError, apsw.AbortError) as error:
        raise _damaged(path, error) from error
    finally:
        roll_back(connection)


def _contents(pictures: Sequence[Path], path: Path, layout: Layout) -> Iterator[tuple[Path, bytes]]:
    for picture in pictures:
        data = picture.read_bytes()
        if content_hash(data) != picture.stem:
            raise _damaged(path)
        yield layout.root / picture.relative_to(path), data


def _read(path: Path) -> Increment:
    try:
        checked = json.loads((path / _MANIFEST).read_bytes())
        fields = checked["increment"]
        if checked["sha256"] != content_hash(orjson.dumps(fields)):
            raise _damaged(path)
        if fields["format"] != FORMAT:
            raise Mismatch(f"{path} was made by a later version of ku-rag: install that version")
        return Increment(**fields | {name: State(**fields[name]) for name in ("since", "state")})
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception | None = None) -> BadInput:
    if isinstance(error, PermissionError):
        return BadInput(f"{path} cannot be read ({error.strerror}): allow it to be read")
    return BadInput(
        f"{path} is incomplete or damaged: it was not applied; copy it again from where it was made"
    )
