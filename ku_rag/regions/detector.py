"""Objects detected by a network, and the regions proposed from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.errors import BadInput
from ku_rag.types import Box, Region

OVERLAP = 0.7
"""Boxes with a larger intersection over union are one object of any class."""


@dataclass(frozen=True, slots=True)
class Detection:
    """A detected object, its confidence, 0 to 1, its box in the picture, and the box's mask."""

    box: Box
    mask: NDArray[np.bool_]
    name: str
    confidence: float


class Detector(ABC):
    """A segmenter that proposes what a network detects in pictures of `side` pixels."""

    name: ClassVar[str]
    """The name in results."""
    _hash: str
    """Identifies the weights."""

    def __init__(self, *, side: int, min_side: int, confidence: float) -> None:
        for option, value in (("min_side", min_side), ("side", side)):
            if not isinstance(value, int) or value < 1:
                raise BadInput(
                    f"{self.name}: {option} is {value!r}, expected a whole number from 1 on"
                )
        if not 0 <= confidence <= 1:
            raise BadInput(f"{self.name}: confidence is {confidence!r}, expected 0 to 1")
        self._side, self._min_side, self._confidence = side, min_side, confidence

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the parameters."""
        return (
            f"{self.name}:{self._hash} side={self._side} confidence={self._confidence:g} "
            f"overlap={OVERLAP:g} min_side={self._min_side}"
        )

    @abstractmethod
    def find(self, image: Image) -> list[Detection]:
        """Detect the objects in an RGB picture, of any size, by confidence."""

    def propose(self, image: Image) -> list[Region]:
        """Return regions of an RGB picture with masks, by confidence, without the whole picture."""
        proposed = []
        for detection in self.find(image):
            x0, y0, x1, y1 = detection.box
            if min(x1 - x0, y1 - y0) >= self._min_side and detection.box != (0, 0, *image.size):
                why = f"{detection.name}, confidence {detection.confidence:.2f}"
                proposed.append(Region(detection.box, self.name, why=why, mask=detection.mask))
        return proposed
