"""How many terms of the keyword index each text has, in memory once they are often needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import apsw
import numpy as np
from numpy.typing import NDArray

from ku_rag.store.connection import array_of, fetch_rows

if TYPE_CHECKING:
    from ku_rag.store.connection import Connection

_ROWS_A_LOOKUP = 8
"""Reading the lengths of so many rows in their order takes about as long as looking up one."""
_REPLACED = "texts_replaced"
"""Key of the number that grows when a text is indexed again; new and deleted texts do not count."""


class TextLengths:
    """The numbers of terms of texts; threads may share them, each with its connection."""

    def __init__(self) -> None:
        self._lengths = np.zeros(0, np.int32)  # by row
        self._replaced, self._lookups = 0, 0
        self._turn = threading.Lock()

    def of(self, connection: Connection, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the number of terms of texts, by ascending rows, all of which are stored."""
        if not len(rows):
            return np.zeros(0)
        with self._turn:
            if not self._read(connection, int(rows[-1]), len(rows)):
                return _lengths_of(connection, rows)
            lengths: NDArray[np.float64] = self._lengths[rows].astype(float)
            # A text may have been deleted after the state that the connection sees.
            return lengths if lengths.all() else _lengths_of(connection, rows)

    def _read(self, connection: Connection, last: int, lookups: int) -> bool:
        """Read the lengths that are missing if that pays; return whether all are in memory."""
        if connection.txn_state("main") == apsw.SQLITE_TXN_WRITE:
            return False  # its rows may be given to other texts after a rollback
        replaced = texts_replaced(connection)
        if replaced < self._replaced:
            return False  # the connection sees an earlier state
        if replaced > self._replaced:
            self._lengths, self._replaced = self._lengths[:0], replaced
        first = len(self._lengths)
        if last < first:
            return True
        self._lookups += lookups
        if self._lookups * _ROWS_A_LOOKUP < last - first:
            return False
        sizes, count, most = connection.execute(
            "SELECT group_concat(hex(sz), ''), count(*), max(id) FROM words_docsize WHERE id >= ?",
            (first,),
        ).fetchone()
        lengths = np.zeros(most + 1, np.int32)
        lengths[:first] = self._lengths
        rows: NDArray[np.int64] | slice = slice(first, None)
        if first + count <= most:  # some were deleted
            query = "SELECT id FROM words_docsize WHERE id >= ?"
            rows = fetch_rows(connection, query, first)
        lengths[rows] = _varints(bytes.fromhex(sizes))
        self._lengths, self._lookups = lengths, 0
        return True


def note_replaced(connection: Connection) -> None:
    """Store that a text is indexed again. Called inside a change."""
    number = texts_replaced(connection) + 1
    connection.execute("REPLACE INTO meta VALUES (?, ?)", (_REPLACED, str(number)))


def texts_replaced(connection: Connection) -> int:
    """Return how often texts were indexed again."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_REPLACED,)).fetchone()
    return int(row[0]) if row else 0


def totals(connection: Connection) -> tuple[int, int]:
    """Return the number of texts, and of all their terms."""
    (record,) = connection.execute("SELECT block FROM words_data WHERE id = 1").fetchone()
    numbers = _varints(record or b"\0\0")  # the row in which FTS5 keeps both
    return int(numbers[0]), int(numbers[1])


def _lengths_of(connection: Connection, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    (sizes,) = connection.execute(
        "SELECT group_concat(hex(d.sz), '') FROM carray(?) r "
        "CROSS JOIN words_docsize d ON d.id = r.value",
        (array_of(rows),),
    ).fetchone()
    return _varints(bytes.fromhex(sizes)).astype(float)


def _varints(data: bytes) -> NDArray[np.int64]:
    """Return the variable-length integers of SQLite: seven bits a byte, the last one below 128."""
    parts = np.frombuffer(data, np.uint8).astype(np.int64)
    if parts.max(initial=0) < 128:
        return parts
    ends = np.flatnonzero(parts < 128)
    places = np.arange(len(parts))
    numbers = np.searchsorted(ends, places)
    values = np.zeros(len(ends), np.int64)
    np.add.at(values, numbers, (parts & 127) << 7 * (ends[numbers] - places))
    return values
