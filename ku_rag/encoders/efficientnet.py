"""Pictures by EfficientNet-Lite, which knows classes of objects, beside the picture descriptor.

A vector is the descriptor, which sees colours and layout, followed by the features of the network.
Parts of a picture have the descriptor alone: a network that is run on hundreds of windows would
take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import sqrt

import numpy as np
from PIL.Image import Image

from ku_rag.arguments import file_hash
from ku_rag.encoders import efficientnet_model
from ku_rag.encoders.base import Vectors
from ku_rag.encoders.efficientnet_model import FEATURES, SIDES
from ku_rag.encoders.embedded import descriptor
from ku_rag.encoders.onnx import load_network, pixels
from ku_rag.types import Box

_SHARE = 0.4
"""Of the descriptor in the cosine of two pictures, see docs/decisions/0066."""
_MEAN, _STD = [127 / 255] * 3, [128 / 255] * 3


class EfficientNetEncoder:
    """Encodes pictures only, by the network "lite0" or "lite2"; texts need a second encoder.

    Raises:
        BadInput: there is no such network, or its weights are damaged.
        MissingExtra: the extra "pictures" is not installed.
    """

    dim = descriptor.DIM + FEATURES
    max_tokens = 0
    cross_modal = False
    finds_regions = True
    region_share = sqrt(_SHARE)

    def __init__(self, name: str = "lite2") -> None:
        digest = file_hash(efficientnet_model.weights_file(name))[:16]
        self.fingerprint = f"efficientnet:{name}:{digest}:{_SHARE}+{descriptor.VERSION}:{self.dim}"
        self._pixels = partial(pixels, size=SIDES[name], mean=_MEAN, std=_STD)
        self._name = name

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole RGB pictures, float32[n, 1792], rows of length 1."""
        vectors = self.encode_objects(images) * np.float32(sqrt(1 - _SHARE))
        described = descriptor.describe_images(images)
        vectors[:, : descriptor.DIM] = described * np.float32(self.region_share)
        return vectors

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Describe parts of one RGB picture, float32[len(boxes), 1792]; the other numbers are 0."""
        vectors = np.zeros((len(boxes), self.dim), np.float32)
        vectors[:, : descriptor.DIM] = descriptor.describe_boxes(image, boxes)
        return vectors

    def encode_objects(self, images: Sequence[Image]) -> Vectors:
        """Return the features of RGB pictures, float32[n, 1792]; the other numbers are 0."""
        vectors = np.zeros((len(images), self.dim), np.float32)
        for vector, image in zip(vectors, images, strict=True):
            vector[descriptor.DIM :] = self._network(self._pixels(image))
        return vectors

    @cached_property
    def _network(self) -> Callable[[Vectors], Vectors]:
        model = efficientnet_model.load_model(self._name)
        return load_network(model, input="pictures", threads=1, extra_name="pictures")
