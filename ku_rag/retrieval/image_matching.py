"""What is seen in a picture: the stored pictures of units, where, and how clearly.

Three ways lead there. Windows are many guesses: they are sighted, then looked at closely. Regions
of a model are single things: they are glanced at. Where texts and pictures are comparable, the
question chooses the one region that it is about first (KU-RAG, section 3.3.1).
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
from ku_rag.retrieval.alignment import align
from ku_rag.retrieval.glancing import glance
from ku_rag.retrieval.sighting import Owner, Sighting, look
from ku_rag.store.connection import Connection
from ku_rag.types import Region

_SIGHTINGS = 60
_STEEPNESS = 20.0
"""What a score of a glance counts in scores of a closer look: 0.125 of a cosine is far apart."""


@dataclass(frozen=True, slots=True)
class Eyes:
    """What a picture is looked at with.

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
class Seen:
    """What was seen.

    Args:
        units: the best sighting of each unit, by its row; scores are comparable within one picture.
        region: the one that the question chose before anything was compared; None if it did not.
    """

    units: Mapping[int, Sighting]
    region: Region | None = None


def see(connection: Connection, image: Image, question: str, eyes: Eyes) -> Seen:
    """Find the units whose pictures are seen in an RGB picture.

    Args:
        connection: the store.
        image: RGB, upright.
        question: chooses the region where texts and pictures are comparable.
        eyes: what it is looked at with.
    """
    if eyes.images.count == 0:
        return Seen({})
    owner = _owners(connection)
    encoder = side(eyes.encoder, "image")
    segmenter = eyes.segmenter()
    if segmenter.name == "windows" and not encoder.cross_modal:
        sightings = look(
            image,
            encoder=encoder,
            segmenter=segmenter,
            search=eyes.images.search,
            owner=owner,
            k=_SIGHTINGS,
        )
        return Seen(_best(align(image, sightings, eyes.picture), owner))
    proposed = segmenter.propose(image)
    chosen = None
    regions = [Region((0, 0, *image.size), "whole"), *proposed]
    if encoder.cross_modal:
        chosen = choose(
            image,
            question,
            proposed,
            encoder,
            threshold=eyes.threshold,
            background=eyes.background,
        )
        regions = [chosen]
    sightings = glance(
        image,
        regions=regions,
        encoder=encoder,
        search=eyes.images.search,
        owner=owner,
        background=eyes.background,
        k=_SIGHTINGS,
    )
    return Seen(
        _best([replace(one, score=_STEEPNESS * one.score) for one in sightings], owner), chosen
    )


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


def _best(sightings: list[Sighting], owner: Owner) -> dict[int, Sighting]:
    best: dict[int, Sighting] = {}
    for sighting in sightings:
        for unit in owner(sighting.image_row):
            if unit not in best or sighting.score > best[unit].score:
                best[unit] = sighting
    return best
