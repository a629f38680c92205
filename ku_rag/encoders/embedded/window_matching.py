"""Match stored pictures with windows of a picture.

A window is a guess, and most windows show no stored picture. One linear rule scores each pair of a
window and a stored picture: the cosine of their vectors, how far it stands above the cosines of
other units in the same window, how much the border of the window contrasts with its surround, and
the size of the window, because a part of a thing looks like many things.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.encoders.base import Encoder, Vectors, region_share
from ku_rag.types import Region

Search = Callable[[Vectors, int], tuple[NDArray[np.int64], NDArray[np.float32]]]
"""(queries float32[n, d], k) → rows int64[n, k] and cosines float32[n, k]; row -1 is a miss."""

Owners = Callable[[Collection[int]], Mapping[int, frozenset[int]]]
"""The units that each of some stored pictures belongs to."""

LOWEST_COSINE = 0.15
"""Pairs below it are not reported. It only removes noise and does not detect unknown things."""
NEAREST = 24
"""Stored pictures that are compared with each window."""
_TENTH = 9
_LEAD, _CLEARANCE, _CONTRAST, _SIZE = 0.5, 0.3, 0.25, 0.06
"""Weights beside the cosine, set by hand on tuning data; docs/decisions/0011 gives the figures."""
_CONTRAST_OF_WHOLE = 0.3
"""The whole picture has no surround; it counts as a window of this contrast."""


@dataclass(frozen=True, slots=True)
class RegionMatch:
    """A stored picture that matches a region of the picture.

    Args:
        cosine: of its vector and that of the region.
        score: how well it matches; comparable within one picture only.
        whole: cosine of its vector and that of the whole picture, above the lowest one found; 0 if
            it is not among those found.
        similarity: the score of the region alone, before registration.
        edges: how many edges of the stored picture registration has confirmed.
        network: cosine of what a network sees in the whole picture and in the stored one; None
            where it is not known.
        is_contradicted: whether the picture as a whole shows another unit.
        rarity: sum of the rarities, 0 to 1, of the words read in the picture that the unit has.
        words: these words, as they are printed, the rarest first.
        confidence: the probability that it is right, 0 to 1; None where that is not known.
        sure: whether the confidence reaches the threshold; True where it is not known.
    """

    image_row: int
    cosine: float
    score: float
    region: Region
    whole: float = 0.0
    similarity: float = 0.0
    edges: float = 0.0
    network: float | None = None
    is_contradicted: bool = False
    rarity: float = 0.0
    words: tuple[str, ...] = ()
    confidence: float | None = None
    sure: bool = True


def match_windows(
    image: Image,
    *,
    encoder: Encoder,
    windows: Sequence[Region],
    search: Search,
    owners: Owners,
    k: int = 60,
    lowest_cosine: float = LOWEST_COSINE,
) -> list[RegionMatch]:
    """Match stored pictures with an RGB picture, the best first, each at its best window.

    The encoder made the stored vectors. The scores of the windows are their contrasts. The whole
    picture is added to them. Pictures of one unit, by `owners`, do not compete. Pairs with a lower
    cosine than `lowest_cosine` are left out.
    """
    regions = [Region((0, 0, *image.size), "whole"), *windows]
    boxes = np.array([region.box for region in regions], np.int64)
    rows, cosines = search(encoder.encode_regions(image, [r.box for r in regions]), NEAREST)
    cosines = cosines / np.float32(region_share(encoder))
    count = int((rows[0] >= 0).sum())
    if count == 0:
        return []
    rows, cosines = rows[:, :count], cosines[:, :count]
    share = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) / (image.width * image.height)
    border = np.array([_CONTRAST_OF_WHOLE, *(window.score for window in windows)], np.float32)
    scores = (
        cosines
        + _LEAD * _leads(rows, cosines, owners)
        + _CLEARANCE * (cosines - cosines[:, min(_TENTH, count - 1), None])
        + (_CONTRAST * border + _SIZE * np.log(share))[:, None]
    )
    whole = dict(zip(rows[0].tolist(), (cosines[0] - cosines[0].min()).tolist(), strict=True))
    order = np.argsort(-scores, axis=None, kind="stable")
    order = order[cosines.ravel()[order] >= lowest_cosine]
    _, first = np.unique(rows.ravel()[order], return_index=True)
    matches = []
    for i in order[np.sort(first)[:k]].tolist():
        window, place = divmod(i, count)
        row, score = int(rows[window, place]), round(float(scores[window, place]), 4)
        region = Region(regions[window].box, regions[window].source, score)
        cosine = round(float(cosines[window, place]), 4)
        matches.append(RegionMatch(row, cosine, score, region, whole.get(row, 0.0), score))
    return matches


def _leads(
    rows: NDArray[np.int64], cosines: NDArray[np.float32], owners: Owners
) -> NDArray[np.float32]:
    """How far each cosine stands above the best one of any other unit in its window, float32[n, k].

    A picture that belongs to no unit counts as a unit of its own.
    """
    known, at = np.unique(rows, return_inverse=True)
    units_of = owners(known.tolist())
    units = np.array([min(units_of[row], default=-2 - row) for row in known.tolist()])
    units = units[at.reshape(rows.shape)]
    others = units != units[:, :1]
    second = np.where(others, cosines, np.float32(-1)).max(1)
    second = np.where(others.any(1), second, cosines[:, 0])
    leads: NDArray[np.float32] = cosines - np.where(others, cosines[:, :1], second[:, None])
    return leads
