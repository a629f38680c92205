"""CLIP's byte pairs: the ids of open_clip's tokenizer, faster and in bounded time."""

from __future__ import annotations

import heapq
import re
from functools import lru_cache
from typing import Any

from ku_rag.plugins import extra

_ODD = re.compile(r"[^\t\n\r\x20-\x7e]|&")
"""What open_clip's cleaning may turn into something else."""
_CACHED_WORDS = 1 << 16
_LONGEST_CACHED = 64


class BytePairs:
    """Turns texts into token ids, without marks for start and end.

    What a text says can never be taken for a mark: "<end_of_text>" in a text is left out.

    Args:
        tokenizer: open_clip's `SimpleTokenizer`, whose tables and cleaning are used.
    """

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 - a class of open_clip
        clean = extra("longclip", "open_clip.tokenizer").get_clean_fn
        self.start: int = tokenizer.sot_token_id
        self.end: int = tokenizer.eot_token_id
        self._clean = tokenizer.clean_fn
        self._is_usual = self._clean is clean("lower")
        self._pattern = tokenizer.pat
        self._letters: dict[int, str] = tokenizer.byte_encoder
        self._ranks: dict[tuple[str, str], int] = tokenizer.bpe_ranks
        self._ids: dict[str, int] = tokenizer.encoder
        specials = {tokenizer.decoder[number] for number in tokenizer.all_special_ids}
        self._specials = frozenset(specials)
        self._cached = lru_cache(_CACHED_WORDS)(self._word)

    def ids(self, text: str) -> tuple[int, ...]:
        """Token ids of a text."""
        if self._is_usual and not _ODD.search(text):
            cleaned = " ".join(text.split()).lower()
        else:
            cleaned = self._clean(text)
        found: list[int] = []
        for word in self._pattern.findall(cleaned):
            found += self._cached(word) if len(word) <= _LONGEST_CACHED else self._word(word)
        return tuple(found)

    def _word(self, word: str) -> tuple[int, ...]:
        """Ids of one word: the pair of the lowest rank is joined everywhere, until none is left.

        Pairs wait in a heap, so that a word of n letters takes n log n steps and not n squared.
        """
        if word in self._specials:
            return ()
        parts = [self._letters[byte] for byte in word.encode()]
        parts[-1] += "</w>"
        last = len(parts)
        after, before = [*range(1, last), -1], list(range(-1, last - 1))
        heap: list[tuple[int, int, str, str]] = []

        def offer(at: int) -> None:
            if at >= 0 and (behind := after[at]) >= 0:
                pair = parts[at], parts[behind]
                if (rank := self._ranks.get(pair)) is not None:
                    heapq.heappush(heap, (rank, at, *pair))

        for at in range(last - 1):
            offer(at)
        while heap:
            rank = heap[0][0]
            same = []
            while heap and heap[0][0] == rank:
                same.append(heapq.heappop(heap))
            for _, at, left, right in same:
                behind = after[at]
                # A neighbour may have taken either half meanwhile; what was joined is "".
                if behind < 0 or parts[at] != left or parts[behind] != right:
                    continue
                parts[at], parts[behind] = left + right, ""
                after[at] = after[behind]
                if after[at] >= 0:
                    before[after[at]] = at
                offer(before[at])
                offer(at)
        return tuple(self._ids[part] for part in parts if part)
