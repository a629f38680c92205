"""Connections to the SQLite file: page checksums, pragmas, parameters, and what errors mean.

Every page ends with a checksum of 8 bytes, which the VFS `cksumvfs` computes on writing and
verifies on reading (https://sqlite.org/cksumvfs.html). It is part of apsw's wheel.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import apsw.sqlite_extra
import numpy as np
import orjson
from numpy.typing import NDArray

from ku_rag.errors import Closed, Corrupt, Locked, Mismatch, ReadOnly
from ku_rag.store.layout import Layout

if TYPE_CHECKING:
    from ku_rag.store.text_lengths import TextLengths
    from ku_rag.store.vocabulary import Vocabulary

APPLICATION_ID = 0x4B55_5241  # "KURA": tells a knowledge base from any other SQLite file
_VFS = "cksmvfs"
PAGE_BYTES = 8192
CHECKSUM_BYTES = 8
_BUSY_MS = 10_000
_POLL_S = 0.02
_CACHE_KIB = 128 << 10  # the vectors of 100,000 chunks
LOG_BYTES = 64 << 20
"""A commit that finds a longer write-ahead log copies it into the database."""
_DAMAGED = {apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS}

SLICE = 2048
"""So many rows go into one statement."""

Rows = NDArray[np.int64]
"""Row numbers, ascending, each once."""

_loading = threading.Lock()


class Connection(apsw.Connection):
    """A connection to SQLite."""

    vocabulary: Vocabulary | None = None  # of the run of changes that uses it
    text_lengths: TextLengths  # shared by the connections of a database

    if TYPE_CHECKING:  # rows hold what the schema says, which apsw's own types cannot know

        def execute(self, *args: Any, **named: Any) -> Any:  # noqa: ANN401
            """Run statements; see `apsw.Connection.execute`."""

    def column(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return the values of a query with one column."""
        return [value for (value,) in self.execute(query, values)]


def connect(path: Path, *, create: bool = False, read_only: bool = False) -> Connection:
    """Open a connection to a database file, verifying page checksums.

    A file on a medium that cannot be written to is opened immutable, unless it is a copy.

    Raises:
        apsw.Error: it cannot be opened.
        ReadOnly: its log cannot be read without writing.
    """
    with _loading:
        if _VFS not in apsw.vfs_names():
            with closing(apsw.Connection(":memory:")) as other:
                apsw.sqlite_extra.load(other, "cksumvfs")
    if read_only:
        connection = _open_for_reading(path)
    else:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        connection = _open(str(path), flags)
        if Layout(path.parent).copied.exists():
            # Servers without write permission can read the log only while its two files exist.
            keep = ctypes.c_int(1)
            connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))
            connection.execute(
                "PRAGMA journal_size_limit = 0"
            )  # the last connection empties the log
    connection.set_busy_timeout(_BUSY_MS)
    connection.create_scalar_function("casefold", _casefold, 1, deterministic=True)
    connection.execute(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = FILE; "
        f"PRAGMA cache_size = -{_CACHE_KIB}; "
        f"PRAGMA wal_autocheckpoint = {LOG_BYTES // PAGE_BYTES}"
    )
    return connection


def _casefold(*texts: object) -> str | None:
    (text,) = texts
    return text.casefold() if isinstance(text, str) else None


def _open(name: str, flags: int) -> Connection:
    connection = Connection(name, flags=flags, vfs=_VFS)
    # Another process may be making a file that is still empty: SQLite then reads its first page in
    # the default size, and the checksum of a part of a page is wrong.
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    return connection


def _open_for_reading(path: Path) -> Connection:
    connection = _open(str(path), apsw.SQLITE_OPEN_READONLY)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.IOError) as error:
        if getattr(error, "extendedresult", 0) in _DAMAGED:
            return connection
        # SQLite needs a -shm file to read a log; without a log the file is complete.
        connection.close()
        log = path.with_name(path.name + "-wal")
        if Layout(path.parent).copied.exists() or (log.exists() and log.stat().st_size > 0):
            raise ReadOnly(
                f"{path.parent} cannot be written to, and has commits in {log.name} or, as a copy, "
                "may get them: open it once as its owner, then read it"
            ) from None
        uri = f"{path.absolute().as_uri()}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return _open(uri, flags)
    except apsw.Error:
        pass  # no database, or damaged: the next statement reports it
    return connection


def prepare_file(connection: Connection) -> None:
    """Set the format of a new file, before its first transaction."""
    connection.reserve_bytes("main", CHECKSUM_BYTES)
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            # SQLite does not wait by itself here when another process does the same.
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return


def has_checksums(connection: Connection) -> bool:
    """Return whether the pages of a file are as `prepare_file` makes them; 0.1.0 made others."""
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return (page_bytes, connection.reserve_bytes("main")) == (PAGE_BYTES, CHECKSUM_BYTES)


