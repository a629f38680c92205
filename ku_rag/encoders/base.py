"""The protocol of encoders, which turn texts and pictures into vectors."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.pictures import clipped, to_rgb
from ku_rag.types import Box

Vectors = NDArray[np.float32]
"""float32[n, dim], rows of length 1 (or 0 if there was nothing to encode)."""


@runtime_checkable
class Encoder(Protocol):
    """Turns texts and pictures into L2-normalised vectors (KU-RAG, eq. 2 and 3).

    Only one thread encodes at a time; others may count tokens meanwhile. An encoder may also have:

    - `text_weight`, float, .1 by default: the weight of cosines of texts beside keywords;
    - `finds_regions`, an attribute of its class, False by default: whether it compares hundreds of
      windows of a picture at once, so that they are proposed where no segmenter is named;
    - `region_share`, float, 1 by default: the greatest cosine of a vector of `encode_regions` and a
      stored one, if regions have a part of a vector only;
    - `encode_objects(images)`, the other part: what a network sees in whole pictures, float32[n,
      dim], rows of length 1;
    - `fit(image) -> Image`, which scales a picture to its input size: pictures are then fitted
      while others are encoded.
    """

    @property
    def dim(self) -> int:
        """Length of a vector."""

    @property
    def max_tokens(self) -> int:
        """Token limit of a text, in the encoder's own tokens."""

    @property
    def fingerprint(self) -> str:
        """Identifies model, weights, preprocessing and dim: equal fingerprints, equal vectors."""

    @property
    def cross_modal(self) -> bool:
        """Whether vectors of texts and pictures are comparable."""

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`."""

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]."""

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole pictures (RGB), float32[n, dim]."""

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Encode parts of one picture (RGB), float32[len(boxes), dim]."""


ENDPOINTS = ("openai:", "vllm:", "infinity:", "llamacpp:")
"""Beginnings of the names of encoders behind an endpoint; their fingerprints end with a sketch."""


def sketch(vector: Vectors) -> str:
    """Return the first 64 signs of a vector, for the end of a fingerprint after "~"."""
    return np.packbits(vector[:64] > 0).tobytes().hex()


def is_same(fingerprint: str, other: str) -> bool:
    """Whether two fingerprints are of the same encoder; a server may round its vectors."""
    (name, _, ours), (other_name, _, theirs) = fingerprint.rpartition("~"), other.rpartition("~")
    is_sketch = name.startswith(ENDPOINTS) and re.fullmatch("([0-9a-f]{2})+", ours + theirs)
    if not is_sketch or name != other_name or len(ours) != len(theirs):
        return fingerprint == other
    # One sign in 16: a cosine of about .98. Those of two models differ in every second one.
    return (int(ours, 16) ^ int(theirs, 16)).bit_count() <= len(ours) // 4


def region_share(encoder: Encoder) -> float:
    """Return the greatest cosine of a region and a stored picture."""
    return float(getattr(encoder, "region_share", 1.0))


@dataclass(frozen=True, slots=True)
class RgbAdapter:
    """Converts pictures of every mode to RGB for an encoder; all else is the encoder's own.

    For those without `encode_regions`, parts of a picture are cropped and encoded like pictures.
    """

    encoder: Encoder

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of an encoder
        return getattr(self.encoder, name)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole pictures, float32[n, dim]."""
        return self.encoder.encode_images([to_rgb(image) for image in images])

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Encode parts of one picture, float32[len(boxes), dim]; boxes are clipped to it."""
        image = to_rgb(image)
        if hasattr(self.encoder, "encode_regions"):
            return self.encoder.encode_regions(image, boxes)
        return self.encode_images([image.crop(clipped(box, image.size)) for box in boxes])


def encode_queries(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """Encode questions and captions, float32[n, dim]: the part of each that fits the token limit.

    Texts that are stored are cut into chunks instead; an encoder refuses longer ones.
    """
    return encoder.encode_texts([fitting(text, encoder) for text in texts])


def fitting(text: str, encoder: Encoder) -> str:
    """Return the longest beginning of a text that fits the encoder's token limit, in whole words.

    If the first word does not fit, return as many of its characters as fit.
    """
    if encoder.count_tokens(text) <= encoder.max_tokens:
        return text
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    if not ends:
        return ""
    if encoder.count_tokens(text[: ends[0]]) > encoder.max_tokens:
        ends = list(range(ends[0]))
    fits = bisect_right(ends, encoder.max_tokens, key=lambda end: encoder.count_tokens(text[:end]))
    return text[: ends[max(fits, 1) - 1]]
