"""Statements that are run behind the caller's back, in order, while it prepares the next ones.

A statement that inserts a whole slice of rows runs for milliseconds without holding Python up, so
one core can write what the other prepares. All of it is one transaction, the caller's.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

_WAITING = 3
"""So many slices are held at most."""

SLICE = 2048
"""So many rows go into one statement."""


class Behind:
    """Runs statements on a connection; see `behind`."""

    def __init__(self, connection: sqlite3.Connection, pool: ThreadPoolExecutor | None) -> None:
        self._connection = connection
        self._pool = pool
        self._running: deque[Future[Any]] = deque()

    def execute(self, statement: str, values: Sequence[object]) -> None:
        """Have a statement run after those before it; waits when too many are waiting.

        Raises:
            sqlite3.Error: one of those before it failed.
        """
        if self._pool is None:
            self._connection.execute(statement, values)
            return
        while len(self._running) >= _WAITING:
            self._running.popleft().result()
        self._running.append(self._pool.submit(self._connection.execute, statement, values))

    def finish(self) -> None:
        """Wait until all have run.

        Raises:
            sqlite3.Error: one of them failed.
        """
        while self._running:
            self._running.popleft().result()


@contextmanager
def behind(connection: sqlite3.Connection, rows: int) -> Iterator[Behind]:
    """Run statements behind; all have run when this ends. Called inside a change.

    Nothing else may use the connection meanwhile.

    Args:
        connection: inside a change.
        rows: how many there are: few are written at once.
    """
    if rows <= SLICE:
        yield Behind(connection, None)
        return
    with ThreadPoolExecutor(1, "ku-write") as pool:
        running = Behind(connection, pool)
        yield running
        running.finish()
