"""Which stored pictures are seen in regions that a model proposed: each region is one thing.

Windows are guesses, which `sighting` judges by their borders and looks at again; regions of single
things need neither. Each is cut out once and compared with the stored pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL.Image import Image

from ku_rag.encoders.base import Encoder
from ku_rag.regions.crops import Background, crop
from ku_rag.retrieval.sighting import Owner, Search, Sighting
from ku_rag.types import Region

_NEAR = 24


def glance(
    image: Image,
    *,
    regions: Sequence[Region],
    encoder: Encoder,
    search: Search,
    owner: Owner,
    background: Background = "mask",
    k: int = 10,
) -> list[Sighting]:
    """Find stored pictures in regions of an RGB picture, the clearest first, each at its best one.

    A picture is seen the more clearly the higher its cosine, and the further it stands above the
    best picture of any other unit in the same region: something that looks a little like everything
    is nothing in particular.

    Args:
        image: RGB, upright.
        regions: those looked at, and no others: the whole picture too if it is to be among them.
        encoder: the one that made the stored vectors.
        search: finds stored pictures for vectors.
        owner: the units of a stored picture; pictures that share one are no rivals.
        background: what becomes of the background where a region has a mask, see `crop`.
        k: the most sightings returned.
    """
    if not regions:
        return []
    vectors = encoder.encode_images([crop(image, region, background) for region in regions])
    rows, cosines = search(vectors, _NEAR)
    at_whole = [at for at, region in enumerate(regions) if region.source == "whole"]
    of_whole = {
        int(row): round(float(cosine), 4)
        for at in at_whole
        for row, cosine in zip(rows[at], cosines[at], strict=True)
    }
    found: dict[int, Sighting] = {}
    for region, near, similar in zip(regions, rows, cosines, strict=True):
        seen = [(int(row), float(cosine)) for row, cosine in zip(near, similar, strict=True)]
        seen = [(row, cosine) for row, cosine in seen if row >= 0]
        units = {row: owner(row) for row, _ in seen}
        for row, cosine in seen:
            rivals = [c for other, c in seen if other != row and not units[other] & units[row]]
            score = round(cosine + (cosine - max(rivals) if rivals else 0.0), 4)
            if row not in found or score > found[row].score:
                found[row] = Sighting(
                    image_row=row,
                    cosine=round(cosine, 4),
                    score=score,
                    region=replace(region, score=score),
                    frame=_frame(region),
                    whole=of_whole.get(row, 0.0),
                )
    return sorted(found.values(), key=lambda one: (-one.score, one.image_row))[:k]


def _frame(region: Region) -> tuple[float, ...]:
    """Centre x and y, width, height; neither turned nor slanted."""
    corners = np.array(region.box, float)
    middle, size = (corners[:2] + corners[2:]) / 2, corners[2:] - corners[:2]
    return (*middle.tolist(), *size.tolist(), 0.0, 0.0)
