"""Verification: rows against checksums, counts and references, and everything derived again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import apsw

from ku_rag.arguments import file_hash
from ku_rag.errors import Corrupt
from ku_rag.indexes import inverted, keywords
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.ingest import assembly
from ku_rag.store import facts, relations, schema, unit_records
from ku_rag.store.connection import Connection, snapshot
from ku_rag.store.content_rows import text_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import Kind, places
from ku_rag.types import Serializable

_SAMPLED = 2_000
"""Units, and chunks, whose facts are read again."""
_SAMPLE = (
    "SELECT row FROM {table} ORDER BY iif((SELECT count(*) FROM {table}) > ?1, random(), row) "
    "LIMIT ?1"
)
_MANIFEST = frozenset({"id", "encoder", "segmenter", "max_tokens", "language"})
_CHECKS = (
    (
        "SELECT uri, (SELECT count(*) FROM chunks WHERE source = s.row) AS found, chunks "
        "FROM sources s WHERE found != chunks",
        "{} has {} chunks, {} were stored of it",
    ),
    (
        "SELECT uri, (SELECT count(*) FROM unit_images WHERE source = s.row) AS found, images "
        "FROM sources s WHERE found != images",
        "{} has {} images, {} were stored of it",
    ),
    (
        "SELECT s.uri, l.unit FROM unit_images l JOIN sources s ON s.row = l.source "
        "WHERE l.unit IS NOT s.unit",
        "a picture of {} is listed under unit row {}, which is not its unit",
    ),
    ("SELECT row FROM units WHERE row NOT IN (SELECT unit FROM sources WHERE unit IS NOT NULL)",
     "unit row {} has no source"),
    ("SELECT row FROM images WHERE row NOT IN (SELECT image FROM unit_images)",
     "image row {} has no source"),
    ("SELECT item FROM vectors WHERE kind = 'chunk' AND item NOT IN (SELECT row FROM chunks)",
     "there is a vector of chunk {}, which does not exist"),
    ("SELECT item FROM vectors WHERE kind = 'image' AND item NOT IN (SELECT row FROM images)",
     "there is a vector of image {}, which does not exist"),
    ("SELECT row FROM vectors WHERE encoder NOT IN (SELECT row FROM encoders)",
     "vector row {} was made by an encoder that is not there"),
    (
        "SELECT v.row, length(v.vector), e.dim FROM vectors v JOIN encoders e "
        "ON e.row = v.encoder WHERE length(v.vector) != 2 * e.dim",
        "vector row {} has {} bytes, its encoder makes {} halves",
    ),
    ("SELECT row FROM entities WHERE row NOT IN (SELECT head FROM relations) "
     "AND row NOT IN (SELECT tail FROM relations WHERE tail IS NOT NULL)",
     "entity row {} is in no relation"),
)  # fmt: skip
"""Queries that return rows only if the store is inconsistent, each with its message."""


@dataclass(frozen=True, slots=True)
class IntegrityReport(Serializable):
    """What was found: one sentence for each problem, and the number of rows of each kind."""

    problems: tuple[str, ...]
    counts: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku verify --json` prints."""
        return {"ok": self.ok, **Serializable.to_dict(self)}


def verify(
    database: Database,
    layout: Layout,
    encoders: Mapping[Kind, int],
    indexes: Sequence[VectorIndex],
) -> IntegrityReport:
    """Check every row, picture, list and index file; no damage stops the check.

    Every chunk and every image needs a vector of its encoder; `encoders` has their rows.
    """
    connection = database.connection
    problems = [*filter(None, [database.lost_commits()])]
    # A command to the keyword index counts as a write, so it stands outside the one state read.
    problems += _guard("the keyword index", _command(connection))
    with snapshot(connection):
        for what, findings in (
            ("the schema", _schema(connection)),
            ("the structure of the file", _structure(database)),
            ("the manifest", _manifest(database)),
            ("texts", _texts(connection)),
            ("the keyword index", keywords.differences(connection)),
            ("vectors", _missing_vectors(connection, encoders)),
            ("relations", relations.differences(connection)),
            ("pictures", _pictures(connection, layout)),
            ("units", assembly.differences(connection)),
            ("facts", _facts(connection)),
            ("the lists of units", inverted.differences(connection)),
            *(("a table", _wrong_rows(connection, *check)) for check in _CHECKS),
        ):
            problems += _guard(what, findings)
    for index in indexes:
        problems += _guard("a cache", index.problems())
    try:
        counts = unit_records.counts(connection)
    except apsw.Error as error:
        return IntegrityReport((*problems, f"the tables cannot be counted: {error}"), {})
    return IntegrityReport(tuple(problems), counts)


