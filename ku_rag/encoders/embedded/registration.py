"""Register stored pictures with a picture, and score the best matches again by what is confirmed.

A descriptor confuses a part of one thing with another thing that resembles that part. Here an
evolution strategy moves, rotates, stretches and shears a frame (an affine transform) until the
colours of a stored picture agree best. Colours are compared robustly: each channel has a gain
(exposure, white balance), and what hides a part of the thing counts as missing and not as wrong.

The edges of the stored picture that are confirmed in that frame raise its score. An occluded thing
still shows some of its edges; another thing in the same colours has its edges in other places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.encoders.embedded.window_matching import RegionMatch
from ku_rag.types import Box, Region

Floats = NDArray[np.float32]
Boxes = NDArray[np.int64]
Frames = NDArray[np.float64]
"""float64[m, n, 6]: centre x and y, width, height, rotation in radians, shear (rise over width)."""

CANDIDATES = 12
"""Matches that are registered."""
_APART = 0.5
"""The registration of each match may also begin at the best place and at the next one that overlaps
it less than this (intersection over union)."""
_SEED = 20240229
_EDGES = 0.2
"""What one confirmed edge across the whole thing adds to a score; see docs/decisions/0011."""
_OBJECTS, _OBJECTS_IN_DOUBT = 1.5, 1.0
"""What the cosine of a network adds to a score, and what more where no stored picture can be
registered; see docs/decisions/0066."""
_FLAT, _SOLID = 0.55, 0.45
"""Shares of agreeing points. Above the first, the box of the registration replaces that of the
window. Between them the whole picture gains weight: where no stored picture can be registered, as
with things that are not flat, a photograph is best compared as a whole."""
_STEP = 3
"""Distance of the points between which an edge is looked for: closer ones would ask for too exact a
registration."""
_LEAST, _MOST, _SAME = 0.1, 0.3, 0.12
"""A colour difference above the first is an edge and counts up to the second; a difference is
confirmed within the third. Colours go from 0 to 1."""

WIDE, HIGH = 24, 18
"""Points at which colours are compared."""
_SEARCHED = np.flatnonzero(np.add.outer(2 * np.arange(HIGH), np.arange(WIDE)) % 5 == 0)
"""A fifth of these, in every row and column, at which they are compared while a frame is searched.
On a coarser grid of rows and columns frames were placed less exactly."""
_ROUNDS = ((60, 1.0), (40, 0.7), (40, 0.45), (40, 0.3), (30, 0.18))
"""Frames that are tried in each round, and their spread around the best one so far."""
_SPREAD = np.array([0.06, 0.06, 0.08, 0.08, 0.10, 0.08])
_LIMIT = 0.5
"""Largest rotation and shear."""
_REWEIGHTINGS = 4
_TOLERANCE = 0.10
"""Standard deviation of a colour difference that counts as agreement; colours go from 0 to 1."""
_BRIGHTNESS = 0.35
"""What a difference in brightness alone counts, beside one in colour."""
_LARGER = 0.2
"""What a frame e times as large is worth, in shares of agreeing points. At 0.03 frames shrank to
the part of a thing that nothing hides."""
_SMALLEST_SIDE = 48
_LOWEST_EXPONENT = np.float32(-30)
"""A weight of less than its power of e counts as that."""
_GRID = np.stack(
    [
        np.tile((np.arange(WIDE) + 0.5) / WIDE - 0.5, HIGH),
        np.repeat((np.arange(HIGH) + 0.5) / HIGH - 0.5, WIDE),
        np.ones(WIDE * HIGH),
    ]
).astype(np.float32)
"""Places of the points in a frame of width and height 1, and 1: float32[3, points]."""


@dataclass(frozen=True, slots=True)
class Pyramid:
    """A picture and its reductions by 2, 4, 8 … in one array.

    Args:
        pixels: uint8[3, all pixels].
        sizes: int32[levels, 2], height and width of each level.
        starts: int32[levels], column of `pixels` where each level begins.
    """

    pixels: NDArray[np.uint8]
    sizes: NDArray[np.int32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, image: Image) -> Pyramid:
        """Build the pyramid of an RGB picture, down to fewer than 96 pixels of width or height."""
        levels = [image]
        while min(levels[-1].size) >= 2 * _SMALLEST_SIDE:
            levels.append(levels[-1].reduce(2))
        sizes = np.array([(level.height, level.width) for level in levels], np.int32)
        starts = np.cumsum(sizes.prod(1)) - sizes.prod(1)
        pixels = np.concatenate([np.asarray(level).reshape(-1, 3) for level in levels])
        return cls(np.ascontiguousarray(pixels.T), sizes, starts.astype(np.int32))


@dataclass(frozen=True, slots=True)
class Registration:
    """A stored picture in the frame where it agrees best.

    Args:
        frame: float64[6], see `Frames`.
        agreement: share of its points whose colours agree, 0 to 1.
        colours: float32[3, points], the picture's colours there, row by row.
        expected: float32[3, points], the stored colours under the gains that were found.
    """

    frame: NDArray[np.float64]
    agreement: float
    colours: Floats
    expected: Floats


def template(picture: Image) -> Floats:
    """Return the colours of an RGB picture at the points, float32[3, points]."""
    small = picture.resize((WIDE, HIGH), Resampling.BOX)
    return np.ascontiguousarray(np.asarray(small, np.float32).reshape(-1, 3).T) / np.float32(255)


def rescore(
    image: Image,
    matches: Sequence[RegionMatch],
    template_of: Callable[[int], Floats],
    objects: Mapping[int, float] = MappingProxyType({}),
) -> list[RegionMatch]:
    """Add the confirmed edges to the scores of the best matches, and sort again.

    `template_of` returns the `template` of a stored picture by its row. `objects` has cosines of
    what a network sees in a stored picture and in this one, by row; other stored pictures count
    like the one with the lowest cosine. The first twelve matches are registered, and those of
    `objects` added.
    """
    candidates = matches[:CANDIDATES]
    if not candidates:
        return []
    boxes = np.array([match.region.box for match in candidates], np.int64)
    low, high = np.maximum(boxes[:, :2], boxes[0, :2]), np.minimum(boxes[:, 2:], boxes[0, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    apart = [0, *np.flatnonzero(shared < _APART * (areas + areas[0] - shared))[:1]]
    wanted = np.stack([template_of(match.image_row) for match in candidates])
    starts = np.stack([np.vstack([box, boxes[apart]]) for box in boxes])
    registrations = register(Pyramid.of(image), wanted, starts)
    best = max(registration.agreement for registration in registrations)
    doubt = min(max((_FLAT - best) / (_FLAT - _SOLID), 0.0), 1.0)
    rescored, lowest = [], min(objects.values(), default=0.0)
    whole = Region((0, 0, *image.size), "whole")
    seen = {match.image_row for match in matches}
    unseen = [RegionMatch(row, 0.0, matches[-1].score, whole) for row in objects if row not in seen]
    for match, registration in zip_longest([*matches, *unseen], registrations):
        edges, box = 0.0, match.region.box
        if registration:
            edges = confirmed_edges(registration)
            if registration.agreement > _FLAT:
                box = box_of(registration.frame, image.size)
        score = match.score + doubt * match.whole + _EDGES * edges
        similar = objects.get(match.image_row, lowest) - lowest
        score += (_OBJECTS + _OBJECTS_IN_DOUBT * doubt) * similar
        score = round(score, 4)
        region = replace(match.region, box=box, score=score)
        rescored.append(replace(match, score=score, region=region, edges=edges))
    return sorted(rescored, key=lambda match: -match.score)


def confirmed_edges(registration: Registration) -> float:
    """How many edges of the stored picture, as long as it is wide, are seen where they should be.

    This is the sum of confirmed edge strengths over both directions, per column of points.
    """
    confirmed = 0.0
    seen, expected = (
        colours.reshape(3, HIGH, WIDE) for colours in (registration.colours, registration.expected)
    )
    for down, across in ((_STEP, 0), (0, _STEP)):
        step, wanted = (
            points[:, down:, across:] - points[:, : HIGH - down, : WIDE - across]
            for points in (seen, expected)
        )
        strength = np.clip(np.sqrt((wanted**2).sum(0)) - _LEAST, 0, _MOST)
        same = np.exp(-((step - wanted) ** 2).sum(0) / (2 * _SAME**2))
        confirmed += float((strength * same).sum())
    return confirmed / WIDE


def register(pyramid: Pyramid, wanted: Floats, boxes: Boxes) -> list[Registration]:
    """Find where each of m templates, float32[m, 3, points], agrees best.

    Each search begins at the best of n boxes, int64[m, n, 4].
    """
    random, every = np.random.default_rng(_SEED), np.arange(len(wanted))
    sides = boxes[..., 2:] - boxes[..., :2]
    few = wanted[..., _SEARCHED]
    best = frames = np.concatenate([boxes[..., :2] + sides / 2, sides, np.zeros(sides.shape)], 2)
    for count, spread in ((0, 0.0), *_ROUNDS):
        if count:
            step = random.normal(size=(count, len(_SPREAD))) * _SPREAD * spread
            step[0] = 0  # the best one so far
            frames = best + step
            frames[..., :2] = best[..., :2] + step[:, :2] * best[..., 2:4]
            frames[..., 2:4] = best[..., 2:4] * np.exp(step[:, 2:4])
            frames[..., 4:] = np.clip(frames[..., 4:], -_LIMIT, _LIMIT)
        weights, _ = _compare(*_sample(pyramid, frames, _GRID[:, _SEARCHED]), few)
        worth = weights.mean(2) + _LARGER * np.log(frames[..., 2] * frames[..., 3])
        best = frames[every, worth.argmax(1), None]
    colours, inside = _sample(pyramid, best, _GRID)
    weights, gains = _compare(colours, inside, wanted)
    parts = best[:, 0], weights.mean((1, 2)).tolist(), colours[:, :, 0].swapaxes(0, 1)
    return [Registration(*part) for part in zip(*parts, gains.swapaxes(1, 2) * wanted, strict=True)]


def _sample(pyramid: Pyramid, frames: Frames, grid: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return colours in frames as float32[3, m, n, points], and which are inside."""
    x, y, width, height, rotation, shear = np.moveaxis(frames, -1, 0)
    cos, sin = np.cos(rotation), np.sin(rotation)
    spacing = np.log2(np.maximum(np.minimum(width / WIDE, height / HIGH), 1))
    level = np.clip(np.rint(spacing), 0, len(pyramid.sizes) - 1).astype(np.int32)
    high, wide = np.moveaxis(pyramid.sizes[level], -1, 0)[..., None]
    across = np.stack([width * (cos - shear * sin), -height * sin, x], -1)
    down = np.stack([width * (sin + shear * cos), height * cos, y], -1)
    across *= wide / pyramid.sizes[0, 1]
    down *= high / pyramid.sizes[0, 0]
    column = np.floor(across.astype(np.float32) @ grid).astype(np.int32)
    row = np.floor(down.astype(np.float32) @ grid).astype(np.int32)
    inside = (column >= 0) & (column < wide) & (row >= 0) & (row < high)
    at = (row * wide + column + pyramid.starts[level][..., None]) * inside
    return pyramid.pixels.take(at, axis=1) * np.float32(1 / 255), inside


