"""Reciprocal rank fusion: rankings of different kinds become one (Cormack et al., 2009)."""

from __future__ import annotations

from collections.abc import Sequence

RANK_OFFSET = 60
"""The usual constant: how slowly the weight of a rank falls."""


def reciprocal_rank(rankings: Sequence[Sequence[int]]) -> dict[int, float]:
    """Sum of 1 / (60 + rank) over the rankings that an item is in; ranks start at 1.

    Args:
        rankings: items, best first.

    Returns:
        The score of every item, scaled so that the first of all non-empty rankings has 1.
    """
    fused: dict[int, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            fused[item] = fused.get(item, 0.0) + 1 / (RANK_OFFSET + rank)
    best = sum(1 for ranking in rankings if ranking)
    return {item: score * (RANK_OFFSET + 1) / best for item, score in fused.items()}
