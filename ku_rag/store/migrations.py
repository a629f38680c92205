"""Migrations: a base of an earlier version gets the tables of this one.

Bases of 0.3.0 and later take the numbered steps of `schema.STEPS` that they lack. Before 0.3.0 the
numbers of schemas were used more than once: the tables of the first step are made and filled with
the columns that the old ones have. The pages of 0.1.0 have no checksums; its rows are copied into a
new file. What follows from other rows is derived again: `meta` has the key "stale" until then.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ku_rag.store import schema
from ku_rag.store.connection import Connection, connect, damaged, prepare_file
from ku_rag.store.content_rows import text_hash
from ku_rag.store.database import Database

_EXPRESSIONS = {
    ("chunks", "hash"): "text_hash(text)",
    ("vectors", "row"): "((kind = 'chunk') << 62) + (encoder << 40) + item",
}
"""Columns that earlier versions had in another form."""
_NOT_COPIED = {"changes", "names", "unit_chunks"}
"""Tables of derived rows, and what caches have missed: they are removed instead."""
_CHECKED = {
    "units": "id, name, kind, aliases, metadata, match",
    "sources": "uri, unit, origin, hash, declared",
    "chunks": "source, position, document, hash, text",
    "images": "hash, file, width, height, bytes",
    "vectors": "kind, item, encoder, vector",
    "relations": "source, relation, target, target_kind, information, condition",
}
"""Columns that the checksum of a row covers, in files whose pages have no checksums."""


def migrate(database: Database) -> None:
    """Take the missing steps, each in one transaction. The caller holds the writer lock."""
    connection = database.connection
    # A renamed table must not take along what refers to its name.
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON")
    if schema.version(connection) < schema.FIRST:
        with database.change(large=True):
            _convert(connection)
    for number, step in enumerate(schema.STEPS, schema.FIRST):
        if schema.version(connection) < number:
            with database.change(large=True):
                schema.take(connection, number, step)
    connection.execute("PRAGMA foreign_keys = ON; PRAGMA legacy_alter_table = OFF")


@contextmanager
def copied(path: Path, copy: Path) -> Iterator[None]:
    """Copy a database into a new file with page checksums; its derived rows are stale.

    Until the end of the block no process can open the database: whoever did would go on with the
    old file after the copy has replaced it. The old file is not changed, except that its log is
    emptied and removed.

    Raises:
        apsw.BusyError: another process uses the database.
        Corrupt: a row fails its checksum.
    """
    with closing(connect(copy, create=True)) as new:
        prepare_file(new)
        schema.create(new)
    with closing(connect(path)) as connection:
        _add_functions(connection)
        # Without a log: of two files with one name, neither may find the log of the other.
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        connection.execute("PRAGMA foreign_keys = OFF; ATTACH ? AS copy", (str(copy),))
        connection.execute("BEGIN EXCLUSIVE")
        _check_rows(connection, path)
        for table in _tables(connection, "copy"):
            _copy_rows(connection, table, old=table, name="copy")
        _finish(connection, "copy", connection.execute("SELECT * FROM main.sqlite_sequence"))
        connection.execute("COMMIT; DETACH copy")
        yield


def _convert(connection: Connection) -> None:
    """Give an older database the tables of the first step. Called inside a change."""
    _add_functions(connection)
    sequences = connection.execute("SELECT * FROM sqlite_sequence").fetchall()
    indexes = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL"
    for (index,) in connection.execute(indexes).fetchall():
        connection.execute(f"DROP INDEX {index}")
    connection.execute("DROP TABLE IF EXISTS word_places; DROP TABLE words")
    tables = _tables(connection, "main")
    for table in tables:
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    schema.take(connection, schema.FIRST, schema.STEPS[0])
    for table in tables:
        _copy_rows(connection, table, old=f"old_{table}")
        connection.execute(f"DROP TABLE old_{table}")
    _finish(connection, "main", sequences)


def _tables(connection: Connection, name: str) -> list[str]:
    """Return the tables of a schema of a connection, without those of the keyword index."""
    return connection.column(
        f"SELECT name FROM {name}.sqlite_master WHERE type = 'table' AND rootpage > 0 "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'words\\_%' ESCAPE '\\'"
    )


def _copy_rows(connection: Connection, table: str, *, old: str, name: str = "main") -> None:
    """Copy the rows of the table `old` into a table of the schema `name`."""
    if table in _NOT_COPIED:
        return
    there = connection.column("SELECT name FROM pragma_table_xinfo(?, 'main')", (old,))
    wanted = connection.column("SELECT name FROM pragma_table_info(?, ?)", (table, name))
    columns = [column for column in wanted if column in there]
    values = [_EXPRESSIONS.get((table, column), column) for column in columns]
    if columns:
        connection.execute(
            f"INSERT INTO {name}.{table} ({', '.join(columns)}) "
            f"SELECT {', '.join(values)} FROM main.{old} ORDER BY 1"
        )


def _finish(connection: Connection, name: str, sequences: Iterable[tuple[str, int]]) -> None:
    """Continue the row numbers, and mark caches and derived rows as out of date."""
    kept = [(table, last) for table, last in sequences if table not in ("vectors", "placed")]
    connection.execute(f"DELETE FROM {name}.changes; DELETE FROM {name}.sqlite_sequence")
    connection.executemany(f"INSERT INTO {name}.sqlite_sequence VALUES (?, ?)", kept)
    connection.executemany(
        f"REPLACE INTO {name}.meta VALUES (?, ?)",
        [("stale", "true"), ("changes_pruned", str(dict(kept).get("changes", 0)))],
    )
    connection.execute(f"INSERT OR IGNORE INTO {name}.meta VALUES ('language', '\"english\"')")


def _add_functions(connection: Connection) -> None:
    functions: dict[str, Any] = {"text_hash": text_hash, "row_checksum": _row_checksum}
    for name, function in functions.items():
        connection.create_scalar_function(name, function)


def _row_checksum(*fields: str | bytes | int | None) -> int:
    data = [field if isinstance(field, bytes) else str(field).encode() for field in fields]
    return zlib.crc32(b"".join(len(item).to_bytes(8, "little") + item for item in data))


def _check_rows(connection: Connection, path: Path) -> None:
    """Compare the checksums of rows; `Corrupt` if one differs."""
    for table, columns in _CHECKED.items():
        for (row,) in connection.execute(
            f"SELECT row FROM main.{table} WHERE checksum != row_checksum({columns})"
        ):
            raise damaged(path, f"row {row} of {table} fails its checksum")
