"""Frames: rotated, sheared rectangles in a picture, and the image pyramid they are sampled from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.types import Box

Floats = NDArray[np.float32]
Frames = NDArray[np.float64]
"""float64[n, 6]: centre x and y, width, height, rotation in radians, shear (rise over width)."""

_SMALLEST_SIDE = 48


@dataclass(frozen=True, slots=True)
class Pyramid:
    """A picture and its reductions by 2, 4, 8 … in one array.

    Args:
        pixels: float32[all pixels, 3], 0 to 1.
        sizes: int32[levels, 2], height and width of each level.
        starts: int32[levels], row of `pixels` where each level begins.
    """

    pixels: Floats
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
        pixels = np.concatenate([colours_of(level).reshape(-1, 3) for level in levels])
        return cls(pixels, sizes, starts.astype(np.int32))


def colours_of(image: Image) -> Floats:
    """Return the colours of an RGB picture, float32[height, width, 3], 0 to 1."""
    return np.asarray(image, np.float32) / np.float32(255)


def frames_of(boxes: NDArray[np.int64]) -> Frames:
    """Return upright frames with the corners of boxes int64[n, 4]."""
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    return np.hstack([centre, boxes[:, 2:] - boxes[:, :2], np.zeros((len(boxes), 2))])


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


def overlap(boxes: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the intersection over union of boxes int64[n, 4] with another int64[4], float64[n]."""
    low, high = np.maximum(boxes[:, :2], other[:2]), np.minimum(boxes[:, 2:], other[2:])
    both = np.prod(np.maximum(high - low, 0), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) + np.prod(other[2:] - other[:2])
    shared: NDArray[np.float64] = both / np.maximum(areas - both, 1)
    return shared
