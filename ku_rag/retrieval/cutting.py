"""Frames: slanted, turned rectangles in a picture, and what can be told from looking at them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling, Transform

from ku_rag.types import Box

Frames = NDArray[np.float64]
"""float64[n, 6]: centre x and y, width, height, turn in radians, slant (rise over width)."""

_CUT_SIDE = 48


class Cutter:
    """Cuts small upright squares out of a picture, each from the reduction that fits its size."""

    def __init__(self, image: Image) -> None:
        self.levels = [image]
        while min(self.levels[-1].size) >= 2 * _CUT_SIDE:
            self.levels.append(self.levels[-1].reduce(2))

    def cut(self, frame: NDArray[np.float64], side: int = _CUT_SIDE) -> Image:
        """One frame as a square; what lies beyond the picture is grey."""
        x, y, width, height, turn, slant = frame.tolist()
        fitting = int(np.log2(max(min(width, height) / side, 1.0)) + 0.3)
        level = self.levels[min(fitting, len(self.levels) - 1)]
        across = self.levels[0].width / level.width
        down = self.levels[0].height / level.height
        cos, sin = float(np.cos(turn)), float(np.sin(turn))
        a, b = (cos - sin * slant) * width / side, -sin * height / side
        d, e = (sin + cos * slant) * width / side, cos * height / side
        c, f = x - (a + b) * side / 2, y - (d + e) * side / 2
        return level.transform(
            (side, side),
            Transform.AFFINE,
            (a / across, b / across, c / across, d / down, e / down, f / down),
            Resampling.BILINEAR,
            fillcolor=(128, 128, 128),
        )


def corners(
    frames: Frames, across: NDArray[np.float64], down: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where points of frames lie in the picture: x and y, float64[n, points].

    Args:
        frames: float64[n, 6 or more].
        across: -0.5 to 0.5 from left to right, float64[1 or n, points].
        down: likewise from top to bottom.
    """
    x, y, width, height, turn, slant = (frames[:, i, None] for i in range(6))
    u = across * width
    v = down * height + u * slant
    return x + u * np.cos(turn) - v * np.sin(turn), y + u * np.sin(turn) + v * np.cos(turn)


def boxes_of(frames: Frames, size: tuple[int, int]) -> NDArray[np.int64]:
    """The smallest boxes around frames that lie in the picture, int64[n, 4]."""
    sides = np.array([[-0.5, 0.5, 0.5, -0.5]]), np.array([[-0.5, -0.5, 0.5, 0.5]])
    points = np.stack(corners(frames, *sides))
    limits = np.array(size)[:, None]
    low = np.clip(np.rint(points.min(2)), 0, limits - 1)
    high = np.clip(np.rint(points.max(2)), low + 1, limits)
    boxes: NDArray[np.int64] = np.concatenate([low, high]).T.astype(np.int64)
    return boxes


def box_of(frame: NDArray[np.float64], size: tuple[int, int]) -> Box:
    """The smallest box around one frame that lies in the picture."""
    x0, y0, x1, y1 = boxes_of(frame[None], size)[0].tolist()
    return x0, y0, x1, y1


def overlap(boxes: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
    """Intersection over union of each box with another."""
    low, high = np.maximum(boxes[:, :2], other[:2]), np.minimum(boxes[:, 2:], other[2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + np.prod(other[2:] - other[:2])
    shared: NDArray[np.float64] = both / np.maximum(areas - both, 1)
    return shared


def borders(cutter: Cutter, frames: Frames) -> NDArray[np.float64]:
    """How well the four borders of each frame stand out, 0 to 1.

    Colours just inside and just outside are compared in thirds of each side; a modest difference
    is enough, so that one loud side does not make up for one where the thing goes on.
    """
    side, rim, depth = 42, 6, 4
    wider = frames * np.array([1, 1, side / (side - 2 * rim), side / (side - 2 * rim), 1, 1])
    cuts = np.stack([np.asarray(cutter.cut(f, side), np.float64) for f in wider]) / 255
    turned = cuts.transpose(0, 2, 1, 3)
    differences = []
    for picture in (cuts, cuts[:, ::-1], turned, turned[:, ::-1]):
        along = picture[:, :, rim : side - rim]
        inside, outside = along[:, rim : rim + depth], along[:, rim - depth - 1 : rim - 1]
        thirds = [
            strip.mean(1).reshape(len(frames), 3, -1, 3).mean(2) for strip in (inside, outside)
        ]
        differences.append(np.abs(thirds[0] - thirds[1]).max(2))
    standing_out: NDArray[np.float64] = np.minimum(np.hstack(differences) / 0.2, 1.0).mean(1)
    return standing_out


def variety(cutter: Cutter, frames: Frames) -> NDArray[np.float64]:
    """Entropy in nats of the colours of each frame, two bits a channel."""
    side = 32
    cuts = np.stack([np.asarray(cutter.cut(f, side), np.int64) for f in frames]) >> 6
    codes = (cuts[..., 0] << 4 | cuts[..., 1] << 2 | cuts[..., 2]).reshape(len(frames), -1)
    codes += 64 * np.arange(len(frames))[:, None]
    shares = np.bincount(codes.ravel(), minlength=64 * len(frames)).reshape(-1, 64) / side**2
    entropy: NDArray[np.float64] = -(shares * np.log(np.maximum(shares, 1e-12))).sum(1)
    return entropy
