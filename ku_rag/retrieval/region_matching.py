"""Match stored pictures with regions that a model proposed, each of which shows one thing.

Such a region is cut out once and compared with the stored pictures as it is; `window_matching`
also judges borders and sizes, because most windows show no thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from ku_rag.encoders.base import Encoder
from ku_rag.regions.crops import Background, crop
from ku_rag.retrieval.window_matching import NEAREST, Owner, RegionMatch, Search
from ku_rag.types import Region


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
    """Match stored pictures with regions of an RGB picture, the best first, each at its best one.

    The score is the cosine plus its lead over the best picture of any other unit in the same
    region, because a region that resembles many units shows none of them.

    Args:
        image: RGB, upright.
        regions: the regions to compare; the whole picture is not added.
        encoder: the one that made the stored vectors.
        search: finds stored pictures for vectors.
        owner: the units of a stored picture; pictures of one unit do not compete.
        background: what becomes of the background where a region has a mask, see `crop`.
        k: the most matches returned.
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
                )
    return sorted(found.values(), key=lambda match: (-match.score, match.image_row))[:k]
