"""A pair of encoders: one for texts and one for pictures, with separate vector spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from PIL.Image import Image

from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.store.vectors import Kind
from ku_rag.types import Box


@dataclass(frozen=True, slots=True)
class Paired:
    """One encoder for texts and another for pictures; their vectors are not comparable."""

    cross_modal: ClassVar[bool] = False

    text: Encoder
    image: Encoder

    @property
    def dim(self) -> int:
        """Length of text vectors; that of picture vectors is `image.dim`."""
        return self.text.dim

    @property
    def max_tokens(self) -> int:
        """Token limit of the text encoder."""
        return self.text.max_tokens

    @property
    def fingerprint(self) -> str:
        """The fingerprints of both encoders."""
        return f"{self.text.fingerprint} + {self.image.fingerprint}"

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text` for the text encoder."""
        return self.text.count_tokens(text)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, text.dim]."""
        return self.text.encode_texts(texts)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole pictures, float32[n, image.dim]."""
        return self.image.encode_images(images)

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Encode parts of one picture, float32[len(boxes), image.dim]."""
        return self.image.encode_regions(image, boxes)


def side(encoder: Encoder, kind: Kind) -> Encoder:
    """Return the encoder of chunks or of images."""
    if isinstance(encoder, Paired):
        return encoder.text if kind == "chunk" else encoder.image
    return encoder


def text_weight(encoder: Encoder) -> float:
    """Return the weight of cosines of texts beside keywords, .1 if the encoder states none.

    Keywords know which words are rare. With a weight of 1, all-MiniLM-L6-v2 finds fewer paragraphs
    of HotpotQA than keywords alone; see benchmarks/results/retrieval.json.
    """
    return float(getattr(side(encoder, "chunk"), "text_weight", 0.1))


def finds_regions(encoder: Encoder) -> bool:
    """Return whether the encoder of pictures compares hundreds of windows of one at once."""
    return bool(getattr(side(encoder, "image"), "finds_regions", False))
