"""A segment: an immutable index over some rows, with a mask of deleted rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors
from ku_rag.indexes.index_kinds import TOP, ByteQuantizer, IndexPlan, Mask, search_candidates

Rows = NDArray[np.int64]
_FEWER = 16
"""Values that are fewer than rows by this factor are searched one by one."""
_MOST_MARKED = 1 << 30
"""The last row up to which rows are marked, a byte each."""


def contains(rows: Rows, values: NDArray[Any]) -> Mask:
    """Return which values int64[m], at least -1, are among ascending rows int64[n]: bool[m]."""
    if not len(rows) or not len(values):
        return np.zeros(len(values), np.bool_)
    mask: Mask
    last = max(int(rows[-1]), int(values.max()))
    if len(values) * _FEWER < len(rows) or last > _MOST_MARKED:
        mask = rows[np.minimum(np.searchsorted(rows, values), len(rows) - 1)] == values
    else:
        marked = np.zeros(last + 2, np.bool_)  # the last is that of -1
        marked[rows] = True
        mask = marked[values]
    return mask


@dataclass(slots=True)
class Segment:
    """Rows and an index over their vectors.

    Args:
        rows: int64[n], ascending: the row at each position of the index.
        index: the FAISS index, filled in that order.
        file: the name of its file without suffix; "" when it has none.
    """

    rows: Rows
    index: Any
    plan: IndexPlan
    quantizer: ByteQuantizer | None = None
    file: str = ""
    _alive: Mask | None = field(default=None, init=False)
    _dropped: int = field(default=0, init=False)

    @property
    def count(self) -> int:
        """Number of rows that are not deleted."""
        return len(self.rows) - self._dropped

    @property
    def dropped(self) -> Rows:
        """Deleted rows: int64[m], ascending."""
        return np.empty(0, np.int64) if self._alive is None else self.rows[~self._alive]

    def holds(self, rows: Rows) -> Mask:
        """Return which rows the segment contains and are not deleted: bool[len(rows)]."""
        places = np.searchsorted(self.rows, rows)
        places[places == len(self.rows)] = 0
        mask = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), np.bool_)
        return mask if self._alive is None else mask & self._alive[places]

    def drop(self, rows: Rows) -> None:
        """Mask deleted rows; rows that it does not contain are ignored."""
        present = rows[self.holds(rows)]
        if len(present):
            if self._alive is None:
                self._alive = np.ones(len(self.rows), np.bool_)
            self._alive[np.searchsorted(self.rows, present)] = False
            self._dropped += len(present)

    def search(
        self, queries: Vectors, k: int, among: Rows | None = None, most_probes: int | None = None
    ) -> tuple[Rows, Vectors]:
        """Return rows that may be among the k nearest, to be rescored if the kind is not exact.

        `queries` are float32[n, dim]; `among` are the only rows that count; see
        `VectorIndex.search` for `most_probes`.

        Returns:
            (rows int64[n, r], cosines float32[n, r]); missing ones are row -1. The cosines are
            estimates unless the index is flat.
        """
        mask, plan = self._alive, self.plan
        if most_probes:
            plan = replace(plan, probes=min(plan.probes, most_probes))
        if among is not None:
            mask = contains(among, self.rows)
            mask = mask if self._alive is None else mask & self._alive
        cosines, positions = search_candidates(
            self.index,
            plan,
            self.quantizer(queries) if self.quantizer else queries,
            -(-plan.candidates * max(k, TOP) // TOP),
            mask,
            selected=among is not None,
        )
        # Positions of a damaged file lead to some row, which rescoring then drops.
        rows = self.rows.take(positions, mode="clip")
        return np.where(positions >= 0, rows, -1), cosines
