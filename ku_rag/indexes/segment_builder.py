"""Building a segment from the store's vectors, a batch at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np

from ku_rag.encoders.base import Vectors
from ku_rag.indexes.index_kinds import KindName, Plan, make, training_size
from ku_rag.indexes.recall_measurement import RECALL, Rows, Truth, choose, sample
from ku_rag.indexes.segment import Segment

FLAT_MOST = 20_000
"""Up to this many vectors, scanning them all in half precision takes few milliseconds."""

_BATCH = 8192

_log = logging.getLogger("ku_rag")

Gather = Callable[[Rows], tuple[Rows, Vectors]]
"""The vectors of some rows: (rows int64[n], float32[n, dim])."""


def usual(count: int) -> KindName:
    """The kind for a number of vectors when nobody has tuned."""
    return "flat" if count <= FLAT_MOST else "rabitq"


def build(
    gather: Gather,
    rows: Rows,
    dim: int,
    *,
    kind: KindName,
    recall: float = RECALL,
    asked: bool = False,
) -> Segment:
    """A segment of these rows that reaches a recall: exact when no other way was found.

    Args:
        gather: reads vectors from the store.
        rows: int64[n], ascending; all have a vector.
        dim: length of a vector.
        kind: which kind to try; too few vectors for it are held flat.
        recall: recall@10 that is wanted, 0 to 1.
        asked: somebody chose the kind, and is told when it does not do.
    """
    if len(rows) <= FLAT_MOST:
        kind = "flat"
    segment = measured(gather, rows, dim, kind=kind, recall=recall)
    if segment.plan.recall < recall:
        _log.log(
            logging.WARNING if asked else logging.INFO,
            "an index of kind %s finds %.3f of the nearest ten of %d vectors, %.3f are wanted: "
            "they are held exactly instead",
            kind, segment.plan.recall, len(rows), recall,
        )  # fmt: skip
        segment = measured(gather, rows, dim, kind="flat", recall=recall)
    return segment


def measured(
    gather: Gather,
    rows: Rows,
    dim: int,
    *,
    kind: KindName,
    recall: float,
) -> Segment:
    """A segment of exactly this kind, asked as well as it can be."""
    training = gather(sample(rows, training_size(kind, len(rows))))[1]
    index, fit = make(kind, dim, len(rows), training)
    del training
    truth = None if kind == "flat" else Truth(*gather(sample(rows)))
    for some, vectors in _batches(gather, rows):
        index.add(fit(vectors) if fit else vectors)
        if truth:
            truth.add(some, vectors)
    if truth is None:
        return Segment(rows, index, Plan())
    plan, _ = choose(index, fit, kind, rows, truth, recall)
    return Segment(rows, index, plan, fit)


def _batches(gather: Gather, rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
    for start in range(0, len(rows), _BATCH):
        wanted = rows[start : start + _BATCH]
        found, vectors = gather(wanted)
        order = np.argsort(found)
        yield found[order], vectors[order]
