"""Measuring what an index finds, and choosing how it is asked (recall@10 against exact search)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors
from ku_rag.indexes.index_kinds import TOP, Bytes, KindName, Plan, propose

Rows = NDArray[np.int64]

RECALL = 0.99
"""What every index reaches unless less was asked for."""
_QUERIES = 400
_MARGIN = 0.003
"""The measure is a sample: what is chosen reaches a little more."""
_CANDIDATES = (10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_PROBES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192)
_GATHER_S = 5e-6
"""About what it costs to score one candidate with the store's vector."""
_TIMED = 15
_KEPT = 50
_TIE = 1e-6


@dataclass(slots=True)
class Truth:
    """What exact search finds for some of the vectors themselves, each without itself.

    Args:
        rows: int64[m], the rows of the queries.
        queries: float32[m, dim].
    """

    rows: Rows
    queries: Vectors
    _near: Rows = field(init=False)
    _cosines: Vectors = field(init=False)

    def __post_init__(self) -> None:
        """Nothing was found yet."""
        self._near = np.empty((len(self.rows), 0), np.int64)
        self._cosines = np.empty((len(self.rows), 0), np.float32)

    def add(self, rows: Rows, vectors: Vectors) -> None:
        """Take further vectors into account: int64[n], float32[n, dim]."""
        cosines = self.queries @ vectors.T
        order = np.argsort(rows)
        places = np.minimum(np.searchsorted(rows, self.rows, sorter=order), len(rows) - 1)
        own = order[places]
        asking = np.flatnonzero(rows[own] == self.rows)
        cosines[asking, own[asking]] = -np.inf
        if self._near.shape[1] == _KEPT:  # few are nearer than what was found before
            nearer = (cosines > self._cosines.min(axis=1, keepdims=True)).any(axis=0)
            rows, cosines = rows[nearer], cosines[:, nearer]
        near = np.concatenate([self._near, np.broadcast_to(rows, cosines.shape)], axis=1)
        cosines = np.concatenate([self._cosines, cosines], axis=1)
        if cosines.shape[1] > _KEPT:
            best = np.argpartition(-cosines, _KEPT - 1, axis=1)[:, :_KEPT]
            near, cosines = np.take_along_axis(near, best, 1), np.take_along_axis(cosines, best, 1)
        self._near, self._cosines = near, cosines

    def recall(self, proposed: Rows) -> NDArray[np.float64]:
        """The share of the true ten that is among the first 1, 2, 3 … proposed rows: float64[r].

        Whatever is as near as the tenth counts: texts that are equal take each other's place.
        """
        wanted = min(TOP, np.isfinite(self._cosines).sum(axis=1).min(initial=TOP))
        if not wanted:
            return np.ones(proposed.shape[1])
        least = -np.sort(-self._cosines, axis=1)[:, wanted - 1, None] - _TIE
        right = np.where(self._cosines >= least, self._near, -2)
        hits = (proposed[:, :, None] == right[:, None, :]).any(axis=2).cumsum(axis=1)
        return np.asarray(np.minimum(hits, wanted).mean(axis=0) / wanted, np.float64)


def sample(rows: Rows, most: int = _QUERIES) -> Rows:
    """Some of the rows, the same ones each time: int64[m]."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def choose(
    index: Any,  # noqa: ANN401 - faiss
    fit: Bytes | None,
    kind: KindName,
    rows: Rows,
    truth: Truth,
    target: float,
) -> tuple[Plan, float]:
    """The quickest way to ask an index that reaches a recall, or else the one that finds most.

    Args:
        index: filled.
        fit: what queries are made before they come to it.
        kind: its kind.
        rows: int64[n], the row at each position of it.
        truth: what exact search finds.
        target: recall@10, 0 to 1.

    Returns:
        The plan with its measured recall, and about how many seconds a query takes.
    """
    queries = fit(truth.queries) if fit else truth.queries
    lists = max(1, getattr(index, "nlist", 1))
    tried: list[tuple[Plan, float]] = []
    best: tuple[Plan, float] | None = None
    seconds = 0.0
    for probes in [p for p in _PROBES if p <= lists] if kind.startswith("ivf") else (0,):
        asked = Plan(kind, probes=probes)
        # More probes never take less: what was measured with fewer was not disturbed alone.
        seconds = max(seconds, _seconds(index, asked, queries))
        if best and seconds >= best[1]:
            break  # looking into more lists takes longer still
        measured = list(_measured(index, queries, asked, rows, truth, seconds))
        enough = [one for one in measured if one[0].recall >= min(1.0, target + _MARGIN)]
        best = min(filter(None, (best, *enough)), key=lambda found: found[1], default=None)
        tried += measured
    return best or max(tried, key=lambda found: (found[0].recall, -found[1]))


def _measured(
    index: Any,  # noqa: ANN401 - faiss
    queries: Vectors,
    asked: Plan,
    rows: Rows,
    truth: Truth,
    seconds: float,
) -> Iterator[tuple[Plan, float]]:
    """What is found with so many probes by each number of candidates, and how long that takes."""
    # One more, since a query finds itself.
    most = 1 if asked.kind == "flat" else _CANDIDATES[-1] // TOP
    _, positions = propose(index, asked, queries, most * TOP + 1)
    recalls = truth.recall(np.where(positions >= 0, rows[positions], -1))
    for candidates in _CANDIDATES[: 1 if asked.kind == "flat" else None]:
        recall = float(recalls[min(candidates, len(recalls) - 1)])
        plan = replace(asked, candidates=candidates, recall=round(recall, 4))
        yield plan, seconds + _GATHER_S * candidates


def _seconds(index: Any, plan: Plan, queries: Vectors) -> float:  # noqa: ANN401 - faiss
    spent = []
    for query in queries[:_TIMED]:
        started = time.perf_counter()
        propose(index, plan, query[None], 10 * TOP)
        spent.append(time.perf_counter() - started)
    return float(np.median(spent))
