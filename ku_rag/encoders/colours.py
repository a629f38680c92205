"""Colours as 15-bit numbers, and the fixed colours that the picture descriptor counts."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

NAMES = 12
PALETTE = 128

_STRETCH = np.array([0.7, 1.0, 1.0], np.float32)
"""Weight of lightness, less than that of hue because illumination varies."""
_GAIN_TARGET, _GAIN_POWER, _BALANCE = 0.45, 0.4, 0.3


def gains(mean: Floats) -> Floats:
    """Return factors that adjust pictures partly to a common exposure and a grey average.

    Args:
        mean: mean colours, 0 to 1, float32[n, 3].

    Returns:
        float32[n, 3], one factor for each channel.
    """
    low = np.maximum(mean, np.float32(0.04))
    light = low.mean(1, keepdims=True)
    both: Floats = (_GAIN_TARGET / light) ** _GAIN_POWER * (light / low) ** _BALANCE
    return both.astype(np.float32)


def codes(colours: Floats | NDArray[np.uint8], factors: Floats) -> Ints:
    """Return colours[n, ..., 3] times factors[n, 3] as 15-bit numbers, five bits a channel."""
    shape = (len(colours), *(1,) * (colours.ndim - 2), 3)
    scaled = colours * (np.float32(31.0) * factors).reshape(shape)
    levels = np.minimum(scaled + np.float32(0.5), np.float32(31.0)).astype(np.int32)
    numbers: Ints = levels[..., 0] << 10 | levels[..., 1] << 5 | levels[..., 2]
    return numbers


@lru_cache(maxsize=1)
def lab() -> Floats:
    """Return CIE L*, a* and b* of every 15-bit colour, float32[3, 32768]."""
    code = np.arange(1 << 15)
    rgb = np.stack([code >> 10, code >> 5 & 31, code & 31], 1) / 31.0
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = linear @ to_xyz.T / to_xyz.sum(1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    found = [116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])]
    return np.stack(found).astype(np.float32)


@lru_cache(maxsize=1)
def chroma() -> Floats:
    """Return the distance of every 15-bit colour from grey in L*a*b*."""
    away: Floats = np.hypot(lab()[1], lab()[2])
    return away


@lru_cache(maxsize=1)
def palette() -> tuple[Ints, Floats]:
    """Return the three nearest of 128 colours to every 15-bit colour, and their shares.

    descriptor_colours.txt is written by benchmarks/grocery_pictures.py --colours: L*, a* and b*.
    """
    text = files("ku_rag.encoders").joinpath("descriptor_colours.txt").read_text("ascii")
    return _nearest(np.array(text.split(), np.float32).reshape(PALETTE, 3), 3, 8.0)


@lru_cache(maxsize=1)
def names() -> tuple[Ints, Floats]:
    """Return the two nearest of 12 plain colours to every 15-bit colour, and their shares.

    They are black, grey, white, skin, and eight hues as they are printed.
    """
    anchors = [
        (12, 0, 0),
        (55, 0, 0),
        (95, 0, 0),
        (70, 14, 22),
        (45, 60, 38),
        (62, 45, 60),
        (82, 5, 70),
        (45, -38, 30),
        (70, -22, -18),
        (35, 15, -45),
        (35, 35, -20),
        (32, 14, 16),
    ]
    return _nearest(np.asarray(anchors, np.float32), 2, 10.0)


def spread(amounts: NDArray[np.int64], count: int) -> Floats:
    """Return representative colours in L*a*b*, by k-means from a fixed start.

    Args:
        amounts: how often each 15-bit colour was seen, int64[32768]. It counts little: the colours
            seen share half of the weight, nearly evenly, and all possible colours the other half.
        count: how many.
    """
    seen = np.where(amounts > 0, amounts.astype(np.float64) ** 0.15, 0.0)
    weights = seen / seen.sum() + 1 / len(amounts)
    points = lab().T.astype(np.float64) * _STRETCH
    start = np.random.default_rng(0).choice(len(points), count, False, weights / weights.sum())
    centres = points[start]
    for _ in range(25):
        own = ((points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)).argmin(1)
        total = np.maximum(np.bincount(own, weights, count), 1e-9)
        sums = [np.bincount(own, weights * points[:, i], count) for i in range(3)]
        centres = np.stack(sums, 1) / total[:, None]
    found: Floats = (centres / _STRETCH).astype(np.float32)
    return found


def _nearest(anchors: Floats, count: int, width: float) -> tuple[Ints, Floats]:
    """Return the nearest anchors of every 15-bit colour, with shares that change smoothly."""
    points, targets = lab().T * _STRETCH, anchors * _STRETCH
    far = (points**2).sum(1)[:, None] - 2 * points @ targets.T + (targets**2).sum(1)
    rows = np.arange(len(far))
    order, distances = [], []
    for _ in range(count + 1):  # sorting all 128 would take most of the time to the first answer
        best = far.argmin(1)
        order.append(best)
        distances.append(far[rows, best])
        far[rows, best] = np.inf
    away = np.stack(distances, 1)
    kept = np.exp((away[:, :1] - away) / np.float32(2 * width**2))
    kept = np.maximum(kept[:, :count] - kept[:, count:], np.float32(1e-3))
    kept /= kept.sum(1, keepdims=True)
    return np.stack(order[:count]).astype(np.int32), np.ascontiguousarray(kept.T)
