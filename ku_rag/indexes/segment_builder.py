"""Build index segments from the stored vectors, one batch at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np

from ku_rag.encoders.base import Vectors
from ku_rag.indexes.index_kinds import KindName, Plan, make, training_size
from ku_rag.indexes.recall_measurement import (
    RECALL,
    ExactNeighbours,
    Rows,
    choose_plan,
    sample_rows,
)
from ku_rag.indexes.segment import Segment

FLAT_MAX = 20_000
"""Up to this many vectors, an exact scan in half precision takes a few milliseconds."""

_BATCH = 8192

_log = logging.getLogger("ku_rag")

Gather = Callable[[Rows], tuple[Rows, Vectors]]
"""Reads stored vectors: rows -> (rows int64[n], float32[n, dim])."""


def default_kind(count: int) -> KindName:
    """Return the kind of index for `count` vectors when `tune` was never run."""
    return "flat" if count <= FLAT_MAX else "rabitq"


def build_segment(
    gather: Gather,
    rows: Rows,
    dim: int,
    *,
    kind: KindName,
    recall: float = RECALL,
    chosen: bool = False,
) -> Segment:
    """Build a segment that reaches a recall; fall back to an exact one if the kind does not.

    Args:
        gather: reads vectors from the store.
        rows: int64[n], ascending, each with a stored vector.
        dim: length of a vector.
        kind: the kind to try; small segments are always flat.
        recall: required recall@10, 0 to 1.
        chosen: the user chose the kind, so a fallback is a warning.
    """
    if len(rows) <= FLAT_MAX:
        kind = "flat"
    segment = build_and_measure(gather, rows, dim, kind=kind, recall=recall)
    if segment.plan.recall < recall:
        _log.log(
            logging.WARNING if chosen else logging.INFO,
            "an index of kind %s reaches recall@10 %.3f for %d vectors, %.3f is required: "
            "using an exact index instead",
            kind, segment.plan.recall, len(rows), recall,
        )  # fmt: skip
        segment = build_and_measure(gather, rows, dim, kind="flat", recall=recall)
    return segment


def build_and_measure(
    gather: Gather,
    rows: Rows,
    dim: int,
    *,
    kind: KindName,
    recall: float,
) -> Segment:
    """Build a segment of exactly this kind and choose its search parameters."""
    training = gather(sample_rows(rows, training_size(kind, len(rows))))[1]
    index, quantizer = make(kind, dim, len(rows), training)
    del training
    exact = None if kind == "flat" else ExactNeighbours(*gather(sample_rows(rows)))
    for some, vectors in _batches(gather, rows):
        index.add(quantizer(vectors) if quantizer else vectors)
        if exact:
            exact.add(some, vectors)
    if exact is None:
        return Segment(rows, index, Plan())
    plan, _ = choose_plan(index, quantizer, kind, rows, exact, recall)
    return Segment(rows, index, plan, quantizer)


def _batches(gather: Gather, rows: Rows) -> Iterator[tuple[Rows, Vectors]]:
    for start in range(0, len(rows), _BATCH):
        wanted = rows[start : start + _BATCH]
        found, vectors = gather(wanted)
        order = np.argsort(found)
        yield found[order], vectors[order]
