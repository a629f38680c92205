"""The seam between ku-rag and whatever turns texts and pictures into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.types import Box

Vectors = NDArray[np.float32]
"""float32[n, dim], every row of length 1 (or 0 where there was nothing to encode)."""


@runtime_checkable
class Encoder(Protocol):
    """Turns texts and pictures into L2-normalised vectors (KU-RAG, eq. 2 and 3).

    While one thread encodes, another may count tokens; only one encodes at a time. An encoder may
    offer `fit(image) -> Image`, which brings a picture into the size that it looks at: pictures are
    then fitted while others are encoded.
    """

    @property
    def dim(self) -> int:
        """Length of a vector."""

    @property
    def max_tokens(self) -> int:
        """The longest text that is encoded whole, in the encoder's own tokens."""

    @property
    def fingerprint(self) -> str:
        """Names model, weights, preprocessing and dim: equal fingerprints give equal vectors."""

    @property
    def cross_modal(self) -> bool:
        """Whether the cosine of a text and a picture means anything."""

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text`."""

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]."""

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole pictures (RGB), float32[n, dim]."""

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Encode parts of one picture (RGB), float32[len(boxes), dim]."""
