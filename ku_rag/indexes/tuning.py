"""Tuning: which kind of index finds enough of the base's own vectors soonest."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ku_rag.errors import Refused
from ku_rag.indexes.index_kinds import KINDS, KindName
from ku_rag.indexes.recall_measurement import RECALL, sample
from ku_rag.indexes.segment import Segment
from ku_rag.indexes.segment_builder import measured
from ku_rag.indexes.vector_index import BASE_MIN, VectorIndex

_TIMED = 20


@dataclass(frozen=True, slots=True)
class Tried:
    """A kind as it was measured.

    Args:
        kind: which.
        recall: recall@10, 0 to 1.
        candidates: rows that are scored anew for ten hits.
        probes: lists that are scanned.
        milliseconds: a query takes, median.
        build_seconds: it took to build and to measure.
    """

    kind: KindName
    recall: float
    candidates: int
    probes: int
    milliseconds: float
    build_seconds: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was chosen, and what it was chosen from."""

    kind: KindName
    recall: float
    tried: tuple[Tried, ...]

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku tune --json` prints."""
        return {
            "kind": self.kind,
            "recall": self.recall,
            "tried": [
                {
                    "kind": one.kind,
                    "recall": one.recall,
                    "candidates": one.candidates,
                    "probes": one.probes,
                    "ms": round(one.milliseconds, 3),
                    "build_seconds": round(one.build_seconds, 2),
                }
                for one in self.tried
            ],
        }


def tune(
    index: VectorIndex, *, recall: float = RECALL, kind: KindName | None = None
) -> tuple[Tuned, Segment | None]:
    """Build every kind from all vectors, measure it, and choose the quickest that finds enough.

    Args:
        index: what is tuned; it is left as it is.
        recall: the recall@10 to be reached, 0 to 1.
        kind: only this one.

    Returns:
        What was chosen, and a segment of it; None where there is too little to be worth one.

    Raises:
        Refused: the kind that was named finds less.
    """
    rows = index.rows()
    if len(rows) < BASE_MIN:
        return Tuned("flat", 1.0, ()), None
    tried: list[Tried] = []
    best: Segment | None = None
    for one in (kind,) if kind else KINDS:
        started = time.perf_counter()
        segment = measured(index.gather, rows, index.dim, kind=one, recall=recall)
        built = time.perf_counter() - started
        tried.append(
            Tried(
                one,
                segment.plan.recall,
                segment.plan.candidates,
                segment.plan.probes,
                _milliseconds(index, segment),
                built,
            )
        )
        enough = [t for t in tried if t.recall >= recall]
        if enough and min(enough, key=lambda t: t.milliseconds) is tried[-1]:
            best = segment
        del segment  # the next one needs the memory
    if best is None:
        (only,) = tried
        raise Refused(
            f"an index of kind {only.kind} finds {only.recall:.3f} of the nearest ten "
            f"{index.kind}s, {recall:g} are wanted: leave the kind out to have one chosen, or pass "
            f"--recall {only.recall:.2f} if that is enough"
        )
    return Tuned(best.plan.kind, best.plan.recall, tuple(tried)), best


def _milliseconds(index: VectorIndex, segment: Segment) -> float:
    """The median of some queries, each scored anew with the store's vectors."""
    spent = []
    queries = index.gather(sample(segment.rows, _TIMED))[1]
    for query in queries:
        started = time.perf_counter()
        index.score(query[None], segment.search(query[None], 10)[0])
        spent.append(time.perf_counter() - started)
    return float(np.median(spent)) * 1000
