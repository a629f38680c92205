"""Retrieval as published (KU-RAG, eq. 7 to 10), for reproduction: cosines and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL.Image import Image

from ku_rag.encoders.base import encode_queries
from ku_rag.retrieval.image_matching import ImageSearch, match_image
from ku_rag.retrieval.matching import UnitMatch
from ku_rag.retrieval.search import ChunkSearch, rewrite
from ku_rag.store.connection import Connection
from ku_rag.types import Region


def match_pictures(
    connection: Connection, *, image: Image, question: str, search: ImageSearch, k: int
) -> tuple[list[UnitMatch], Region]:
    """Return the k units whose pictures are nearest to the region, and the region (eq. 4 to 7).

    Args:
        connection: the store.
        image: RGB, upright.
        question: chooses the region where texts and pictures are comparable.
        search: what the picture is matched with.
        k: most units.
    """
    found, chosen = match_image(connection, image, question, search)
    nearest = sorted(found.items(), key=lambda one: -one[1].cosine)[:k]
    matches = [
        UnitMatch(
            unit=unit,
            score=round(match.cosine, 4),
            confidence=None,
            sure=True,
            region_match=match,
            name=None,
            why=f"its picture is near (cosine {match.cosine:.2f})",
        )
        for unit, match in nearest
    ]
    whole = Region((0, 0, *image.size), "whole", None, "nothing in it looks like a stored picture")
    return matches, chosen or (nearest[0][1].region if nearest else whole)


def rank_chunks(
    base: ChunkSearch, question: str, units: Sequence[tuple[int, str]], k: int
) -> list[tuple[int, float]]:
    """Return the k chunks of units, (row, name), nearest to the rewritten question: row, cosine."""
    vectors = encode_queries(base.encoder, [rewrite(question, name) for _, name in units])
    best: dict[int, float] = {}
    for (unit, _), vector in zip(units, vectors, strict=True):
        listed = base.connection.execute("SELECT chunk FROM unit_chunks WHERE unit = ?", (unit,))
        among = np.fromiter((row for (row,) in listed), np.int64)
        rows, cosines = base.chunks.search(vector[None], k, among=among)
        for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True):
            if row >= 0:
                best[row] = max(round(cosine, 4), best.get(row, -1.0))
    return sorted(best.items(), key=lambda one: (-one[1], one[0]))[:k]
