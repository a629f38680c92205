"""Register a stored picture with a picture: find the frame in which its colours agree best.

An evolution strategy moves, rotates, stretches and shears the frame (an affine transform). Colours
are compared robustly: each channel has a gain (exposure, white balance), and what hides a part of
the thing counts as missing and not as wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.retrieval.rectangles import Floats, Frames, Pyramid, colours_of

WIDE, HIGH = 24, 18
"""Points at which colours are compared."""
_ROUNDS = ((60, 1.0), (40, 0.7), (40, 0.45), (30, 0.3), (30, 0.18))
"""Frames that are tried in each round, and their spread around the best one so far."""
_SPREAD = np.array([0.06, 0.06, 0.08, 0.08, 0.10, 0.08])
_LIMIT = 0.5
"""Largest rotation and shear."""
_HOPELESS = 0.25
"""Share of agreeing points below which the search for a better frame ends."""
_REWEIGHTINGS = 4
_TOLERANCE = 0.10
"""Standard deviation of a colour difference that counts as agreement; colours go from 0 to 1."""
_BRIGHTNESS = 0.35
"""What a difference in brightness alone counts, beside one in colour."""
_LARGER = 0.2
"""What a frame e times as large is worth, in shares of agreeing points. At 0.03 frames shrank to
the part of a thing that nothing hides."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A stored picture in the frame where it agrees best.

    Args:
        frame: float64[6], see `Frames`.
        agreement: share of its points whose colours agree, 0 to 1.
        colours: float32[points, 3], the picture's colours there, row by row.
        expected: float32[points, 3], the stored colours under the gains that were found.
    """

    frame: NDArray[np.float64]
    agreement: float
    colours: Floats
    expected: Floats


def register(
    pyramid: Pyramid, wanted: Floats, frames: Frames, random: np.random.Generator
) -> Registration:
    """Find where a stored picture agrees best, from the best of some frames on.

    Args:
        pyramid: the picture.
        wanted: float32[points, 3], `thumbnail` of the stored picture.
        frames: float64[n, 6], where the search may begin.
        random: decides what is tried.
    """
    best, worth, agreement = _best(pyramid, wanted, frames)
    for count, spread in _ROUNDS:
        step = random.normal(size=(count, len(_SPREAD))) * _SPREAD * spread
        tried = best + step
        tried[:, :2] = best[:2] + step[:, :2] * best[2:4]
        tried[:, 2:4] = best[2:4] * np.exp(step[:, 2:4])
        tried[:, 4:] = np.clip(tried[:, 4:], -_LIMIT, _LIMIT)
        found, better, agreeing = _best(pyramid, wanted, tried)
        if better > worth:
            best, worth, agreement = found, better, agreeing
        if agreement < _HOPELESS:
            break
    colours, inside = _sample(pyramid, best[None])
    weights, gain = _compare(colours, inside, wanted)
    return Registration(best, float(weights.mean()), colours[0], gain * wanted)


def thumbnail(picture: Image) -> Floats:
    """Return the colours of an RGB picture at the points compared, float32[points, 3]."""
    return colours_of(picture.resize((WIDE, HIGH), Resampling.BOX)).reshape(-1, 3)


def _best(
    pyramid: Pyramid, wanted: Floats, frames: Frames
) -> tuple[NDArray[np.float64], float, float]:
    """The best of frames float64[n, 6], its worth and its agreement."""
    agreement = _compare(*_sample(pyramid, frames), wanted)[0].mean(1).astype(np.float64)
    worth = agreement + _LARGER * np.log(frames[:, 2] * frames[:, 3])
    at = int(worth.argmax())
    return frames[at], float(worth[at]), float(agreement[at])


def _sample(pyramid: Pyramid, frames: Frames) -> tuple[Floats, NDArray[np.bool_]]:
    """Colours in frames float64[n, 6], float32[n, points, 3], and which lie in the picture."""
    x, y, width, height, rotation, shear = frames.astype(np.float32).T[..., None]
    u = ((np.arange(WIDE, dtype=np.float32) + 0.5) / WIDE - 0.5) * width
    v = ((np.arange(HIGH, dtype=np.float32) + 0.5) / HIGH - 0.5) * height
    cos, sin = np.cos(rotation), np.sin(rotation)
    spacing = np.log2(np.maximum(np.minimum(width / WIDE, height / HIGH), 1))
    level = np.clip(np.round(spacing[:, 0]), 0, len(pyramid.sizes) - 1).astype(np.int32)
    high, wide = pyramid.sizes[level].T[:, :, None, None]
    right = (x + u * (cos - shear * sin))[:, None] - (v * sin)[..., None]
    below = (y + u * (sin + shear * cos))[:, None] + (v * cos)[..., None]
    column = np.floor(right * (wide / pyramid.sizes[0, 1])).astype(np.int32)
    row = np.floor(below * (high / pyramid.sizes[0, 0])).astype(np.int32)
    inside = (column >= 0) & (column < wide) & (row >= 0) & (row < high)
    at = np.clip(row, 0, high - 1) * wide + np.clip(column, 0, wide - 1)
    at += pyramid.starts[level][:, None, None]
    colours = np.take(pyramid.pixels, at.reshape(len(frames), -1), 0)
    return colours, inside.reshape(len(frames), -1)


def _compare(colours: Floats, inside: NDArray[np.bool_], wanted: Floats) -> tuple[Floats, Floats]:
    """Agreement of points, float32[n, points], 0 to 1, and gains float32[n, 3].

    The gains are found by iteratively reweighted least squares and differ little between channels.
    """
    weights = inside.astype(np.float32)
    gain = weights
    squared = wanted**2
    products, lengths = colours * wanted, np.einsum("npc,npc->np", colours, colours)
    for _ in range(_REWEIGHTINGS):
        gain = (weights[:, None] @ products)[:, 0] / (weights @ squared + 1e-3)
        middle = gain.mean(1, keepdims=True)
        gain = np.clip(np.clip(gain, middle * 0.8, middle * 1.25), 0.3, 1.4)
        expected = gain**2 @ squared.T
        along = (products @ gain[..., None])[..., 0] - expected
        squares = lengths - expected - 2 * along
        squares -= (1 - _BRIGHTNESS) * along**2 / (expected + 1e-6)
        weights = np.exp(squares * np.float32(-0.5 / _TOLERANCE**2)) * inside
    return weights, gain
