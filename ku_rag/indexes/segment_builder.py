"""Build index segments from stored vectors, with search parameters that reach a recall.

Recall@10 is measured against exact search of sampled vectors, each excluded from its own result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors
from ku_rag.indexes.index_kinds import (
    KINDS,
    TOP,
    ByteQuantizer,
    IndexPlan,
    KindName,
    faiss_module,
    make,
    search_candidates,
    training_size,
)
from ku_rag.indexes.segment import Rows, Segment

RECALL = 0.99
"""Recall that every index reaches unless the caller accepts less."""
_QUERIES = 400
_MARGIN = 0.003
"""Recall is measured on a sample, so the chosen plan exceeds the target by this much."""
_CANDIDATES = (10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
_PROBES = (
    *(1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192),
    *(256, 384, 512, 768, 1024, 1536, 2048),  # for vectors without clusters
)
_RESCORE_S = 5e-6
"""Approximate cost of rescoring one candidate with its stored vector."""
_SCANNED_PER_S = 4e9
"""Approximate number of bytes of vectors scanned per second."""
_NEIGHBOURS_KEPT = 50
_TIE = 1e-6
FLAT_MAX = 20_000
"""Up to this many vectors, an exact scan in half precision takes a few milliseconds."""
_FLAT_MAX_BYTES = 1 << 30
"""A larger exact index is the last resort, because it is built in memory."""
_BATCH = 8192

_log = logging.getLogger("ku_rag")

Gather = Callable[[Rows], tuple[Rows, Vectors]]
"""Reads stored vectors: rows -> (rows int64[n], float32[n, dim])."""


def build_segment(
    gather: Gather,
    rows: Rows,
    dim: int,
    *,
    kind: KindName,
    recall: float = RECALL,
    chosen: bool = False,
) -> Segment:
    """Build a segment that reaches a recall; fall back to others if the kind does not.

    `gather` reads the vectors of rows int64[n], ascending, from the store. Small segments are
    always flat. The recall@10 is 0 to 1. Where the user has chosen the kind, a fallback is a
    warning.
    """
    large = "flat" not in kinds_for(len(rows), dim)
    fallbacks: list[KindName] = ["ivf-sq8", "flat"] if large else ["flat"]
    if len(rows) <= FLAT_MAX:
        kind = "flat"
    segment = build_and_measure(gather, rows, dim, kind=kind, recall=recall)
    for other in fallbacks:
        actual = segment.plan.recall
        if actual >= recall:
            break
        _log.log(
            logging.WARNING if chosen else logging.INFO,
            "an index of kind %s reaches recall@10 %.3f for %d vectors, %.3f is required: "
            "using kind %s instead",
            kind, actual, len(rows), recall, other,
        )  # fmt: skip
        del segment  # free its memory first
        segment, kind = build_and_measure(gather, rows, dim, kind=other, recall=recall), other
    return segment


def kinds_for(count: int, dim: int) -> tuple[KindName, ...]:
    """Return the kinds for so many vectors: not an exact index that memory may not hold."""
    large = count * dim * np.dtype(np.float16).itemsize > _FLAT_MAX_BYTES
    return tuple(kind for kind in KINDS if not (large and kind == "flat"))


def build_and_measure(
    gather: Gather,
    rows: Rows,
    dim: int,
    *,
    kind: KindName,
    recall: float,
) -> Segment:
    """Build a segment of exactly this kind and choose its search parameters."""
    faiss = faiss_module()
    training = gather(sample_rows(rows, training_size(kind, len(rows))))[1]
    index, quantizer = make(kind, dim, len(rows), training)
    del training
    exact = None if kind == "flat" else ExactNeighbours(*gather(sample_rows(rows)))
    is_ivf = kind.startswith("ivf")
    lists = _reserve_lists(index, quantizer, _batches(gather, rows)) if is_ivf else []
    for n, (some, vectors) in enumerate(_batches(gather, rows)):
        codes = quantizer(vectors) if quantizer else vectors
        if is_ivf:
            pointers = (faiss.swig_ptr(codes), None, faiss.swig_ptr(lists[n]))
            index.add_core(len(codes), *pointers)
        else:
            index.add(codes)
        if exact:
            exact.add(some, vectors)
    if exact is None:
        return Segment(rows, index, IndexPlan())
    plan = choose_plan(index, quantizer, kind, rows, exact, recall)
    return Segment(rows, index, plan, quantizer)


def _reserve_lists(
    index: Any,  # noqa: ANN401 - faiss
    quantizer: ByteQuantizer | None,
    batches: Iterable[tuple[Rows, Vectors]],
) -> list[NDArray[np.int64]]:
    """Return the list of each vector, int64[n] for each batch; allocate the lists at their size.

    Lists that grow need up to twice the memory. A product of matrices is faster than
    `index.quantizer.search`, which compares bytes.
    """
    faiss = faiss_module()
    centroids, metric = index.quantizer.reconstruct_n(0, index.nlist), index.metric_type
    lists = [
        faiss.knn(quantizer(vectors) if quantizer else vectors, centroids, 1, metric)[1].ravel()
        for _, vectors in batches
    ]
    for number, size in enumerate(np.bincount(np.concatenate(lists), minlength=index.nlist)):
        index.invlists.resize(number, int(size))
        index.invlists.resize(number, 0)  # keeps the allocation
    return lists


def _batches(gather: Gather, rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
    for start in range(0, len(rows), _BATCH):
        wanted = rows[start : start + _BATCH]
        stored, vectors = gather(wanted)
        order = np.argsort(stored)
        yield stored[order], vectors[order]


@dataclass(slots=True)
class ExactNeighbours:
    """Exact neighbours of queries float32[m, dim] in rows int64[m], each without its own."""

    rows: Rows
    queries: Vectors
    _near: Rows = field(init=False)
    _cosines: Vectors = field(init=False)

    def __post_init__(self) -> None:
        """Start without neighbours."""
        self._near = np.empty((len(self.rows), 0), np.int64)
        self._cosines = np.empty((len(self.rows), 0), np.float32)

    def add(self, rows: Rows, vectors: Vectors) -> None:
        """Add vectors to search: int64[n], float32[n, dim]."""
        faiss = faiss_module()
        count = min(_NEIGHBOURS_KEPT + 1, len(rows))
        cosines, places = faiss.knn(self.queries, vectors, count, faiss.METRIC_INNER_PRODUCT)
        near = np.concatenate([self._near, rows[places]], axis=1)
        cosines = np.concatenate([self._cosines, cosines], axis=1)
        cosines[near == self.rows[:, None]] = -np.inf
        best = np.argsort(-cosines, axis=1)[:, :_NEIGHBOURS_KEPT]
        self._near = np.take_along_axis(near, best, 1)
        self._cosines = np.take_along_axis(cosines, best, 1)

    def recall(self, proposed: Rows) -> NDArray[np.float64]:
        """Return the share of the true ten among the first 1, 2, 3 … proposed rows: float64[r].

        Rows that are as near as the tenth count as correct, because texts can be equal.
        """
        wanted = min(TOP, np.isfinite(self._cosines).sum(axis=1).min(initial=TOP))
        if not wanted:
            return np.ones(proposed.shape[1])
        threshold = -np.sort(-self._cosines, axis=1)[:, wanted - 1, None] - _TIE
        correct = np.where(self._cosines >= threshold, self._near, -2)
        hits = (proposed[:, :, None] == correct[:, None, :]).any(axis=2).cumsum(axis=1)
        return np.asarray(np.minimum(hits, wanted).mean(axis=0) / wanted, np.float64)


def sample_rows(rows: Rows, limit: int = _QUERIES) -> Rows:
    """Choose a fixed random sample of rows: int64[m]."""
    if len(rows) <= limit:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, limit, replace=False))


def choose_plan(
    index: Any,  # noqa: ANN401 - faiss
    quantizer: ByteQuantizer | None,
    kind: KindName,
    rows: Rows,
    exact: ExactNeighbours,
    target: float,
) -> IndexPlan:
    """Choose the cheapest plan that reaches a recall, or else the one with the highest recall.

    The cost is an estimate of the seconds to scan the lists and rescore the candidates. `rows`
    int64[n] is the row at each position of the index, which is not exact, and `target` a recall@10,
    0 to 1.
    """
    queries = quantizer(exact.queries) if quantizer else exact.queries
    lists = max(1, getattr(index, "nlist", 1))
    tried: list[tuple[IndexPlan, float]] = []
    best: tuple[IndexPlan, float] | None = None
    for probes in [p for p in _PROBES if p <= lists] if kind.startswith("ivf") else (0,):
        scan = index.ntotal * index.code_size * max(1, probes) / lists / _SCANNED_PER_S
        if best and scan >= best[1]:
            break
        # One more hit, because a query finds itself.
        probed = IndexPlan(kind, probes=probes)
        _, positions = search_candidates(index, probed, queries, _CANDIDATES[-1] + 1)
        recalls = exact.recall(np.where(positions >= 0, rows[positions], -1))
        for candidates in _CANDIDATES:
            recall = round(float(recalls[min(candidates, len(recalls) - 1)]), 4)
            plan = replace(probed, candidates=candidates, recall=recall)
            tried.append((plan, scan + _RESCORE_S * candidates))
        enough = [pair for pair in tried if pair[0].recall >= min(1.0, target + _MARGIN)]
        best = min(enough, key=lambda pair: pair[1], default=None)
    plan, _ = best or max(tried, key=lambda pair: (pair[0].recall, -pair[1]))
    return plan
