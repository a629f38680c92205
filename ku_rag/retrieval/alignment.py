"""A closer look: does the stored picture itself lie in the picture, colour by colour?

The descriptor says what looks alike; it takes a part of a thing for another thing that looks like
that part, and a thing half hidden for something else. Here each stored picture that was sighted is
laid over the picture, at its own place and at those of the clearest sightings, and moved, turned,
stretched and waved until it fits best. Colours are compared robustly: shading and exposure are
allowed for, and what hides a part of the thing counts as missing, not as wrong. What fits, how much
of the picture it explains, whether edges lie where they should, whether its colours are rare in the
rest of the picture, and what the descriptor said become one score, whose weights
were fitted to generated scenes (benchmarks/fit_alignment.py).

Where nothing fits well, as with things that are not flat, the whole picture has its say instead: a
photograph of one thing is best compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.retrieval.cutting import Cutter, Frames, box_of, corners, overlap
from ku_rag.retrieval.laying import HIGH, WIDE, Fit, Levels, colours_of, lay, thumbnail
from ku_rag.retrieval.sighting import Sighting

_LOOKED_AT = 12
"""Sightings that are looked at again."""
_PLACES = 2
"""Places of other, clearer sightings where each one is tried, too."""
_APART = 0.5
_SEED = 20240229
_HIDDEN = 0.5
"""Share of points that fit from which on covering more explains more."""
_LEAST = 0.002
_FAR = 3
"""Points so far apart are compared to see edges: nearer ones would ask for too exact a fit."""
_STEP, _SHARP, _SAME_STEP = 0.1, 0.3, 0.12
"""A difference of colour above the first is an edge, it counts up to the second, and is as expected
within the third."""
_GLANCE = (80, 60)
"""Size at which the colours of the rest of the picture are counted."""
_SHADES = 6
"""Shades a channel that are told apart there."""

_FEATURES = (
    "score", "cosine", "explained", "edges", "same edges", "rare", "inside another", "size", "tint",
    "turn",
)  # fmt: skip
WEIGHTS = dict(
    zip(
        _FEATURES,
        (1.0, 0.55, 0.17, 0.33, 0.17, 0.15, -0.63, 0.08, -0.99, -0.66),
        strict=True,
    )
)
"""In units of the sighting's own score."""
_CONVINCING = 0.4
"""Share of points that must fit closely somewhere for the closer look to have a say."""
_FLAT, _ROUND = 0.73, 0.58
"""Between these shares of points that fit closely, the whole picture's say grows from none to all:
90 % of 300 tuning scenes with flags reach 0.64, 90 % of 122 tuning photographs in shops stay below
0.58."""
_WHOLE = 1.5
"""What a cosine of 1 to the whole picture is then worth."""


def align(
    image: Image, sightings: Sequence[Sighting], picture: Callable[[int], Image]
) -> list[Sighting]:
    """Score the clearest sightings again by how well the stored pictures fit.

    Args:
        image: RGB, upright.
        sightings: clearest first.
        picture: the stored picture of a row, RGB.

    Returns:
        The sightings in their new order; the first twelve were looked at.
    """
    looked_at = sightings[:_LOOKED_AT]
    if len(looked_at) < 2:
        return list(sightings)
    features, fits = look_closer(image, looked_at, [picture(s.image_row) for s in looked_at])
    best = max(fit.close for fit in fits)
    doubt = min(max((_FLAT - best) / (_FLAT - _ROUND), 0.0), 1.0)
    scores = np.array([sighting.score for sighting in sightings])
    boxes = [sighting.region.box for sighting in sightings]
    if best >= _CONVINCING:
        fitting = features @ np.array([WEIGHTS[name] for name in _FEATURES])
        scores[: len(fits)] = fitting + scores[0] - fitting.max()
        # What was not looked at closely cannot go before what was, unless nothing is flat here.
        above = np.maximum(scores[len(fits) :] - scores[: len(fits)].min(), 0.0)
        scores[len(fits) :] -= (1 - doubt) * above
        boxes[: len(fits)] = [box_of(fit.frame, image.size) for fit in fits]
    whole = np.array([sighting.whole for sighting in sightings])
    scores += _WHOLE * doubt * np.maximum(whole - min(whole[whole > 0], default=0.0), 0.0)
    again = [
        replace(
            sighting,
            score=round(float(score), 4),
            region=replace(sighting.region, box=box, score=round(float(score), 4)),
        )
        for sighting, score, box in zip(sightings, scores, boxes, strict=True)
    ]
    return sorted(again, key=lambda sighting: -sighting.score)


