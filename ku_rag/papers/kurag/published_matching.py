"""Retrieval as published (KU-RAG, eq. 4 to 10): cosines and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL.Image import Image

from ku_rag.encoders.base import encode_queries
from ku_rag.encoders.embedded.window_matching import RegionMatch
from ku_rag.encoders.pair import side
from ku_rag.papers.kurag.content_words import ContentWords
from ku_rag.regions.crops import crop
from ku_rag.regions.selection import choose
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.image_matching import ImageSearch
from ku_rag.retrieval.matching import unit_match
from ku_rag.retrieval.search import rewrite
from ku_rag.store.connection import as_json
from ku_rag.types import Match, Region

_BLOCK = 1 << 14
"""Pictures whose vectors are read at a time."""


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk, its cosine to the rewritten question, and the unit whose list brought it."""

    row: int
    cosine: float
    unit: Match


def match_pictures(base: Retrieval, image: Image, question: str, k: int) -> Matched:
    """Return the k units with the nearest pictures, and the compared region (eq. 4 to 6)."""
    connection, search = base.database.connection, base.image_search
    encoder = side(search.encoder, "image")
    region = _region(image, question, search)
    vector = encoder.encode_images([crop(image, region, search.background)])
    nearest: dict[int, tuple[float, int]] = {}
    pictures = search.images.rows()
    for start in range(0, len(pictures), _BLOCK):
        [rows], [cosines] = search.images.score(vector, pictures[None, start : start + _BLOCK])
        owners = connection.execute(
            "SELECT u.unit, w.key FROM json_each(?) w JOIN unit_images u ON u.image = w.value",
            (as_json(rows.tolist()),),
        )
        for unit, at in owners:
            candidate = (float(cosines[at]), int(rows[at]))
            nearest[unit] = max(candidate, nearest.get(unit, candidate))
    among = base.units.rows(connection)
    units = nearest.keys() if among is None else nearest.keys() & set(among.tolist())
    best = sorted(units, key=lambda unit: (-nearest[unit][0], unit))[:k]
    matches = []
    for unit in best:
        cosine, row = nearest[unit]
        region_match = RegionMatch(row, round(cosine, 4), cosine, region, similarity=cosine)
        why = f"its picture is near (cosine {cosine:.2f})"
        match = unit_match(base, unit, region_match, why=why)
        matches.append(replace(match, score=round(cosine, 4), confidence=None, sure=True))
    return Matched(matches, region)


def _region(image: Image, question: str, search: ImageSearch) -> Region:
    """Return the only region that the question is about; without such a one the whole picture."""
    encoder = side(search.encoder, "image")
    if not encoder.cross_modal:
        why = f"{encoder.fingerprint} cannot compare regions with a question: the whole picture"
        return Region((0, 0, *image.size), "whole", None, why)
    segmenter = search.segmenter()
    if by_class := getattr(segmenter, "suppressing_by_class", None):
        segmenter = by_class()
    regions = segmenter.propose(image)
    return choose(
        image, question, regions, encoder, threshold=search.threshold, background=search.background
    )


def rank_chunks(
    base: Retrieval, question: str, units: Sequence[Match], k: int, content: ContentWords
) -> list[RankedChunk]:
    """Return the k chunks of units nearest to the rewritten question (eq. 8 to 10)."""
    search, words = base.chunk_search, content.select(question)
    vectors = encode_queries(search.encoder, [rewrite(question, u.name, words) for u in units])
    passing = base.units.chunks(search.connection)
    best: dict[int, RankedChunk] = {}
    for unit, vector in zip(units, vectors, strict=True):
        of_unit = "SELECT chunk FROM unit_chunks WHERE unit = ?"
        among = np.array(search.connection.column(of_unit, (unit.row,)), np.int64)
        among = among if passing is None else np.intersect1d(among, passing)
        rows, cosines = search.chunks.search(vector[None], k, among=among)
        for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True):
            chunk = RankedChunk(row, round(cosine, 4), unit)
            if row >= 0 and (row not in best or chunk.cosine > best[row].cosine):
                best[row] = chunk
    return sorted(best.values(), key=lambda chunk: (-chunk.cosine, chunk.row))[:k]
