"""Selection: the chunks of the units that pass a filter.

Which unit owns each chunk is kept in two arrays. Row numbers of chunks are never used twice, and a
chunk keeps its unit. So new rows are appended, and rows of deleted chunks select nothing. What a
filter selects is kept until the next commit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

import apsw
import numpy as np

from ku_rag.indexes.segment import contains
from ku_rag.store.connection import Connection, Rows, last_row
from ku_rag.store.database import Database
from ku_rag.store.filters import UnitFilter

_MOST_FILTERS = 32
_NONE: Rows = np.empty(0, np.int64)


class Selection:
    """Selects units and chunks of a database by filters; threads may share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()  # of everything below
        self._state: object = None
        self._filters: OrderedDict[UnitFilter, UnitFilter] = OrderedDict()
        self._last = 0
        self._units, self._chunks = _NONE, _NONE

    def resolve(self, units: UnitFilter) -> UnitFilter:
        """Return a filter with the rows that pass in the state that the calling thread reads."""
        connection = self._database.connection
        if units.passes_all:
            return units
        if connection.txn_state("main") == apsw.SQLITE_TXN_WRITE:  # may be rolled back
            rows = units.rows(connection)
            resolved = replace(units, unit_rows=rows)
            return replace(resolved, chunk_rows=resolved.chunks(connection))
        with self._lock:
            state = self._database.meta("state")
            if state != self._state:
                self._filters.clear()
                self._state = state
            if units in self._filters:
                return self._filters[units]
            rows = units.rows(connection)
            self._follow(connection)
            chunks = None if rows is None else self._chunks[contains(rows, self._units)]
            resolved = replace(units, unit_rows=rows, chunk_rows=chunks)
            if units.predicate is None:  # a function may return something else next time
                self._filters[units] = resolved
                if len(self._filters) > _MOST_FILTERS:
                    self._filters.popitem(last=False)
            return resolved

    def _follow(self, connection: Connection) -> None:
        """Read the chunks that are new since the last call."""
        last = last_row(connection, "chunks")
        if last < self._last:  # an older state
            self._last, self._units, self._chunks = 0, _NONE, _NONE
        if last == self._last:
            return
        texts = connection.execute(
            "SELECT group_concat(unit), group_concat(chunk) FROM (SELECT unit, chunk FROM "
            "unit_chunks WHERE chunk > ? AND owned ORDER BY chunk)",
            (self._last,),
        ).fetchone()
        units, chunks = (np.fromstring(text or "", np.int64, sep=",") for text in texts)
        self._units = np.concatenate([self._units, units])
        self._chunks = np.concatenate([self._chunks, chunks])
        self._last = last