def look_closer(
    image: Image, sightings: Sequence[Sighting], pictures: Sequence[Image]
) -> tuple[NDArray[np.float64], list[Fit]]:
    """What the score is made of: float64[n, 10], one row a sighting, and where each fits best."""
    cutter = Cutter(image)
    levels = Levels.of(cutter.levels)
    random = np.random.default_rng(_SEED)
    places = _places(sightings)
    fits = [
        lay(levels, thumbnail(picture), np.array([sighting.frame, *places]), random)
        for sighting, picture in zip(sightings, pictures, strict=True)
    ]
    found = np.stack([fit.frame for fit in fits])
    share = found[:, 2] * found[:, 3] / (image.width * image.height)
    close = np.array([fit.close for fit in fits])
    edges, same_edges = _steps(fits)
    columns = (
        [sighting.score for sighting in sightings],
        [sighting.cosine for sighting in sightings],
        np.log(np.maximum((close - _HIDDEN) * share, _LEAST)),
        edges,
        same_edges,
        _rare(image, fits),
        _inside_another(found, np.array([fit.tight for fit in fits])),
        np.log(share),
        [fit.tint for fit in fits],
        found[:, 4] ** 2,
    )
    return np.stack([np.asarray(column, np.float64) for column in columns], 1), fits


def _places(sightings: Sequence[Sighting]) -> list[tuple[float, ...]]:
    """The frames of the clearest sightings that lie apart from each other."""
    boxes = np.array([sighting.region.box for sighting in sightings], np.int64)
    kept: list[int] = []
    for i in range(len(sightings)):
        if not kept or overlap(boxes[kept], boxes[i]).max() < _APART:
            kept.append(i)
    return [sightings[i].frame for i in kept[:_PLACES]]


def _steps(fits: Sequence[Fit]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many edges of each stored picture are seen, and which share of its edges, float64[n].

    What stands before a thing hides some of its edges; something else that has the thing's colours
    has its edges in other places.
    """
    shape = (len(fits), HIGH, WIDE, 3)
    seen = np.stack([fit.colours for fit in fits]).reshape(shape)
    expected = np.stack([fit.expected for fit in fits]).reshape(shape)
    there, confirmed = np.zeros((2, len(fits)))
    for down, across in ((_FAR, 0), (0, _FAR)):
        step, wanted = (
            points[:, down:, across:] - points[:, : HIGH - down, : WIDE - across]
            for points in (seen, expected)
        )
        same = np.exp(-((step - wanted) ** 2).sum(3) / (2 * _SAME_STEP**2))
        sharp = np.clip(np.sqrt((wanted**2).sum(3)) - _STEP, 0, _SHARP)
        there += sharp.sum((1, 2))
        confirmed += (sharp * same).sum((1, 2))
    return confirmed / WIDE, confirmed / (there + 0.5)


def _rare(image: Image, fits: Sequence[Fit]) -> NDArray[np.float64]:
    """How rare the colours that fit are in the rest of the picture, in nats a point, float64[n].

    White and blue may well be clouds and sky; a red that is nowhere else is no chance.
    """
    codes = _shades(colours_of(image.resize(_GLANCE, Resampling.BOX))).ravel()
    columns, rows = np.meshgrid(np.arange(_GLANCE[0]) + 0.5, np.arange(_GLANCE[1]) + 0.5)
    x = columns.ravel() * image.width / _GLANCE[0]
    y = rows.ravel() * image.height / _GLANCE[1]
    rare = np.empty(len(fits))
    for i, fit in enumerate(fits):
        middle_x, middle_y, width, height, turn, slant = fit.frame
        cos, sin = np.cos(turn), np.sin(turn)
        across = (x - middle_x) * cos + (y - middle_y) * sin
        down = (y - middle_y) * cos - (x - middle_x) * sin - across * slant
        outside = (np.abs(across) > width / 2) | (np.abs(down) > height / 2)
        counts = np.bincount(codes[outside], minlength=_SHADES**3) + 1.0
        rare[i] = (fit.weights * -np.log(counts / counts.sum())[_shades(fit.colours)]).mean()
    return rare


def _shades(colours: NDArray[np.float32]) -> NDArray[np.int64]:
    steps = (colours * (_SHADES - 0.001)).astype(np.int64)
    return (steps[..., 0] * _SHADES + steps[..., 1]) * _SHADES + steps[..., 2]


def _inside_another(frames: Frames, tight: NDArray[np.float64]) -> NDArray[np.float64]:
    """How tightly something larger fits around each frame: then it may be a part of that."""
    around = np.zeros(len(frames))
    across, down = np.array([[-0.5, 0.5, 0.5, -0.5]]), np.array([[-0.5, -0.5, 0.5, 0.5]])
    x, y = corners(frames, across, down)
    low, high = np.stack([x.min(1), y.min(1)], 1), np.stack([x.max(1), y.max(1)], 1)
    areas = np.prod(high - low, axis=1)
    for i in range(len(frames)):
        shared = np.maximum(np.minimum(high, high[i]) - np.maximum(low, low[i]), 0).prod(1)
        holding = (areas > 1.4 * areas[i]) & (shared > 0.7 * areas[i])
        around[i] = tight[holding].max(initial=0.0)
    return around
