"""The default encoder, which needs no weights, key or network."""

from __future__ import annotations

from collections.abc import Sequence

from PIL.Image import Image

from ku_rag.encoders import descriptor, hashing
from ku_rag.encoders.base import Vectors
from ku_rag.types import Box


class EmbeddedEncoder:
    """Texts by hashed words and n-grams, pictures by colour layout and gradients.

    The vectors of texts and pictures have equal lengths and are not comparable.
    """

    dim = 512
    max_tokens = 96
    cross_modal = False
    fingerprint = f"embedded:{hashing.VERSION}+{descriptor.VERSION}:512"

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`; see `hashing.count_tokens`."""
        return hashing.count_tokens(text)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, 512]."""
        return hashing.encode(texts)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole RGB pictures, float32[n, 512]."""
        return descriptor.describe_images(images)

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Encode parts of one RGB picture in one pass, float32[len(boxes), 512]."""
        return descriptor.describe_boxes(image, boxes)
