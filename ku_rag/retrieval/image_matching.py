"""Match the stored pictures of units with a picture: which, where, and how well.

There are three ways. Windows are guesses: they are scored, and the best matches are registered and
scored again. Regions of a model show one thing each: they are compared as they are. Where texts and
pictures are comparable, the question first chooses the one region that it is about (KU-RAG, section
3.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from PIL.Image import Image

from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.regions.base import Segmenter
from ku_rag.regions.crops import Background
from ku_rag.regions.selection import choose
from ku_rag.retrieval.region_matching import match_regions
from ku_rag.retrieval.rescoring import rescore
from ku_rag.retrieval.threads import one_blas_thread
from ku_rag.retrieval.window_matching import Owner, RegionMatch, match_windows
from ku_rag.store.connection import Connection
from ku_rag.types import Region

_MATCHES = 60
_STEEPNESS = 20.0
"""Scores of regions times this are comparable with scores of windows in `matching`: a difference
of 0.125 in cosine is large."""


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
    """

    encoder: Encoder
    segmenter: Callable[[], Segmenter]
    images: VectorIndex
    picture: Callable[[int], Image]
    threshold: float
    background: Background


@dataclass(frozen=True, slots=True)
class ImageMatches:
    """The units whose pictures match.

    Args:
        units: the best match of each unit, by its row; scores are comparable within one picture.
        region: the one that the question chose before anything was compared; None if it did not.
    """

    units: Mapping[int, RegionMatch]
    region: Region | None = None


def match_image(
    connection: Connection, image: Image, question: str, search: ImageSearch
) -> ImageMatches:
    """Find the units whose pictures match an RGB picture.

    Args:
        connection: the store.
        image: RGB, upright.
        question: chooses the region where texts and pictures are comparable.
        search: what the picture is matched with.
    """
    if search.images.count == 0:
        return ImageMatches({})
    owner = _owners(connection)
    encoder = side(search.encoder, "image")
    segmenter = search.segmenter()
    if segmenter.name == "windows" and not encoder.cross_modal:
        with one_blas_thread():
            matches = match_windows(
                image,
                encoder=encoder,
                segmenter=segmenter,
                search=search.images.search,
                owner=owner,
                k=_MATCHES,
            )
            return ImageMatches(_by_unit(rescore(image, matches, search.picture), owner))
    chosen = None
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
        search=search.images.search,
        owner=owner,
        background=search.background,
        k=_MATCHES,
    )
    scaled = [replace(match, score=_STEEPNESS * match.score) for match in matches]
    return ImageMatches(_by_unit(scaled, owner), chosen)


def _owners(connection: Connection) -> Owner:
    known: dict[int, frozenset[int]] = {}

    def owner(row: int) -> frozenset[int]:
        if row not in known:
            found = connection.execute(
                "SELECT unit FROM unit_images WHERE image = ? AND unit IS NOT NULL", (row,)
            )
            known[row] = frozenset(unit for (unit,) in found)
        return known[row]

    return owner


def _by_unit(matches: list[RegionMatch], owner: Owner) -> dict[int, RegionMatch]:
    """The best match of each unit."""
    best: dict[int, RegionMatch] = {}
    for match in matches:
        for unit in owner(match.image_row):
            if unit not in best or match.score > best[unit].score:
                best[unit] = match
    return best
