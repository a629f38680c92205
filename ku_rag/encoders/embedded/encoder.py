"""The default encoder, which needs no weights, key or network.

Pictures are described by their colours and edges (`descriptor`). Texts are hashed: each folded word
and its character n-grams (n = 3 to 5, with word boundaries) are added to a signed hash space, so
that "African" and "Africa" are similar without a vocabulary. Stop words have low weights. The hash
is CRC-32, which is equal on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors
from ku_rag.encoders.embedded import descriptor
from ku_rag.text.tokens import is_cjk, spans, stop_words, words

_VERSION = "hash1"
_NGRAMS = (3, 4, 5)
_WORD_WEIGHT = 1.0
_NGRAM_WEIGHT = 0.6
_STOP_WEIGHT = 0.1
_PIECE = 12
"""Letters of a word that count as one token."""


class EmbeddedEncoder:
    """Texts by hashed words and n-grams, pictures by colour layout and gradients.

    The vectors of texts and pictures have equal lengths and are not comparable.
    """

    dim = descriptor.DIM
    max_tokens = 256
    cross_modal = False
    finds_regions = True
    fingerprint = f"embedded:{_VERSION}+{descriptor.VERSION}:{descriptor.DIM}"
    encode_images = staticmethod(descriptor.describe_images)
    encode_regions = staticmethod(descriptor.describe_boxes)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens: one for every 12 characters of a word, or of punctuation."""
        pieces = 0
        end = 0
        for start, after in spans(text):
            pieces += (after - start + _PIECE - 1) // _PIECE + (start - end) // _PIECE
            end = after
        return pieces + (len(text) - end) // _PIECE

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Hash texts into float32[n, 512] rows of length 1 (zero rows for texts without words)."""
        out = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(out, texts, strict=True):
            counts: dict[str, int] = {}
            for word in words(text):
                counts[word] = counts.get(word, 0) + 1
            if not counts:
                continue
            features = [_features(word) for word in counts]
            damped = 1.0 + np.log(np.fromiter(counts.values(), np.float32, len(counts)))
            sizes = [len(places) for places, _ in features]
            weights = np.concatenate([values for _, values in features]) * np.repeat(damped, sizes)
            np.add.at(row, np.concatenate([places for places, _ in features]), weights)
            length = float(np.linalg.norm(row))
            if length > 0:
                row /= length
        return out


@lru_cache(maxsize=1 << 15)
def _features(word: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the positions and signed weights of one folded word."""
    bounded = "" if is_cjk(word) else f"<{word}>"
    grams = [bounded[i : i + n] for n in _NGRAMS for i in range(len(bounded) - n + 1)]
    weight = _STOP_WEIGHT if word in stop_words() else 1.0
    hashes = np.array([zlib.crc32(g.encode()) for g in [f"={word}", *grams]], np.int64)
    weights = np.full(len(hashes), _NGRAM_WEIGHT / max(1, len(grams)) ** 0.5, np.float32)
    weights[0] = _WORD_WEIGHT
    signs = np.where(hashes >> 16 & 1, 1.0, -1.0).astype(np.float32)
    return hashes % descriptor.DIM, weights * signs * np.float32(weight)
