"""An encoder that is loaded at its first use, so that listing units needs no model."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from threading import Lock

from PIL.Image import Image

from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.errors import Mismatch
from ku_rag.types import Box


class Deferred:
    """The encoder of an existing knowledge base, loaded at its first use.

    Args:
        spec: of the encoder.
        whole: spec of the base's encoder, which may be a pair with this one.
        fingerprint: stored in the base.
        dim: length of its vectors.
        load: creates the encoder.

    Methods and properties that need the encoder raise what `load` raises, and Mismatch if the
    loaded encoder has another fingerprint.
    """

    def __init__(
        self, spec: str, *, whole: str, fingerprint: str, dim: int, load: Callable[[], Encoder]
    ) -> None:
        self.fingerprint = fingerprint
        self.dim = dim
        self._spec = spec
        self._whole = whole
        self._load = load
        self._loaded: Encoder | None = None
        self._loading = Lock()

    @property
    def max_tokens(self) -> int:
        """See `Encoder`."""
        return self._encoder.max_tokens

    @property
    def cross_modal(self) -> bool:
        """See `Encoder`."""
        return self._encoder.cross_modal

    def count_tokens(self, text: str) -> int:
        """See `Encoder`."""
        return self._encoder.count_tokens(text)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder`."""
        return self._encoder.encode_texts(texts)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """See `Encoder`."""
        return self._encoder.encode_images(images)

    def encode_regions(self, image: Image, boxes: Sequence[Box]) -> Vectors:
        """See `Encoder`."""
        return self._encoder.encode_regions(image, boxes)

    @property
    def fit(self) -> Callable[[Image], Image] | None:
        """The encoder's `fit` method, if it has one; see `Encoder`."""
        fit: Callable[[Image], Image] | None = getattr(self._encoder, "fit", None)
        return fit

    @property
    def _encoder(self) -> Encoder:
        with self._loading:
            if self._loaded is None:
                loaded = self._load()
                if loaded.fingerprint != self.fingerprint:
                    raise Mismatch(
                        f"{self._spec} is {loaded.fingerprint} now, the knowledge base was made "
                        f"with {self.fingerprint}: put the old weights back, or bring the base "
                        f"over with `ku reindex --encoder {shlex.quote(self._whole)}`"
                    )
                self._loaded = loaded
            return self._loaded
