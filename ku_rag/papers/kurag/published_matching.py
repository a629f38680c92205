"""Retrieval as published (KU-RAG, eq. 7 to 10), for reproduction: cosines and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL.Image import Image

from ku_rag.encoders.base import encode_queries
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.image_matching import match_image
from ku_rag.retrieval.matching import unit_match
from ku_rag.retrieval.search import ChunkSearch, rewrite
from ku_rag.types import Match, Region


def match_pictures(base: Retrieval, image: Image, question: str, k: int) -> Matched:
    """Return the k units whose pictures are nearest to the region, and the region (eq. 4 to 7)."""
    connection = base.database.connection
    by_unit, chosen = match_image(connection, image, question, base.image_search)
    nearest = sorted(by_unit.items(), key=lambda item: -item[1].cosine)[:k]
    matches = []
    for unit, seen in nearest:
        why = f"its picture is near (cosine {seen.cosine:.2f})"
        match = unit_match(base, unit, seen, why=why)
        score = round(seen.cosine, 4)
        matches.append(replace(match, score=score, confidence=None, sure=True))
    whole = Region((0, 0, *image.size), "whole", None, "nothing in it looks like a stored picture")
    return Matched(matches, chosen or (nearest[0][1].region if nearest else whole))


def rank_chunks(
    base: ChunkSearch, question: str, units: Sequence[Match], k: int
) -> list[tuple[int, float]]:
    """Return the k chunks of units nearest to the rewritten question: row, cosine."""
    vectors = encode_queries(base.encoder, [rewrite(question, unit.name) for unit in units])
    best: dict[int, float] = {}
    for unit, vector in zip(units, vectors, strict=True):
        listed = base.connection.execute(
            "SELECT chunk FROM unit_chunks WHERE unit = ?", (unit.row,)
        )
        among = np.fromiter((row for (row,) in listed), np.int64)
        rows, cosines = base.chunks.search(vector[None], k, among=among)
        for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True):
            if row >= 0:
                best[row] = max(round(cosine, 4), best.get(row, -1.0))
    return sorted(best.items(), key=lambda item: (-item[1], item[0]))[:k]
