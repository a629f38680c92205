"""Token ids of open_clip's tokenizer, cached by word and in bounded time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_CACHED_WORDS = 1 << 14
_MAX_WORD = 1000
"""Longer words are split, because merging the pairs of a word takes the square of its length."""


class BytePairs:
    """Turns texts into token ids of open_clip's `SimpleTokenizer`, without start and end.

    A special token in a text, such as "<end_of_text>", is left out.
    """

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 - a class of open_clip
        self.start: int = tokenizer.sot_token_id
        self.end: int = tokenizer.eot_token_id
        self._tokenizer = tokenizer
        self._specials = frozenset(tokenizer.decoder[n] for n in tokenizer.all_special_ids)
        self._cached = lru_cache(_CACHED_WORDS)(self._word)

    def ids(self, text: str) -> tuple[int, ...]:
        """Return the token ids of a text."""
        found: list[int] = []
        for word in self._tokenizer.pat.findall(self._tokenizer.clean_fn(text)):
            for at in range(0, len(word), _MAX_WORD):
                found += self._cached(word[at : at + _MAX_WORD])
        return tuple(found)

    def _word(self, word: str) -> tuple[int, ...]:
        if word in self._specials:
            return ()
        letters = "".join(self._tokenizer.byte_encoder[byte] for byte in word.encode())
        parts = self._tokenizer.bpe(letters).split(" ")
        # open_clip's own cache has no limit.
        self._tokenizer.cache.pop(letters, None)
        return tuple(self._tokenizer.encoder[part] for part in parts)