def _compare(colours: Floats, inside: NDArray[np.bool_], wanted: Floats) -> tuple[Floats, Floats]:
    """Agreement of points, float32[m, n, points], 0 to 1, and gains float32[m, n, 3].

    The gains are found by iteratively reweighted least squares and differ little between channels.
    """
    within = weights = inside.astype(np.float32)
    gain, squared = weights, wanted**2
    products = colours * wanted.swapaxes(0, 1)[:, :, None]
    lengths = np.einsum("cmnp,cmnp->mnp", colours, colours)
    for _ in range(_REWEIGHTINGS):
        gain = np.einsum("mnp,cmnp->mnc", weights, products)
        gain /= weights @ squared.swapaxes(1, 2) + 1e-3
        middle = gain.mean(2, keepdims=True)
        gain = np.clip(np.clip(gain, middle * 0.8, middle * 1.25), 0.3, 1.4)
        expected = gain**2 @ squared
        along = np.einsum("mnc,cmnp->mnp", gain, products) - expected
        squares = lengths - expected - 2 * along
        squares -= (1 - _BRIGHTNESS) * along**2 / (expected + 1e-6)
        squares *= np.float32(-0.5 / _TOLERANCE**2)
        # Arithmetic on what is smaller than a normal number takes a hundred times as long.
        weights = np.exp(np.maximum(squares, _LOWEST_EXPONENT)) * within
    return weights, gain


def box_of(frame: NDArray[np.float64], size: tuple[int, int]) -> Box:
    """Return the smallest box around one frame, clipped to a picture of that width and height."""
    x, y, width, height, rotation, shear = frame.tolist()
    u = np.array([-0.5, 0.5, 0.5, -0.5]) * width
    v = np.array([-0.5, -0.5, 0.5, 0.5]) * height + u * shear
    cos, sin = np.cos(rotation), np.sin(rotation)
    points = np.stack([x + u * cos - v * sin, y + u * sin + v * cos])
    limits = np.array(size)
    low = np.clip(np.rint(points.min(1)), 0, limits - 1).astype(int)
    high = np.clip(np.rint(points.max(1)), low + 1, limits).astype(int)
    (x0, y0), (x1, y1) = low.tolist(), high.tolist()
    return x0, y0, x1, y1
