"""Two encoders as one: one for texts, one for pictures, each with vectors of its own length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL.Image import Image

from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.store.vectors import Kind
from ku_rag.types import Box


@dataclass(frozen=True, slots=True)
class Paired:
    """One encoder for texts and another for pictures; their vectors are not comparable.

    Args:
        text: encodes texts.
        image: encodes pictures.
    """

    text: Encoder
    image: Encoder

    @property
    def dim(self) -> int:
        """Length of a text's vector; that of a picture's is `image.dim`."""
        return self.text.dim

    @property
    def max_tokens(self) -> int:
        """The longest text that is encoded whole."""
        return self.text.max_tokens

    @property
    def fingerprint(self) -> str:
        """Both fingerprints."""
        return f"{self.text.fingerprint} + {self.image.fingerprint}"

    @property
    def cross_modal(self) -> bool:
        """Never: the two come from different models."""
        return False

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text` for the text encoder."""
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
    """The encoder that makes the vectors of chunks or of images."""
    if isinstance(encoder, Paired):
        return encoder.text if kind == "chunk" else encoder.image
    return encoder
