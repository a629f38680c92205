"""Single things that a network found in a picture, and the regions proposed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ku_rag.types import Box, Region


@dataclass(frozen=True, slots=True)
class Thing:
    """Something that a network found.

    Args:
        box: in pixels of the picture, clipped to it.
        mask: bool[height, width] of the box.
        name: what the network calls its kind.
        confidence: 0 to 1.
    """

    box: Box
    mask: NDArray[np.bool_]
    name: str
    confidence: float


def proposals(
    things: Sequence[Thing], source: str, size: tuple[int, int], min_side: int
) -> list[Region]:
    """Regions from the things found, in their order.

    Args:
        things: what was found.
        source: who found it.
        size: width and height of the picture; what fills it all is left out.
        min_side: least width and height of a region, in pixels.
    """
    proposed = []
    for thing in things:
        x0, y0, x1, y1 = thing.box
        if min(x1 - x0, y1 - y0) >= min_side and thing.box != (0, 0, *size):
            why = f"{thing.name}, confidence {thing.confidence:.2f}"
            proposed.append(Region(thing.box, source, why=why, mask=thing.mask))
    return proposed


def clipped(box: Sequence[float] | NDArray[np.float32], size: tuple[int, int]) -> Box:
    """The nearest whole pixels of a box inside a picture of `size`, at least one of them."""
    width, height = size
    x0 = min(max(round(float(box[0])), 0), width - 1)
    y0 = min(max(round(float(box[1])), 0), height - 1)
    x1 = min(max(round(float(box[2])), x0 + 1), width)
    y1 = min(max(round(float(box[3])), y0 + 1), height)
    return x0, y0, x1, y1
