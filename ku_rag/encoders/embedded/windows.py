"""Propose regions without a model: the windows that contrast most with their surround."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from ku_rag.encoders.embedded.descriptor import integral, transposed
from ku_rag.types import Region

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Places = NDArray[np.float64]

_ASPECTS = (1 / 2, 2 / 3, 1.0, 4 / 3, 3 / 2, 2.0)
"""Width over height."""
_GROWTH = 1.3
_STRIDE = 0.25
_MOST = 30_000
"""Windows that are scored, however large the picture."""
_LIMIT = 300
"""The most regions proposed for one picture."""
_FINEST = 24
"""The smallest window holds at least one part in 24 x 24 of the picture."""
_WORK_SIDE = 240


@dataclass(frozen=True, slots=True)
class WindowsSegmenter:
    """Slides windows of many sizes and shapes over a picture and keeps those of highest contrast.

    The contrast of a window compares the colours just inside its four sides with those just outside
    (the surround contrast of "What is an object?", Alexe et al., 2010, side by side). Half of the
    windows kept have the highest contrast of all, the other half the highest of their size.

    Args:
        min_side: square root of the area of the smallest window, in pixels of the picture as
            given, 50 by default: a flag on 1 % of a 640 x 480 scene is 68 x 45. In pictures
            over 1.4 megapixels the smallest window grows with the picture.
    """

    min_side: int = 50
    name: ClassVar[str] = "windows"

    @property
    def fingerprint(self) -> str:
        """The method and its parameters."""
        return f"windows1:{self.min_side}:{_LIMIT}"

    def propose(self, image: Image) -> list[Region]:
        """Return windows of an RGB picture with their contrasts as scores, the highest first."""
        boxes, sizes = _slide(image.size, self.min_side)
        border = _contrast(image, boxes)
        if len(boxes) > _LIMIT:
            # Numbers of 16 bits are sorted in a tenth of the time.
            order = np.argsort(65535 - (border * 65535).astype(np.uint16), kind="stable")
            best, most = order[: _LIMIT // 2], _LIMIT - _LIMIT // 2
            by_size = order[np.argsort(sizes[order], kind="stable")]
            rank = np.empty(len(order), np.uint16)
            rank[by_size] = np.arange(len(order)) - np.searchsorted(sizes, sizes[by_size])
            fair = np.argsort(rank, kind="stable")
            kept = np.concatenate([best, fair[~np.isin(fair, best)][:most]])
            kept = kept[np.argsort(-border[kept], kind="stable")]
            boxes, border = boxes[kept], border[kept]
        scored = zip(boxes.tolist(), border.tolist(), strict=True)
        return [Region((x0, y0, x1, y1), "windows", score) for (x0, y0, x1, y1), score in scored]


@lru_cache(maxsize=8)
def _slide(size: tuple[int, int], min_side: int) -> tuple[Ints, NDArray[np.int16]]:
    """All windows of a picture, int[n, 4], and the number of each one's size."""
    width, height = size
    side = max(float(min_side), (width * height) ** 0.5 / _FINEST, 8.0)
    boxes: list[Ints] = []
    sizes: list[NDArray[np.int16]] = []
    number = 0
    while side * side < 0.8 * width * height:
        for aspect in _ASPECTS:
            across, down = side * aspect**0.5, side / aspect**0.5
            if across > width or down > height:
                continue
            # Both ends of each side are included, with about a stride between two windows.
            starts = (
                np.linspace(0, free, 1 + round(free / (_STRIDE * span)))
                for free, span in ((width - across, across), (height - down, down))
            )
            left, top = (grid.ravel() for grid in np.meshgrid(*starts))
            corners = np.stack([left, top, left + across, top + down], 1)
            boxes.append(np.rint(corners).astype(np.int64))
            sizes.append(np.full(len(left), number, np.int16))
        side *= _GROWTH
        number += 1
    if not boxes:
        return np.zeros((0, 4), np.int64), np.zeros(0, np.int16)
    stacked, numbers = np.concatenate(boxes), np.concatenate(sizes)
    if len(stacked) > _MOST:
        kept = np.linspace(0, len(stacked) - 1, _MOST).astype(np.int64)
        stacked, numbers = stacked[kept], numbers[kept]
    return np.minimum(stacked, [width, height, width, height]), numbers


def _contrast(image: Image, boxes: Ints) -> Floats:
    """Return how much the border of each box of an RGB picture differs from its surround.

    Boxes are int64[n, 4], the result float32[n], 0 to 1.
    """
    scale = min(1.0, _WORK_SIDE / max(image.size))
    work = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    # Sums of 240 x 240 numbers of 8 bits are exact as floats.
    turned = integral(image.resize(work, Resampling.BOX, reducing_gap=2.0)).astype(np.float32)
    sums = transposed(turned)
    ratio = np.array([work[0] / image.width, work[1] / image.height] * 2, np.float32)
    x0, y0, x1, y1 = np.ascontiguousarray(boxes.T, np.float32) * ratio[:, None]
    a, b = _contrast_of_sides(sums, x0, x1, y0, y1)
    c, d = _contrast_of_sides(turned, y0, y1, x0, x1)
    # One side may be hidden or lie at the picture's edge; the weakest of the others counts twice.
    second = np.minimum(np.maximum(np.minimum(a, b), np.minimum(c, d)), np.maximum(a, b))
    done: Floats = (a + b + c + d + np.minimum(second, np.maximum(c, d))) / np.float32(5)
    return done


def _contrast_of_sides(sums: Floats, low: Floats, high: Floats, top: Floats, end: Floats) -> Floats:
    """Contrast of the left and the right sides of boxes, float32[2, n], from an integral image.

    Each third of a side counts on its own.
    """
    flat, (length, stride) = sums.reshape(-1, 4), sums.shape[:2]
    # Strips outside and inside one side, inside and outside the other.
    thick, third = (high - low) / 5, (end - top) / 3
    first = np.rint(np.stack([low - thick, low, high - thick, high])).astype(np.int64)
    after = np.rint(np.stack([low, low + thick, high, high + thick])).astype(np.int64)
    left = np.clip(first, 0, stride - 2)
    right = np.clip(after, left + 1, stride - 1)
    line = np.rint(top + third * np.arange(4, dtype=np.float32)[:, None]).astype(np.int64)
    line = np.clip(line, 0, length - 1)
    wide = (255 * (right - left)).astype(np.float32)
    above = [flat.take(y + right, axis=0) - flat.take(y + left, axis=0) for y in line * stride]
    difference = np.zeros((2, len(low)), np.float32)
    for (upper, lower), height in zip(pairwise(above), np.diff(line, axis=0), strict=True):
        total = lower - upper
        share = 1 / (wide * np.maximum(height, 1).astype(np.float32))
        most = np.zeros_like(difference)
        for channel in range(3):
            mean = total[..., channel] * share
            np.maximum(most, np.abs(mean[::2] - mean[1::2]), out=most)
        difference += np.minimum(most, 0.4)
    return difference / np.float32(1.2)