def _guard(what: str, findings: Iterable[str]) -> Iterator[str]:
    """Yield the findings of a check, and the error that ends it early."""
    try:
        yield from findings
    except Exception as error:  # rows that are damaged may hold anything
        yield f"{what} cannot be read any further: {error}"


def _schema(connection: Connection) -> Iterator[str]:
    # SQLite makes tables of statistics by itself when it is asked to analyse.
    listed = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
    stored = set(connection.execute(listed))
    with closing(schema.expected()) as fresh:
        expected = set(fresh.execute(listed))
    for kind, name, _ in sorted(expected - stored):
        yield f"{kind} {name} is missing, or not as this version of ku-rag makes it"
    for kind, name in sorted({row[:2] for row in stored} - {row[:2] for row in expected}):
        yield f"{kind} {name} does not belong to a knowledge base"


def _wrong_rows(connection: Connection, sql: str, message: str) -> Iterator[str]:
    for row in connection.execute(sql):
        yield message.format(*row)


def _structure(database: Database) -> Iterator[str]:
    connection = database.connection
    # Pages in a connection's cache are not read again: a new one reads all that are in use.
    with closing(database.connect()) as reading:
        for (message,) in reading.execute("PRAGMA integrity_check(20)"):
            if message != "ok":
                yield f"SQLite: {message}"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"{table} row {row} points to a row of {parent} that is not there"
    for table, sql in connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    ).fetchall():
        if "AUTOINCREMENT" not in (sql or ""):
            continue
        last, sequence = connection.execute(
            f"SELECT coalesce(max(rowid), 0), "
            f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0) FROM {table}"
        ).fetchone()
        if sequence < last:
            yield f"{table} holds row {last} but would go on after {sequence}: numbers come again"


def _manifest(database: Database) -> Iterator[str]:
    keys = set(database.connection.column("SELECT key FROM meta"))
    for key in keys:
        try:
            database.meta(key)
        except Corrupt as error:
            yield str(error)
    for key in _MANIFEST - keys:
        yield f"the manifest does not say {key!r}"


def _command(connection: Connection) -> Iterator[str]:
    try:
        # A command of FTS5, written as an insert: it changes nothing and fails on damage.
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except (apsw.ReadOnlyError, apsw.BusyError):
        return
    except apsw.Error as error:
        yield f"the keyword index is damaged: {error}"


def _texts(connection: Connection) -> Iterator[str]:
    for row, digest, text in connection.execute("SELECT row, hash, text FROM chunks"):
        if not isinstance(text, str) or text_hash(text) != digest:
            yield f"chunk {row} is not the text that was stored"


def _missing_vectors(connection: Connection, encoders: Mapping[Kind, int]) -> Iterator[str]:
    for kind, encoder in encoders.items():
        for (row,) in connection.execute(
            f"SELECT row FROM {kind}s WHERE row NOT IN "
            "(SELECT item FROM vectors WHERE row BETWEEN ? AND ?)",
            places(kind, encoder),
        ):
            yield f"{kind} {row} has no vector"


def _facts(connection: Connection) -> Iterator[str]:
    """Compare the facts of a sample of units and chunks with what these state."""
    for (label,) in connection.execute(
        "SELECT label FROM labels WHERE row NOT IN (SELECT label FROM facts)"
    ):
        yield f"no fact has the label {label!r}"
    units, chunks = (
        connection.column(_SAMPLE.format(table=table), (_SAMPLED,)) for table in ("units", "chunks")
    )
    yield from facts.differences(connection, units, chunks)


def _pictures(connection: Connection, layout: Layout) -> Iterator[str]:
    for digest, file in connection.execute("SELECT hash, file FROM images"):
        path = layout.image(file)
        try:
            current = file_hash(path)
        except OSError as error:
            yield f"picture {path} cannot be read: {error.strerror}"
            continue
        if current != digest:
            yield f"picture {path} is not what was stored: its content has changed"
