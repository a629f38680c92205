"""Search: from a question and matched units to chunks (KU-RAG, section 3.3.2, eq. 8 to 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ku_rag.encoders.base import Encoder, encode_queries
from ku_rag.indexes import keywords
from ku_rag.indexes.vector_index import Rows, VectorIndex
from ku_rag.retrieval.fusion import RANK_OFFSET, reciprocal_rank
from ku_rag.store.connection import Connection, batched, marks
from ku_rag.text.question import label_words
from ku_rag.text.tokens import content_words

_POOL = 50
_DIGITS = 5
"""Cosines that differ less are equal: the last digits depend on how many are computed at once."""
_UNIT_STEP = 30
"""Ranks that a chunk loses for every matched unit that goes before its own."""
_NAMED_STEP = 60
"""Ranks that a chunk loses when it only names a unit and is about another."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found: row, fused score, matched units that list it (its owner first)."""

    chunk: int
    score: float
    units: tuple[int, ...]


def rewrite(question: str, name: str) -> str:
    """The question as it is scored against one unit's chunks: `question [SEP] name [SEP] words`."""
    return f"{question} [SEP] {name} [SEP] {', '.join(content_words(question))}"


def search_units(
    connection: Connection,
    *,
    question: str,
    units: Sequence[tuple[int, str]],
    encoder: Encoder,
    chunks: VectorIndex,
    k: int,
) -> list[Hit]:
    """The best chunks over all matched units.

    Args:
        connection: the store.
        question: the question.
        units: (row, name) of the matched units, best first.
        encoder: the base's own.
        chunks: index of the chunks.
        k: most chunks.
    """
    listed = {unit: _listed(connection, unit) for unit, _ in units}
    best: dict[int, float] = {}
    if question.strip():
        vectors = encode_queries(encoder, [rewrite(question, name) for _, name in units])
        for (unit, _), vector in zip(units, vectors, strict=True):
            rows, cosines = chunks.search(vector[None], _POOL, among=listed[unit])
            for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True):
                if row >= 0:
                    best[row] = max(cosine, best.get(row, -1.0))
    dense = sorted(best, key=lambda row: (-best[row], row))
    found = keywords.search(
        connection,
        question,
        _POOL,
        stems=label_words(question),
        units=tuple(unit for unit, _ in units),
    )
    sparse = [row for row, _ in found]
    fused = reciprocal_rank([dense, sparse])
    chosen = sorted(fused or _first_chunks(listed))
    listing = _listing(listed, chosen)
    owned = _owners(connection, list(listed), chosen)
    order = list(listed)
    for row in chosen:
        place = order.index(listing[row][0])
        behind = _UNIT_STEP * place + (0 if row in owned else _NAMED_STEP)
        by_unit = (RANK_OFFSET + 1) / (RANK_OFFSET + 1 + behind)
        fused[row] = (2 * fused.get(row, 0.0) + by_unit) / 3
    return _hits(fused, k, listing, owned)


def search_all(
    connection: Connection,
    *,
    question: str,
    encoder: Encoder,
    chunks: VectorIndex,
    k: int,
) -> list[Hit]:
    """The best chunks of the whole base."""
    if not question.strip():
        return []
    rows, cosines = chunks.search(encode_queries(encoder, [question]), _POOL)
    # Which of equals comes first must not depend on the state of a cache.
    ordered = sorted(
        (-round(cosine, _DIGITS), row)
        for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True)
        if row >= 0
    )
    dense = [row for _, row in ordered]
    sparse = [
        row for row, _ in keywords.search(connection, question, _POOL, stems=label_words(question))
    ]
    return _hits(reciprocal_rank([dense, sparse]), k, {}, {})


def _listed(connection: Connection, unit: int) -> Rows:
    rows = connection.execute(
        "SELECT chunk FROM unit_chunks WHERE unit = ? ORDER BY chunk", (unit,)
    )
    return np.fromiter((row for (row,) in rows), np.int64)


def _listing(listed: dict[int, Rows], chunks: Sequence[int]) -> dict[int, list[int]]:
    """Chunk → the units that list it, best first."""
    found: dict[int, list[int]] = {row: [] for row in chunks}
    for unit, rows in listed.items():
        for row, there in zip(chunks, np.isin(chunks, rows).tolist(), strict=True):
            if there:
                found[row].append(unit)
    return found


def _owners(connection: Connection, units: Sequence[int], chunks: Sequence[int]) -> dict[int, int]:
    """Chunk → the one of these units whose own source it comes from."""
    found: dict[int, int] = {}
    for some in batched(chunks):
        found |= dict(
            connection.execute(
                "SELECT chunk, unit FROM unit_chunks WHERE owned "
                f"AND chunk IN ({marks(some)}) AND unit IN ({marks(units)})",
                [*some, *units],
            ).fetchall()
        )
    return found


def _first_chunks(listed: dict[int, Rows]) -> set[int]:
    return {int(row) for rows in listed.values() for row in rows[:_POOL]}


def _hits(
    fused: dict[int, float], k: int, listing: dict[int, list[int]], owners: dict[int, int]
) -> list[Hit]:
    order = sorted(fused, key=lambda row: (-fused[row], row))[:k]
    return [
        Hit(
            chunk=row,
            score=round(fused[row], 4),
            units=tuple(sorted(listing.get(row, ()), key=lambda unit: unit != owners.get(row))),
        )
        for row in order
    ]
