"""Search: from a question and matched units to chunks (KU-RAG, section 3.3.2, eq. 8 to 10).

The whole base is always searched. Keyword and vector scores are normalised and added; a matched
unit raises the scores of its chunks. Nothing is excluded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import neg

import numpy as np

from ku_rag.encoders.base import Encoder, encode_queries
from ku_rag.indexes.keywords import term_scores
from ku_rag.indexes.segment import Rows, contains
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.retrieval.coverage import joint_scores
from ku_rag.store.connection import Connection
from ku_rag.text.tokens import content_words

_POOL = 100
_DIGITS = 5
"""Cosines that differ less are equal: the last digits depend on how many are computed at once."""
_RAISE = 0.2
"""By how much a match raises the own chunks of the best matched unit; others less."""
_MOST_CHUNKS = 500
_LINKING = 100
"""Chunks whose links are followed."""


@dataclass(frozen=True, slots=True)
class ChunkSearch:
    """What chunks are searched with.

    Args:
        text_weight: the weight of cosines beside keywords.
        expand: whether links between chunks are followed.
    """

    connection: Connection
    encoder: Encoder
    chunks: VectorIndex
    text_weight: float
    expand: bool = True


def rewrite(question: str, name: str, content: Sequence[str] | None = None) -> str:
    """The question as it is scored against one unit's chunks: `question [SEP] name [SEP] words`.

    `content` are the content words of the question; None for those of `text.tokens`.
    """
    words = content_words(question) if content is None else content
    return f"{question} [SEP] {name} [SEP] {', '.join(words)}"


def search(
    base: ChunkSearch,
    question: str,
    units: Sequence[tuple[int, str]],
    k: int,
    *,
    units_first: bool,
    among: Rows | None = None,
) -> list[tuple[int, float]]:
    """Return the k best chunks of the whole base as (row, score), best first.

    `units` are (row, name) of the matched units, best first. With `units_first` their chunks go
    before all others, as with a picture. `among` are rows of the chunks that count, ascending; None
    for all.
    """
    listed = {
        unit: base.connection.execute(
            "SELECT chunk, owned FROM unit_chunks WHERE unit = ?", (unit,)
        ).fetchall()
        for unit, _ in units
    }
    # 1 for the best unit's own chunks, less for those of the next and those that only name it.
    shares: dict[int, float] = {}
    for place, chunks in enumerate(listed.values()):
        for row, owned in chunks:
            shares[row] = max(1 / (1 + place / 2 + (not owned)), shares.get(row, 0.0))
    terms = term_scores(base.connection, question, among=among)
    scores = joint_scores(base.connection, terms, _MOST_CHUNKS, pool=_LINKING if base.expand else 0)
    if question.strip():
        spaces = [(name, np.array([row for row, _ in listed[unit]])) for unit, name in units]
        for row, cosine in _cosines(base, question, spaces, among, max(k, _POOL)).items():
            scores[row] = scores.get(row, 0.0) + cosine
    for row, share in shares.items():
        scores[row] = scores.get(row, 0.0) + _RAISE * share
    if units_first and shares:
        most = max(scores.values())
        scores |= {row: scores[row] + most * (1 + share) for row, share in shares.items()}
    if among is not None:
        rows = np.fromiter(scores, np.int64)
        scores = {row: scores[row] for row in rows[contains(among, rows)].tolist()}
    best = nsmallest(k, zip(map(neg, scores.values()), scores, strict=True))
    return [(row, round(-cost, 4)) for cost, row in best]


def _cosines(
    base: ChunkSearch,
    question: str,
    spaces: Sequence[tuple[str, Rows]],
    among: Rows | None,
    most: int,
) -> dict[int, float]:
    """Chunks nearest to a question: row → 0 for the least near in the base, to the weight.

    `spaces` are the name of each matched unit and its chunks, which are compared with the rewritten
    question as well. `among` are rows of the chunks that count; None for all.
    """
    questions = [question, *(rewrite(question, name) for name, _ in spaces)]
    vectors = encode_queries(base.encoder, questions)
    best: dict[int, float] = {}
    lowest = span = 0.0
    for place, vector in enumerate(vectors):
        inside = spaces[place - 1][1] if place else among
        rows, cosines = base.chunks.search(vector[None], most, among=inside)
        near = {
            row: round(cosine, _DIGITS)
            for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True)
            if row >= 0
        }
        if not place and near:
            lowest = min(near.values())
            span = max(near.values()) - lowest
        best |= {row: max(cosine, best.get(row, -1.0)) for row, cosine in near.items()}
    weight = base.text_weight / (span or 1.0)
    return {row: weight * min(max(0.0, cosine - lowest), span) for row, cosine in best.items()}
