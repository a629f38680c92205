"""Encoder for CLIP models: texts and pictures in one vector space (KU-RAG, eq. 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, new

from ku_rag.encoders.base import Vectors
from ku_rag.encoders.bytepairs import BytePairs
from ku_rag.encoders.torch_runtime import (
    IMAGE_COSTS,
    TEXT_COSTS,
    Batches,
    Place,
    encode_ahead,
    encode_sorted,
)
from ku_rag.errors import BadInput
from ku_rag.plugins import extra
from ku_rag.types import Box

if TYPE_CHECKING:
    from torch import Tensor

_PREPROCESSING = "clip1"
"""Version of the conversion of pictures and texts to tensors."""
_NUMBERS = "float"
"""Stands for float32 and bfloat16: their vectors differ less than two pictures of one object."""
_NARROW = 8
"""Pictures with a larger ratio of sides are cropped before they are scaled."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a CLIP encoder.

    Args:
        model: an open_clip model with its weights, on the CPU.
        tokenizer: an open_clip tokenizer.
        preprocessing: open_clip's transforms from a picture to a tensor; the last two convert to a
            tensor and normalise it.
        context: maximum number of tokens, start and end included.
        fingerprint: identifies model and weights.
    """

    model: Any
    tokenizer: Any
    preprocessing: Any
    context: int
    fingerprint: str


class ClipEncoder:
    """Encodes with an open_clip model; vectors of texts and pictures are comparable.

    Args:
        parts: model, tokenizer and preprocessing.
        where: device and precision.
        batch_size: items in a batch; 0 chooses by device.
    """

    cross_modal = True

    def __init__(self, parts: Parts, where: Place, batch_size: int) -> None:
        from ku_rag.encoders import towers

        self._towers = towers
        towers.fold_quick_gelu(parts.model)
        self._model = where.load(parts.model)
        self._place = where
        self._torch = extra("longclip", "torch")
        self._tokenizer = parts.tokenizer
        is_simple = type(parts.tokenizer).__name__ == "SimpleTokenizer"
        self._pairs = BytePairs(parts.tokenizer) if is_simple else None
        self._text = towers.text_part(self._model) if is_simple else None
        if self._text is not None:
            towers.prepare(self._text.transformer)
        self._has_plain_vision = towers.is_plain_vision(self._model.visual)
        if self._has_plain_vision:
            towers.prepare(self._model.visual.transformer)
        self._size = (0, 0)
        *self._steps, _, normalize = parts.preprocessing.transforms
        self._mean, self._std = (
            self._torch.tensor(values, device=where.device).view(-1, 1, 1)
            for values in (normalize.mean, normalize.std)
        )
        self._size = self.fit(new("RGB", (64, 64))).size
        kind = where.device.type
        self._text_batches = Batches(batch_size, cost=TEXT_COSTS[kind])
        self._image_batches = Batches(batch_size, cost=IMAGE_COSTS[kind])
        self._context = parts.context
        self.max_tokens = parts.context - self._marks()
        self.dim = self._dim()
        self.fingerprint = f"{parts.fingerprint}:{_PREPROCESSING}:{_NUMBERS}:{self.dim}"

    # ---- texts ---------------------------------------------------------------------------------

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without start and end."""
        return len(self._ids(text))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]; each batch is padded to its longest text.

        Raises:
            BadInput: a text has more than `max_tokens` tokens.
        """
        rows = [self._ids(text) for text in texts]
        longest = max(map(len, rows), default=0)
        if longest > self.max_tokens:
            raise BadInput(
                f"a text has {longest:,} tokens: {self.fingerprint.partition(':')[0]} takes "
                f"{self.max_tokens} at most; cut it into chunks"
            )
        if self._text is not None:
            return encode_sorted(rows, _cost, self._encode_ids, self._text_batches, self.dim)
        return encode_sorted(
            list(texts), lambda _: self._context, self._encode_padded, self._text_batches, self.dim
        )

    def _ids(self, text: str) -> tuple[int, ...]:
        if self._pairs is not None:
            return self._pairs.ids(text)
        inner = self._tokenizer.tokenizer
        cleaned = self._tokenizer.clean_fn(text)
        found = inner(cleaned, add_special_tokens=False, truncation=False, verbose=False)
        return tuple(found["input_ids"])

    def _marks(self) -> int:
        if self._pairs is not None:
            return 2
        return int(self._tokenizer.tokenizer.num_special_tokens_to_add())

    def _encode_ids(self, rows: Sequence[tuple[int, ...]]) -> Vectors:
        pairs, torch = self._pairs, self._torch
        assert pairs is not None
        ids = np.zeros((len(rows), max(map(len, rows)) + 2), np.int64)
        for place_of, row in zip(ids, rows, strict=True):
            place_of[: len(row) + 2] = pairs.start, *row, pairs.end
        ends = np.fromiter((len(row) + 1 for row in rows), np.int64, len(rows))
        with torch.inference_mode():
            on_device = [torch.from_numpy(a).to(self._place.device) for a in (ids, ends)]
            return self._normalised(self._towers.encode_text(self._text, *on_device))

    def _encode_padded(self, texts: Sequence[str]) -> Vectors:
        with self._torch.inference_mode():
            ids = self._tokenizer(list(texts), context_length=self._context)
            return self._normalised(self._model.encode_text(ids.to(self._place.device)))

    # ---- pictures ------------------------------------------------------------------------------

    def fit(self, image: Image) -> Image:
        """Crop and scale a picture to the model's input size; may run in any thread.

        A fitted picture is encoded to the same vector as the original.
        """
        if image.mode != "RGB":
            image = image.convert("RGB")
        if image.size == self._size:
            return image
        short = min(image.size)
        if max(image.size) > _NARROW * short:
            # The middle is cropped anyway, and scaling the whole could take gigabytes.
            width, height = (min(length, _NARROW * short) for length in image.size)
            left, top = (image.width - width) // 2, (image.height - height) // 2
            image = image.crop((left, top, left + width, top + height))
        for step in self._steps:
            image = step(image)
        return image

    def pixels(self, images: Iterable[Image]) -> Tensor:
        """Return the input of the image tower, float32[n, 3, side, side], on the device."""
        return self._pixels([np.asarray(self.fit(image)) for image in images])

    def encode_images(self, images: Iterable[Image]) -> Vectors:
        """Encode whole RGB pictures, float32[n, dim], scaled and centre-cropped as CLIP does.

        Args:
            images: read while others are encoded; an iterator may decode them lazily.
        """
        fitted = isinstance(images, Sequence) and all(one.size == self._size for one in images)
        return encode_ahead(
            images,
            lambda image: np.asarray(self.fit(image)),
            self._encode_arrays,
            self._image_batches,
            self.dim,
            by_threads=not fitted,
        )

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """Encode parts of one RGB picture, float32[len(boxes), dim]; boxes are clipped to it."""
        return self.encode_images([image.crop(_clipped(box, image.size)) for box in boxes])

    def _pixels(self, arrays: Sequence[NDArray[np.uint8]]) -> Tensor:
        stacked = self._torch.from_numpy(np.stack(arrays)).to(self._place.device)
        pixels: Tensor = stacked.permute(0, 3, 1, 2).float()
        return pixels.div_(255).sub_(self._mean).div_(self._std)

    def _encode_arrays(self, arrays: Sequence[NDArray[np.uint8]]) -> Vectors:
        with self._torch.inference_mode():
            pixels = self._pixels(arrays).to(self._place.dtype)
            if self._has_plain_vision:
                return self._normalised(self._towers.encode_pixels(self._model.visual, pixels))
            return self._normalised(self._model.encode_image(pixels))

    # ---- both ----------------------------------------------------------------------------------

    def _normalised(self, features: Tensor) -> Vectors:
        unit = self._torch.nn.functional.normalize(features.float(), dim=-1)
        vectors: Vectors = unit.cpu().numpy()
        return vectors

    def _dim(self) -> int:
        project = getattr(self._text or self._model, "text_projection", None)
        if project is not None:
            return int(getattr(project, "out_features", None) or project.shape[-1])
        return int(self._encode_padded([""]).shape[1])


def _cost(row: tuple[int, ...]) -> int:
    return len(row) + 2


def _clipped(box: Box, size: tuple[int, int]) -> Box:
    x0, y0 = (max(0, min(low, most - 1)) for low, most in zip(box[:2], size, strict=True))
    x1 = min(max(box[2], x0 + 1), size[0])
    return x0, y0, x1, min(max(box[3], y0 + 1), size[1])
