"""Objects detected by a network, and the regions proposed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ku_rag.types import Box, Region


@dataclass(frozen=True, slots=True)
class Thing:
    """A detected object.

    Args:
        box: in pixels of the picture, clipped to it.
        mask: bool[height, width] of the box.
        name: its class.
        confidence: 0 to 1.
    """

    box: Box
    mask: NDArray[np.bool_]
    name: str
    confidence: float


def proposals(
    things: Sequence[Thing], source: str, size: tuple[int, int], min_side: int
) -> list[Region]:
    """Return the regions of detected objects, in their order.

    Args:
        things: the objects.
        source: name of the segmenter.
        size: width and height of the picture; an object that fills it is left out.
        min_side: minimum width and height of a region, in pixels.
    """
    proposed = []
    for thing in things:
        x0, y0, x1, y1 = thing.box
        if min(x1 - x0, y1 - y0) >= min_side and thing.box != (0, 0, *size):
            why = f"{thing.name}, confidence {thing.confidence:.2f}"
            proposed.append(Region(thing.box, source, why=why, mask=thing.mask))
    return proposed


def clipped(box: Sequence[float] | NDArray[np.float32], size: tuple[int, int]) -> Box:
    """Round a box to whole pixels inside a picture of `size`, at least one pixel wide and high."""
    width, height = size
    x0 = min(max(round(float(box[0])), 0), width - 1)
    y0 = min(max(round(float(box[1])), 0), height - 1)
    x1 = min(max(round(float(box[2])), x0 + 1), width)
    y1 = min(max(round(float(box[3])), y0 + 1), height)
    return x0, y0, x1, y1
