"""A closer look: does the stored picture itself lie in the picture, colour by colour?

The descriptor says what looks alike; it takes a part of a thing for another thing that looks like
that part, and a thing half hidden for something else. Here each stored picture that was sighted is
laid over the picture, at its own place and at those of the clearest sightings, and moved, turned,
stretched and waved until it fits best. Colours are compared robustly: shading and exposure are
allowed for, and what hides a part of the thing counts as missing, not as wrong. What fits, how much
of the picture it covers, whether its borders stand out, and what the descriptor said become one
score, whose weights were fitted to generated scenes (benchmarks/fit_alignment.py).

Where nothing fits well, as with things that are not flat, the whole picture has its say instead: a
photograph of one thing is best compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.retrieval.cutting import Cutter, Frames, borders, box_of, corners, overlap, variety
from ku_rag.retrieval.sighting import Sighting

Floats = NDArray[np.float32]

_LOOKED_AT = 12
"""Sightings that are looked at again."""
_PLACES = 2
"""Places of other, clearer sightings where each one is tried, too."""
_APART = 0.5
_WIDE, _HIGH = 24, 18
"""Points at which colours are compared."""
_ROUNDS = ((30, 1.0), (26, 0.7), (26, 0.45), (20, 0.25))
"""How many ways of moving it are tried, and how far they stray from the best so far."""
_STRAY = np.array([0.06, 0.06, 0.08, 0.08, 0.10, 0.08, 0.04, 0.2, 0.12])
_MOST_TURN, _MOST_WAVE = 0.5, 0.12
_SEED = 20240229
_HOPELESS = 0.25
"""Share of points that fit closely below which a picture is not moved any further."""
_REWEIGHTINGS = 4
_TIGHT, _CLOSE = 0.06, 0.10
"""Colour differences, of 1, that count as fitting tightly and closely."""
_ALONG = 0.35
"""How much a difference in brightness alone counts, beside one in colour."""
_LARGER = 0.03
"""What covering e times as much is worth while moving, in shares of points that fit."""

_FEATURES = (
    "score", "cosine", "tight", "close", "size", "border", "variety", "close border",
    "inside another", "richness", "as rich",
)  # fmt: skip
WEIGHTS = dict(
    zip(
        _FEATURES,
        (1.0, 0.61, 0.99, 0.49, 0.07, 0.15, 0.17, 0.37, -0.50, 0.24, 0.05),
        strict=True,
    )
)
"""In units of the sighting's own score."""
_CONVINCING = 0.45
"""Share of points that must fit closely somewhere for the closer look to have a say."""
_FLAT, _ROUND = 0.80, 0.65
"""Between these shares of points that fit closely, the whole picture's say grows from none to all:
95 % of 110 tuning scenes with flags reach 0.66, 90 % of 324 tuning photographs in shops do not."""
_WHOLE = 1.5
"""What a cosine of 1 to the whole picture is then worth."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a stored picture lies over a picture where it fits best.

    Args:
        frame: float64[6], where that is.
        tight: share of its points whose colours differ by less than about 6 %.
        close: likewise, 10 %.
    """

    frame: NDArray[np.float64]
    tight: float
    close: float


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
    """What the score is made of: float64[n, 11], one row a sighting, and where each fits best."""
    levels = [_colours(level) for level in Cutter(image).levels]
    random = np.random.default_rng(_SEED)
    places = _places(sightings)
    fits = []
    for sighting, picture in zip(sightings, pictures, strict=True):
        frames = np.array([sighting.frame, *places])
        fits.append(_fit(levels, _thumbnail(picture), frames, random))
    found = np.stack([fit.frame for fit in fits])
    cutter = Cutter(image)
    border, seen = borders(cutter, found), variety(cutter, found)
    size = np.log(found[:, 2] * found[:, 3] / (image.width * image.height))
    tight = np.array([fit.tight for fit in fits])
    close = np.array([fit.close for fit in fits])
    richness = np.array([_richness(picture) for picture in pictures])
    columns = (
        [sighting.score for sighting in sightings],
        [sighting.cosine for sighting in sightings],
        tight,
        close,
        size,
        border,
        seen,
        close * border,
        _inside_another(found, tight),
        richness,
        np.abs(seen - richness),
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


def _fit(levels: list[Floats], wanted: Floats, frames: Frames, random: np.random.Generator) -> Fit:
    """Move a picture from the best of some frames to where it fits best (an evolution strategy)."""
    still = np.tile([0.0, 1.0, 0.0], (len(frames), 1))
    best, worth, shares = _best(levels, wanted, np.hstack([frames, still]))
    for count, (tries, stray) in enumerate(_ROUNDS):
        moved = np.repeat(best[None], tries, 0)
        step = random.normal(size=moved.shape) * _STRAY * stray
        moved[:, :2] += step[:, :2] * moved[:, 2:4]
        moved[:, 2:4] *= np.exp(step[:, 2:4])
        moved[:, 4:6] = np.clip(moved[:, 4:6] + step[:, 4:6], -_MOST_TURN, _MOST_TURN)
        moved[:, 6] = np.clip(moved[:, 6] + step[:, 6], -_MOST_WAVE, _MOST_WAVE)
        moved[:, 7] = np.clip(moved[:, 7] + step[:, 7], 0.5, 2.2)
        moved[:, 8] += step[:, 8]
        if count == 0:
            moved[:, 7], moved[:, 8] = random.uniform(0.7, 2, tries), random.uniform(0, 1, tries)
        found, better, fitting = _best(levels, wanted, moved)
        if better > worth:
            best, worth, shares = found, better, fitting
        if shares[1] < _HOPELESS:
            break
    return Fit(best[:6], float(shares[0]), float(shares[1]))


def _best(
    levels: list[Floats], wanted: Floats, ways: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    shares = _shares(*_sample(levels, ways), wanted)
    worth = shares[:, 1] + _LARGER * np.log(ways[:, 2] * ways[:, 3])
    at = int(worth.argmax())
    return ways[at], float(worth[at]), shares[at]


def _sample(levels: list[Floats], ways: NDArray[np.float64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Colours float32[n, points, 3] under waved frames float64[n, 9], and which lie in the picture.

    The last three numbers of a way are height, count and phase of a wave along the frame.
    """
    across, down = np.meshgrid((np.arange(_WIDE) + 0.5) / _WIDE - 0.5,
                               (np.arange(_HIGH) + 0.5) / _HIGH - 0.5)  # fmt: skip
    u, v = across.ravel()[None], down.ravel()[None]
    wave = ways[:, 6:7] * np.sin(2 * np.pi * (ways[:, 7:8] * u + ways[:, 8:9]))
    x, y = corners(ways, u, v + wave)
    spacing = np.minimum(ways[:, 2] / _WIDE, ways[:, 3] / _HIGH)
    fitting = np.clip(np.round(np.log2(np.maximum(spacing, 1))), 0, len(levels) - 1).astype(int)
    colours = np.empty((len(ways), u.size, 3), np.float32)
    inside = np.empty((len(ways), u.size), np.bool_)
    height, width = levels[0].shape[:2]
    for level in np.unique(fitting):
        of_level = fitting == level
        pixels = levels[level]
        high, wide = pixels.shape[:2]
        column = np.floor(x[of_level] * (wide / width)).astype(int)
        row = np.floor(y[of_level] * (high / height)).astype(int)
        inside[of_level] = (column >= 0) & (column < wide) & (row >= 0) & (row < high)
        at = np.clip(row, 0, high - 1) * wide + np.clip(column, 0, wide - 1)
        colours[of_level] = pixels.reshape(-1, 3)[at]
    return colours, inside


def _shares(colours: Floats, inside: NDArray[np.bool_], wanted: Floats) -> NDArray[np.float64]:
    """Shares of points that fit tightly and closely, float64[n, 2].

    Colours may differ by a gain for each channel, nearly the same for all three (exposure, white
    balance), found by reweighted least squares, so that what hides the thing does not count.
    """
    weights = inside.astype(np.float32)
    squares = np.empty_like(weights)
    for _ in range(_REWEIGHTINGS):
        by_point = weights[..., None]
        gain = (by_point * colours * wanted).sum(1) / ((by_point * wanted**2).sum(1) + 1e-3)
        middle = gain.mean(1, keepdims=True)
        gain = np.clip(np.clip(gain, middle * 0.8, middle * 1.25), 0.3, 1.4)
        expected = gain[:, None] * wanted
        difference = colours - expected
        length = np.sqrt((expected**2).sum(2)) + 1e-3
        along = (difference * expected).sum(2) / length
        squares = (difference**2).sum(2) - (1 - _ALONG) * along**2
        weights = np.where(inside, np.exp(-squares / (2 * _CLOSE**2)), 0).astype(np.float32)
    tight = np.where(inside, np.exp(-squares / (2 * _TIGHT**2)), 0)
    return np.stack([tight.mean(1), weights.mean(1)], 1).astype(np.float64)


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


def _thumbnail(picture: Image) -> Floats:
    small = picture.resize((_WIDE, _HIGH), Resampling.BOX)
    return _colours(small).reshape(-1, 3)


def _richness(picture: Image) -> float:
    """Entropy in nats of a stored picture's colours, two bits a channel."""
    return float(variety(Cutter(picture), _whole(picture))[0])


def _whole(picture: Image) -> Frames:
    width, height = picture.size
    return np.array([[width / 2, height / 2, width, height, 0.0, 0.0]])


def _colours(picture: Image) -> Floats:
    return (np.asarray(picture, np.float32) / 255).astype(np.float32)
