"""Encoder for CLIP models: texts and pictures in one vector space (KU-RAG, eq. 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL.Image import Image, new

from ku_rag.encoders.base import Vectors
from ku_rag.encoders.bytepairs import BytePairs
from ku_rag.encoders.torch_runtime import IMAGE_COSTS, TEXT_COSTS, Batches, check_length, place
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from torch import Tensor

_PREPROCESSING = "clip1"
"""Version of the conversion of pictures and texts to tensors."""
_NUMBERS = "float"
"""Stands for float32 and bfloat16: their vectors differ less than two pictures of one object."""
_NARROW = 8
"""Pictures with a larger ratio of sides are cropped before they are scaled."""


class ClipEncoder:
    """Encodes with an open_clip model; vectors of texts and pictures are comparable.

    Args:
        model: an open_clip model with its weights, on the CPU.
        preprocessing: open_clip's transforms from a picture to a tensor; the last two convert to a
            tensor and normalise it.
        batch_size: items in a batch; 0 chooses by device.

    Raises:
        BadInput: the device does not exist.
    """

    cross_modal = True

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - of open_clip
        tokenizer: Any,  # noqa: ANN401
        preprocessing: Any,  # noqa: ANN401
        *,
        fingerprint: str,
        device: str,
        batch_size: int,
    ) -> None:
        self._torch = extra("longclip", "torch")
        self._context = int(model.context_length)
        self._place = where = place(device, needs="longclip")
        self._model = where.load(model)
        self._tokenizer = tokenizer
        is_simple = type(tokenizer).__name__ == "SimpleTokenizer"
        self._pairs = BytePairs(tokenizer) if is_simple else None
        # Only this class has a causal mask and takes the features at the end token.
        self._is_plain = (
            is_simple
            and type(self._model) is extra("longclip", "open_clip.model").CLIP
            and self._model.text_pool_type == "argmax"
        )
        self._size = (0, 0)
        *self._steps, _, normalize = preprocessing.transforms
        self._mean, self._std = (
            self._torch.tensor(values, device=where.device).view(-1, 1, 1)
            for values in (normalize.mean, normalize.std)
        )
        self._size = self.fit(new("RGB", (64, 64))).size
        kind = where.device.type
        self._text_batches = Batches(batch_size, cost=TEXT_COSTS[kind])
        self._image_batches = Batches(batch_size, cost=IMAGE_COSTS[kind])
        inner = getattr(tokenizer, "tokenizer", None)
        self.max_tokens = self._context - (
            2 if is_simple or inner is None else int(inner.num_special_tokens_to_add())
        )
        self.dim = int(self._encode([("", ())]).shape[1])
        self.fingerprint = f"{fingerprint}:{_PREPROCESSING}:{_NUMBERS}:{self.dim}"

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without start and end."""
        return len(self._ids(text))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]; `BadInput` for one of more than `max_tokens` tokens."""
        rows = [(text, self._ids(text)) for text in texts]
        check_length(max((len(ids) for _, ids in rows), default=0), self)
        return self._text_batches.encode(
            rows,
            lambda row: len(row[1]) + 2 if self._is_plain else self._context,
            self._encode,
            self.dim,
        )

    def _ids(self, text: str) -> tuple[int, ...]:
        if self._pairs is not None:
            return self._pairs.ids(text)
        inner = self._tokenizer.tokenizer
        cleaned = self._tokenizer.clean_fn(text)
        found = inner(cleaned, add_special_tokens=False, truncation=False, verbose=False)
        return tuple(found["input_ids"])

    def _encode(self, rows: Sequence[tuple[str, tuple[int, ...]]]) -> Vectors:
        """Encode texts with their token ids, float32[n, dim].

        A plain model's texts are padded to the longest of the batch only: its mask is causal, so
        tokens after the end of a text have no effect. open_clip pads to the context length.
        """
        model, torch = self._model, self._torch
        with torch.inference_mode():
            if not self._is_plain:
                ids = self._tokenizer([text for text, _ in rows], context_length=self._context)
                return self._normalised(model.encode_text(ids.to(self._place.device)))
            assert self._pairs is not None
            length = max(len(row) for _, row in rows) + 2
            ids = torch.zeros((len(rows), length), dtype=torch.int64)
            for target, (_, row) in zip(ids, rows, strict=True):
                target[: len(row) + 2] = torch.tensor([self._pairs.start, *row, self._pairs.end])
            ids = ids.to(self._place.device)
            x = model.token_embedding(ids) + model.positional_embedding[:length]
            x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:length, :length]))
            x = x[torch.arange(len(rows)), ids.argmax(1)]
            project = model.text_projection
            return self._normalised(
                project(x) if isinstance(project, torch.nn.Module) else x @ project
            )

    def fit(self, image: Image) -> Image:
        """Crop and scale a picture to the model's input size; may run in any thread.

        A fitted picture is encoded to the same vector as the original.
        """
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

    def pixels(self, images: Sequence[Image]) -> Tensor:
        """Return the input of the image tower, float32[n, 3, side, side], on the device."""
        stacked = np.stack([np.asarray(self.fit(image)) for image in images])
        on_device = self._torch.from_numpy(stacked).to(self._place.device)
        pixels: Tensor = on_device.permute(0, 3, 1, 2).float()
        return pixels.div_(255).sub_(self._mean).div_(self._std)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Encode whole RGB pictures, float32[n, dim], scaled and centre-cropped as CLIP does."""

        def encode(numbers: Sequence[int]) -> Vectors:
            with self._torch.inference_mode():
                pixels = self.pixels([images[number] for number in numbers])
                return self._normalised(self._model.encode_image(pixels.to(self._place.dtype)))

        return self._image_batches.encode(range(len(images)), lambda _: 1, encode, self.dim)

    def _normalised(self, features: Tensor) -> Vectors:
        unit = self._torch.nn.functional.normalize(features.float(), dim=-1)
        vectors: Vectors = unit.cpu().numpy()
        return vectors
