"""The tail: the newest vectors, in memory, scanned exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors

Rows = NDArray[np.int64]

_ROOM = 64


class Tail:
    """Rows with their vectors; adding one does not copy the others.

    Args:
        dim: length of a vector.
    """

    def __init__(self, dim: int) -> None:
        self._rows = np.empty(_ROOM, np.int64)
        self._vectors = np.empty((_ROOM, dim), np.float32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Rows:
        """int64[n], in the order in which they came."""
        return self._rows[: self._count]

    @property
    def vectors(self) -> Vectors:
        """float32[n, dim]."""
        return self._vectors[: self._count]

    def add(self, rows: Rows, vectors: Vectors) -> None:
        """Take rows in: int64[n], float32[n, dim]."""
        count = self._count + len(rows)
        if count > len(self._rows):
            room = max(count, 2 * len(self._rows))
            self._rows = np.resize(self._rows, room)
            grown = np.empty((room, self._vectors.shape[1]), np.float32)
            grown[: self._count] = self.vectors
            self._vectors = grown
        self._rows[self._count : count] = rows
        self._vectors[self._count : count] = vectors
        self._count = count

    def drop(self, rows: Rows) -> None:
        """Let rows go; those that it does not hold are let pass."""
        kept = ~np.isin(self.rows, rows)
        count = int(kept.sum())
        if count < self._count:
            self._rows[:count], self._vectors[:count] = self.rows[kept], self.vectors[kept]
            self._count = count

    def search(self, queries: Vectors, k: int, among: Rows | None = None) -> tuple[Rows, Vectors]:
        """The k nearest: (rows int64[n, m], cosines float32[n, m]), m ≤ k, in no order."""
        if among is None:
            return nearest(queries, self.vectors, self.rows, k)
        inside = np.isin(self.rows, among)
        return nearest(queries, self.vectors[inside], self.rows[inside], k)


def nearest(queries: Vectors, vectors: Vectors, rows: Rows, k: int) -> tuple[Rows, Vectors]:
    """The k rows of largest cosine for each query: (int64[n, m], float32[n, m]), in no order."""
    if not len(rows):
        return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    cosines = queries @ vectors.T
    if k < len(rows):
        best = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        return rows[best], np.take_along_axis(cosines, best, 1)
    return np.broadcast_to(rows, cosines.shape), cosines
