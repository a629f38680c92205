"""Flags drawn from their geometry: official proportions and colours, no picture files."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tools.demo_data.flags.designs import DESIGNS

__all__ = ["COUNTRIES", "TWIN_DIFFERENCE", "difference", "draw", "proportions", "twins"]

COUNTRIES: tuple[str, ...] = tuple(sorted(DESIGNS))
"""Ids of all countries whose flags can be drawn, in alphabetical order."""

TWIN_DIFFERENCE = 16.0
"""Two flags whose `difference` (0-255) is lower count as one design."""


def proportions(country_id: str) -> float:
    """Width of the flag divided by its height, as the country's law has it."""
    design = DESIGNS[country_id]
    return design.width / design.height


def draw(country_id: str, width: int = 320) -> Image.Image:
    """Draw a flag, anti-aliased (drawn four times as large, then reduced).

    Args:
        country_id: one of `COUNTRIES`, such as "ivory-coast".
        width: in pixels, at least 8; the height follows from the official proportions.

    Returns:
        An RGB picture that the caller may change.
    """
    return _draw(country_id, max(8, width)).copy()


@lru_cache(maxsize=512)
def _draw(country_id: str, width: int) -> Image.Image:
    design = DESIGNS[country_id]
    height = max(1, round(width * design.height / design.width))
    return design.draw((4 * width, 4 * height)).reduce(4)


@lru_cache(maxsize=1)
def _swatches() -> dict[str, NDArray[np.float64]]:
    return {
        name: np.asarray(_draw(name, 320).resize((24, 16), Image.Resampling.BOX), dtype=np.float64)
        for name in COUNTRIES
    }


def difference(one: str, other: str) -> float:
    """Largest difference (0-255, mean of the channels) of any of 24 by 16 patches of two flags.

    Both are brought to the same size first: proportions alone do not make another design.
    """
    swatches = _swatches()
    return float(np.abs(swatches[one] - swatches[other]).mean(axis=2).max())


@lru_cache(maxsize=128)
def twins(country_id: str) -> frozenset[str]:
    """Other countries whose flag is the same design within the drawing, as Chad's is Romania's."""
    return frozenset(
        other
        for other in COUNTRIES
        if other != country_id and difference(country_id, other) < TWIN_DIFFERENCE
    )
