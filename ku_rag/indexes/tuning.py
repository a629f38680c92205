"""Choose the fastest kind of index that reaches a recall on the knowledge base's own vectors."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ku_rag.errors import BadInput, Refused
from ku_rag.indexes import vector_index
from ku_rag.indexes.index_kinds import KINDS, TOP, KindName
from ku_rag.indexes.segment import Segment
from ku_rag.indexes.segment_builder import RECALL, build_and_measure, kinds_for, sample_rows
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.store.database import Database
from ku_rag.types import Serializable

_TIMED = 20


@dataclass(frozen=True, slots=True)
class KindMeasurement(Serializable):
    """Measurements of one kind of index: recall@10, 0 to 1, and median milliseconds of a query.

    `candidates` are rescored for ten hits, `probes` are the IVF lists scanned.
    """

    kind: KindName
    recall: float
    candidates: int
    probes: int
    ms: float
    build_seconds: float


@dataclass(frozen=True, slots=True)
class TuningResult(Serializable):
    """The chosen kind and the measurements of all kinds that were tried."""

    kind: KindName
    recall: float
    tried: tuple[KindMeasurement, ...]


@dataclass(frozen=True, slots=True)
class Tuning(Serializable):
    """The kinds of index that were chosen for pictures and for chunks."""

    image: TuningResult
    chunk: TuningResult


def tune_all(
    database: Database, images: VectorIndex, chunks: VectorIndex, *, recall: float, kind: str | None
) -> Tuning:
    """Tune the indexes of pictures and chunks, and store the choice; see `KnowledgeBase.tune`.

    Raises:
        BadInput: there is no such kind, or the recall is out of range.
        Refused: the given kind does not reach the recall.
    """
    if isinstance(recall, bool) or not isinstance(recall, int | float) or not 0 < recall <= 1:
        raise BadInput(f"recall is {recall!r}: expected a number above 0, up to 1")
    chosen = next((name for name in KINDS if name == kind), None)
    if kind is not None and chosen is None:
        raise BadInput(f"kind is {kind!r}: expected {', '.join(KINDS)}")
    results = []
    for index in (images, chunks):
        tuned, segment = tune(index, recall=recall, kind=chosen)
        choices = database.meta("index") or {}
        # `index.count` would first build an index of another kind.
        count = len(segment.rows) if segment else index.count
        choice = {"kind": tuned.kind, "recall": recall, "count": count}
        database.set_meta("index", {**choices, index.kind: choice})
        if segment:
            index.replace(segment)
        results.append(tuned)
    return Tuning(*results)


def tune(
    index: VectorIndex, *, recall: float = RECALL, kind: KindName | None = None
) -> tuple[TuningResult, Segment | None]:
    """Build and measure every kind, or only one, and choose the fastest that reaches the recall.

    The index is not changed. The segment is of the chosen kind; None if there are too few vectors.
    `Refused` if the only kind does not reach the recall.
    """
    rows = index.rows()
    if len(rows) < vector_index.BASE_MIN:
        return TuningResult("flat", 1.0, ()), None
    tried: list[KindMeasurement] = []
    best: Segment | None = None
    for name in (kind,) if kind else kinds_for(len(rows), index.dim):
        started = time.perf_counter()
        segment = build_and_measure(index.gather, rows, index.dim, kind=name, recall=recall)
        built = round(time.perf_counter() - started, 2)
        plan, spent = segment.plan, round(_milliseconds(index, segment), 3)
        tried.append(KindMeasurement(name, plan.recall, plan.candidates, plan.probes, spent, built))
        enough = [t for t in tried if t.recall >= recall]
        if enough and min(enough, key=lambda t: t.ms) is tried[-1]:
            best = segment
        del segment  # free memory for the next kind
    if best is None:
        (only,) = tried
        raise Refused(
            f"an index of kind {only.kind} reaches recall@10 {only.recall:.3f} for {index.kind}s, "
            f"{recall:g} is required: omit --kind to try all kinds, or pass "
            f"--recall {only.recall:.2f} to accept it"
        )
    return TuningResult(best.plan.kind, best.plan.recall, tuple(tried)), best


def _milliseconds(index: VectorIndex, segment: Segment) -> float:
    """Return the median milliseconds of a query, including rescoring with the stored vectors."""
    spent = []
    queries = index.gather(sample_rows(segment.rows, _TIMED))[1]
    for query in queries:
        started = time.perf_counter()
        index.score(query[None], segment.search(query[None], TOP)[0])
        spent.append(time.perf_counter() - started)
    return float(np.median(spent)) * 1000
