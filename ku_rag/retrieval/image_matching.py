"""Match the stored pictures of units with a picture: which, where, and how well.

There are three ways. Windows are guesses: they are scored, and the best matches are registered and
scored again. Regions of a model show one thing each: they are compared as they are. Where texts and
pictures are comparable, the question first chooses the one region that it is about (KU-RAG, section
3.3.1).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from PIL.Image import Image
from threadpoolctl import threadpool_limits

from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.indexes.vector_index import Rows, VectorIndex
from ku_rag.regions.base import Segmenter
from ku_rag.regions.crops import Background, crop
from ku_rag.regions.selection import choose
from ku_rag.retrieval.registration import rescore
from ku_rag.retrieval.window_matching import NEAREST, Owner, RegionMatch, Search, match_windows
from ku_rag.store.connection import Connection, as_json
from ku_rag.types import Region

_MATCHES = 60
_STEEPNESS = 20.0
"""Scores of regions times this are comparable with scores of windows in `matching`: a difference
of 0.125 in cosine is large."""
_SIMILARITY, _EDGES, INTERCEPT = 6.5, 2.5, -6.4
"""Log odds that a match of windows is right: the first two times its similarity and its edges, plus
the third. Fitted to flags, groceries and icons; see docs/decisions/0043."""
_THRESHOLD = 0.4
_blas_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Calibration:
    """What makes a probability of the evidence for a match.

    Args:
        models: fingerprints of the encoder and the segmenter that it holds for.
        intercept: added to the evidence, it gives log odds; None where it is not known.
        threshold: confidence from which on a match is sure, 0 to 1.
    """

    models: str
    intercept: float | None
    threshold: float


@dataclass(frozen=True, slots=True)
class ImageSearch:
    """What a picture is matched with.

    Args:
        encoder: the base's own.
        segmenter: makes what proposes regions, at the first picture.
        images: index of the stored pictures.
        picture: the stored picture of a row, RGB.
        threshold: cosine to the question from which on a region is meant.
        background: what becomes of the background of a region with a mask.
        tuned: what `ku tune --confidence` found, if it was run.
        least: confidence from which on a match is sure; 0 takes the tuned or the default one.
    """

    encoder: Encoder
    segmenter: Callable[[], Segmenter]
    images: VectorIndex
    picture: Callable[[int], Image]
    threshold: float
    background: Background
    tuned: Calibration | None
    least: float

    @property
    def models(self) -> str:
        """The fingerprints of the encoder and the segmenter."""
        return f"{self.encoder.fingerprint} {self.segmenter().fingerprint}"


@dataclass(frozen=True, slots=True)
class ImageMatches:
    """The units whose pictures match.

    Args:
        units: the best match of each unit, by its row, the best first.
        region: the one that the question chose before anything was compared; None if it did not.
        threshold: confidence from which on a match is sure, 0 to 1.
    """

    units: Mapping[int, RegionMatch]
    region: Region | None = None
    threshold: float = 0.0

    def is_sure(self, unit: int) -> bool:
        """Whether the confidence of a unit reaches the threshold; True where it is not known."""
        confidence = self.units[unit].confidence
        return confidence is None or confidence >= self.threshold


def match_image(
    connection: Connection,
    image: Image,
    question: str,
    search: ImageSearch,
    *,
    among: Collection[int] | None = None,
) -> ImageMatches:
    """Find the units whose pictures match an RGB picture.

    Args:
        connection: the store.
        image: RGB, upright.
        question: chooses the region where texts and pictures are comparable.
        search: what the picture is matched with.
        among: rows of the units that count; None for all.
    """
    shown = None if among is None else _shown(connection, among)
    if search.images.count == 0 or (shown is not None and not len(shown)):
        return ImageMatches({})
    nearest = partial(search.images.search, among=shown)
    owner = _owners(connection, among)
    encoder = side(search.encoder, "image")
    segmenter = search.segmenter()
    chosen = None
    windows = segmenter.name == "windows" and not encoder.cross_modal
    if windows:
        with one_blas_thread():
            found = match_windows(
                image, encoder=encoder, segmenter=segmenter, search=nearest, owner=owner, k=_MATCHES
            )
            matches = rescore(image, found, search.picture)
    else:
        regions = [Region((0, 0, *image.size), "whole"), *segmenter.propose(image)]
        if encoder.cross_modal:
            chosen = choose(
                image,
                question,
                regions[1:],
                encoder,
                threshold=search.threshold,
                background=search.background,
            )
            regions = [chosen]
        matches = match_regions(
            image,
            regions=regions,
            encoder=encoder,
            search=nearest,
            owner=owner,
            background=search.background,
            k=_MATCHES,
        )
        matches = [replace(match, score=_STEEPNESS * match.score) for match in matches]
    units: dict[int, RegionMatch] = {}
    for match in matches:
        for unit in owner(match.image_row):
            units.setdefault(unit, match)
    return _with_confidence(ImageMatches(units, chosen), search, windows=windows)


def evidence(match: RegionMatch) -> float:
    """Return the log odds that a match is right, up to a constant, the intercept."""
    return _SIMILARITY * match.similarity + _EDGES * match.edges


def _with_confidence(found: ImageMatches, search: ImageSearch, *, windows: bool) -> ImageMatches:
    """Add their confidence to matches of windows, or of regions of a model."""
    calibration = search.tuned
    if calibration is None or calibration.models != search.models:
        calibration = Calibration(search.models, INTERCEPT if windows else None, _THRESHOLD)
    units = {}
    for unit, match in found.units.items():
        confidence = None
        if calibration.intercept is not None:
            odds = max(evidence(match) + calibration.intercept, -500.0)
            confidence = 1 / (1 + math.exp(-odds))
        units[unit] = replace(match, confidence=confidence)
    return replace(found, units=units, threshold=search.least or calibration.threshold)


def _shown(connection: Connection, units: Collection[int]) -> Rows:
    found = connection.execute(
        "SELECT DISTINCT image FROM json_each(?) w CROSS JOIN unit_images l ON l.unit = w.value",
        (as_json(units),),
    )
    return np.array([row for (row,) in found], np.int64)


def _owners(connection: Connection, among: Collection[int] | None) -> Owner:
    known: dict[int, frozenset[int]] = {}

    def owner(row: int) -> frozenset[int]:
        if row not in known:
            found = connection.execute(
                "SELECT unit FROM unit_images WHERE image = ? AND unit IS NOT NULL", (row,)
            )
            known[row] = frozenset(u for (u,) in found if among is None or u in among)
        return known[row]

    return owner


def match_regions(
    image: Image,
    *,
    regions: Sequence[Region],
    encoder: Encoder,
    search: Search,
    owner: Owner,
    background: Background = "mask",
    k: int = 10,
) -> list[RegionMatch]:
    """Match stored pictures with regions that a model proposed, each of which shows one thing.

    Such a region is cut out once and compared as it is. The score is the cosine plus its lead over
    the best picture of any other unit in the same region, because a region that resembles many
    units shows none of them. These matches have no confidence.

    Args:
        image: RGB, upright.
        regions: the regions to compare; the whole picture is not added.
        encoder: the one that made the stored vectors.
        search: finds stored pictures for vectors.
        owner: the units of a stored picture; pictures of one unit do not compete.
        background: what becomes of the background where a region has a mask, see `crop`.
        k: the most matches returned.

    Returns:
        Matches, the best first, each at its best region.
    """
    if not regions:
        return []
    vectors = encoder.encode_images([crop(image, region, background) for region in regions])
    rows, cosines = search(vectors, NEAREST)
    found: dict[int, RegionMatch] = {}
    for region, near, similar in zip(regions, rows, cosines, strict=True):
        pairs = [(int(row), float(cosine)) for row, cosine in zip(near, similar, strict=True)]
        pairs = [(row, cosine) for row, cosine in pairs if row >= 0]
        units = {row: owner(row) for row, _ in pairs}
        for row, cosine in pairs:
            rivals = [c for other, c in pairs if other != row and not units[other] & units[row]]
            score = round(cosine + (cosine - max(rivals) if rivals else 0.0), 4)
            if row not in found or score > found[row].score:
                found[row] = RegionMatch(
                    image_row=row,
                    cosine=round(cosine, 4),
                    score=score,
                    region=replace(region, score=score),
                    similarity=score,
                )
    return sorted(found.values(), key=lambda match: (-match.score, match.image_row))[:k]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread, unless another thread of the process is in such a block already.

    The matrices of a picture are small: a second BLAS thread only waits, at full load. The limit
    holds for the whole process, so one thread at a time sets it, and the same thread restores the
    former number. A concurrent question runs under whatever limit there is.
    """
    if not _blas_lock.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        _blas_lock.release()
