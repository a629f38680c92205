"""Score the best matches again by registration and an edge check.

A descriptor says what looks alike; it takes a part of a thing for another thing that looks like
that part. Here each stored picture is registered with the picture (`registration`), and the edges
of the stored picture that are confirmed there raise its score. What stands before a thing hides
some of its edges; another thing in the same colours has its edges in other places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from PIL.Image import Image

from ku_rag.retrieval.rectangles import Pyramid, box_of, frames_of, overlap
from ku_rag.retrieval.registration import HIGH, WIDE, Registration, register, thumbnail
from ku_rag.retrieval.window_matching import RegionMatch

CANDIDATES = 12
"""Matches that are registered."""
_PLACES = 2
"""Places of other, better matches where the registration of each may begin, too."""
_APART = 0.5
_SEED = 20240229
_EDGES = 0.2
"""What one confirmed edge across the whole thing adds to a score; see docs/decisions/0011."""
_FLAT, _SOLID = 0.55, 0.45
"""Shares of agreeing points. Above the first, the box of the registration replaces that of the
window. Between them the whole picture gains weight: where no stored picture can be registered, as
with things that are not flat, a photograph is best compared as a whole."""
_STEP = 3
"""Distance of the points between which an edge is looked for: closer ones would ask for too exact a
registration."""
_LEAST, _MOST, _TOLERANCE = 0.1, 0.3, 0.12
"""A colour difference above the first is an edge and counts up to the second; a difference is
confirmed within the third. Colours go from 0 to 1."""


def rescore(
    image: Image, matches: Sequence[RegionMatch], picture: Callable[[int], Image]
) -> list[RegionMatch]:
    """Add the confirmed edges to the scores of the best matches, and sort again.

    Args:
        image: RGB, upright.
        matches: the best first.
        picture: the stored picture of a row, RGB.

    Returns:
        All matches, the best first; the first twelve of `matches` were registered.
    """
    candidates = matches[:CANDIDATES]
    if len(candidates) < 2:
        return list(matches)
    pyramid, random = Pyramid.of(image), np.random.default_rng(_SEED)
    frames = frames_of(np.array([match.region.box for match in candidates], np.int64))
    places = frames[_apart(candidates)]
    found = [
        register(pyramid, thumbnail(picture(match.image_row)), np.vstack([frame, places]), random)
        for match, frame in zip(candidates, frames, strict=True)
    ]
    best = max(registration.agreement for registration in found)
    doubt = min(max((_FLAT - best) / (_FLAT - _SOLID), 0.0), 1.0)
    rescored = []
    for match, registration in zip_longest(matches, found):
        score, box = match.score + doubt * match.whole, match.region.box
        if registration:
            score += _EDGES * confirmed_edges(registration)
            if registration.agreement > _FLAT:
                box = box_of(registration.frame, image.size)
        score = round(score, 4)
        region = replace(match.region, box=box, score=score)
        rescored.append(replace(match, score=score, region=region))
    return sorted(rescored, key=lambda match: -match.score)


def confirmed_edges(found: Registration) -> float:
    """How many edges of the stored picture, as long as it is wide, are seen where they should be.

    Returns:
        The sum of confirmed edge strengths over both directions, per column of points.
    """
    confirmed = 0.0
    seen, expected = (c.reshape(HIGH, WIDE, 3) for c in (found.colours, found.expected))
    for down, across in ((_STEP, 0), (0, _STEP)):
        step, wanted = (
            points[down:, across:] - points[: HIGH - down, : WIDE - across]
            for points in (seen, expected)
        )
        strength = np.clip(np.sqrt((wanted**2).sum(2)) - _LEAST, 0, _MOST)
        same = np.exp(-((step - wanted) ** 2).sum(2) / (2 * _TOLERANCE**2))
        confirmed += float((strength * same).sum())
    return confirmed / WIDE


def _apart(matches: Sequence[RegionMatch]) -> list[int]:
    """Numbers of the best matches whose regions lie apart from each other."""
    boxes = np.array([match.region.box for match in matches], np.int64)
    kept: list[int] = []
    for i in range(len(matches)):
        if not kept or overlap(boxes[kept], boxes[i]).max() < _APART:
            kept.append(i)
    return kept[:_PLACES]
