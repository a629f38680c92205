"""Cutting of texts into chunks, and encoding of what a batch of records has no vectors for.

The pipeline uses it beside the store, and `ku encode` without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.ingest.chunking import chunk
from ku_rag.ingest.image_decoding import LONGEST, decode_ahead
from ku_rag.ingest.preparation import PreparedPicture, PreparedRecord
from ku_rag.pictures import load_picture
from ku_rag.recognisers import CachedRecogniser
from ku_rag.store.vectors import Kind
from ku_rag.types import Quarantined

Vector = NDArray[np.float32]

StoredVectors = Callable[[Kind, Iterable[str]], dict[str, Vector]]
"""Returns the known vectors of texts or of pictures, by text or digest."""


@dataclass(frozen=True, slots=True)
class EncodingPlan:
    """What of a batch has to be encoded, and the vectors that are known.

    Args:
        texts: Chunks without a vector.
        pictures: Pictures without a vector.
        text_vectors: Vectors of chunks, by text.
        picture_vectors: Vectors of pictures, by digest.
        broken: Why pictures cannot be decoded, by digest.
    """

    texts: list[str]
    pictures: Sequence[PreparedPicture]
    text_vectors: dict[str, Vector]
    picture_vectors: dict[str, Vector]
    broken: dict[str, str] = field(default_factory=dict)


class BatchEncoder:
    """Encodes batches of prepared records; one thread at a time calls the encoder.

    Args:
        max_tokens: The most tokens of a chunk; 0 for the encoder's limit.
        recogniser: Returns the recogniser of words in pictures, or None.
    """

    def __init__(
        self,
        encoder: Encoder,
        max_tokens: int,
        recogniser: Callable[[], CachedRecogniser | None] = lambda: None,
    ) -> None:
        self._recogniser = recogniser
        self.encoder = encoder
        self.max_tokens = min(max_tokens or encoder.max_tokens, encoder.max_tokens)
        self._encoding = Lock()

    def plan(
        self, batch: Sequence[PreparedRecord], stored: StoredVectors = lambda *_: {}
    ) -> EncodingPlan:
        """Cut texts into chunks, and look up which chunks and pictures have a vector.

        The chunks are noted in the records.
        """
        texts: dict[str, None] = {}
        for source in (s for record in batch for s in record.sources if not s.keeps_texts):
            if source.chunks is None:
                source.chunks = [
                    (n, part) for n, text in enumerate(source.texts) for part in self._cut(text)
                ]
            if source.chunk_vectors is None:
                texts.update((part, None) for _, part in source.chunks)
        pictures = {
            picture.digest: picture
            for record in batch
            for picture in record.pictures()
            if picture.vector is None
        }
        text_vectors, picture_vectors = stored("chunk", texts), stored("image", pictures)
        return EncodingPlan(
            [text for text in texts if text not in text_vectors],
            [picture for digest, picture in pictures.items() if digest not in picture_vectors],
            text_vectors,
            picture_vectors,
        )

    def encode(self, plan: EncodingPlan) -> None:
        """Encode what a plan names; no store is used."""
        groups = decode_ahead(plan.pictures, self._decode)
        # The first pictures are decoded while the batch before is still encoded.
        first = list(islice(groups, 1))
        with self._encoding:
            if plan.texts:
                vectors = self.encoder.encode_texts(plan.texts)
                plan.text_vectors.update(zip(plan.texts, vectors, strict=True))
            for sound, broken in chain(first, groups):
                plan.broken.update((picture.digest, str(error)) for picture, error in broken)
                if sound:
                    vectors = self.encoder.encode_images([image for _, image in sound])
                    digests = (picture.digest for picture, _ in sound)
                    plan.picture_vectors.update(zip(digests, vectors, strict=True))

    def assign(self, batch: Sequence[PreparedRecord], plan: EncodingPlan) -> list[Quarantined]:
        """Give the vectors to chunks and pictures; remove and report pictures that are broken."""
        dim = side(self.encoder, "chunk").dim
        printed, left_out = {picture.digest: picture.printed for picture in plan.pictures}, []
        for record in batch:
            if plan.broken:
                removed = record.remove_pictures(plan.broken)
                left_out += [Quarantined(str(p.path), plan.broken[p.digest]) for p in removed]
            for source in record.sources:
                if source.chunk_vectors is None and not source.keeps_texts:
                    vectors = [plan.text_vectors[part] for _, part in source.chunks or ()]
                    source.chunk_vectors = (
                        np.stack(vectors) if vectors else np.empty((0, dim), np.float32)
                    )
            for picture in record.pictures():
                if picture.vector is None:
                    picture.vector = plan.picture_vectors[picture.digest]
                picture.printed = printed.get(picture.digest, picture.printed)
        return left_out

    def _cut(self, text: str) -> list[str]:
        if not text.strip():
            return []
        return chunk(text, count_tokens=self.encoder.count_tokens, max_tokens=self.max_tokens)

    def _decode(self, picture: PreparedPicture) -> Image:
        """Return a picture in the size that the encoder uses, if it has one; read its words."""
        if not picture.printed and (recogniser := self._recogniser()):
            picture.printed = recogniser.read_file(picture.data)
        fit: Callable[[Image], Image] | None
        fit = getattr(side(self.encoder, "image"), "fit", None)
        image = load_picture(picture.data, LONGEST)
        return fit(image) if fit else image