def write_checksums(path: Path) -> None:
    """Write each page of a file again, with its checksum.

    `cksumvfs` computes checksums once the first page of a file is written. `VACUUM INTO` writes the
    pages that its cache has no room for before that one.

    Raises:
        apsw.Error: the file cannot be written.
    """
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    file = apsw.VFSFile(_VFS, str(path), [flags, 0])
    try:
        with path.open("rb") as pages:
            for number, page in enumerate(iter(partial(pages.read, PAGE_BYTES), b"")):
                file.xWrite(page, number * PAGE_BYTES)
        file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Read one state of the database, whatever is committed meanwhile."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        roll_back(connection)


def roll_back(connection: Connection) -> None:
    """End a transaction without its changes; SQLite may have done so itself after an error."""
    with suppress(apsw.Error):
        connection.execute("ROLLBACK")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite, and of threads that cannot start, into errors that say what to do.

    Raises:
        ReadOnly: it cannot be written to, or the disk is full or fails.
        Locked: another process holds it.
        Corrupt: it is damaged.
        Mismatch: it is no SQLite database.
        MemoryError: SQLite could not allocate memory, or there is none for another thread.
    """
    try:
        yield
    except apsw.Error as error:
        raise _explain(error, path) from error
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
        raise MemoryError(f"the system has no room for another thread: {error}") from error


def not_a_base(path: Path, reason: str) -> Mismatch:
    """The error for a file that is no knowledge base."""
    return Mismatch(
        f"{path} is not a knowledge base ({reason}): "
        "name the folder that `ku init` made with --kb, or make a new one"
    )


def _explain(error: apsw.Error, path: Path) -> Exception:
    if getattr(error, "extendedresult", 0) in _DAMAGED:
        return damaged(
            path,
            "a page fails its checksum: it is damaged, or a program other than ku-rag wrote it",
        )
    match error:
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return ReadOnly(
                f"{path.parent} cannot be written to ({error}): "
                "check its permissions, or use it read-only"
            )
        case apsw.FullError() | apsw.IOError():
            return ReadOnly(
                f"{path} could not be written or read ({error}): what was committed before is "
                "safe; make room on the disk, or check it, and do it again"
            )
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return Locked(
                f"another process uses {path} and did not release it within "
                f"{_BUSY_MS // 1000} s: nothing was changed; wait for it, and do it again"
            )
        case apsw.NoMemError():
            return MemoryError(f"SQLite ran out of memory for {path}: nothing was changed")
        case apsw.CorruptError():
            return damaged(path, str(error))
        case apsw.ConnectionClosedError():
            return Closed(f"{path.parent} was closed during this call: open it again")
        case apsw.NotADBError():
            return not_a_base(path, str(error))
    return error


def damaged(path: Path, reason: str) -> Corrupt:
    """The error for a database file that is damaged."""
    return Corrupt(
        f"{path} is damaged ({reason}): nothing was changed; run `ku verify` for the extent, then "
        "restore it from a copy, or save what is sound with `ku export --salvage DIR` and import "
        "it into a new knowledge base"
    )


def as_json(rows: Iterable[object]) -> str:
    """Rows for `json_each(?)`: one statement then takes them all in, without Python in between."""
    return orjson.dumps(list(rows)).decode()


def fields(count: int) -> str:
    """The fields of a row of `json_each`, each row being a list of so many."""
    return ", ".join(f"json_extract(value, '$[{n}]')" for n in range(count))


def last_row(connection: Connection, table: str) -> int:
    """The largest number that a row of a table ever had; numbers are never used twice."""
    numbers = connection.column("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
    return int(numbers[0]) if numbers else 0


def fetch_rows(connection: Connection, query: str, *values: object) -> Rows:
    """Return the distinct numbers that a query yields, ascending."""
    # One text is read several times faster than as many rows.
    select = f"WITH listed(row) AS ({query}) SELECT group_concat(row) FROM listed"
    (text,) = connection.execute(select, values).fetchone()
    return distinct(np.fromstring(text or "", np.int64, sep=","))


def distinct(rows: NDArray[np.int64]) -> Rows:
    """Return the distinct numbers, at least 0, ascending; `numpy.unique` is slower."""
    if (rows[1:] > rows[:-1]).all():  # so are those of most indexes, and sorting takes longer
        return rows
    ascending = np.sort(rows)
    return ascending[np.diff(ascending, prepend=-1) > 0]


def array_of(rows: Sequence[int] | Rows) -> apsw.CArrayBinding:
    """Row numbers as a parameter for `carray(?)`; there must be at least one."""
    return apsw.carray(np.ascontiguousarray(rows, np.int64))
