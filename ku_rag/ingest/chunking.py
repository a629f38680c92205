"""Chunking: as many whole sentences as fit the encoder's token limit (KU-RAG, section 3.2.2)."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator

from ku_rag.text.sentences import sentences
from ku_rag.text.tokens import is_cjk

_CHARACTERS_PER_TOKEN = 64
"""No chunk is longer than this many characters a token, whatever its encoder counts."""
_PARAGRAPH_END = re.compile(
    r"(?:\r\n|[\n\r\u2028])[^\S\n\r\u2028]*(?:\r\n|[\n\r\u2028])|[\f\u2029]"
)
_CLAUSE_MARKS = frozenset("、，；：,;")
_JOINERS = "\u200d\ufe0e\ufe0f"
_LONGEST_CLUSTER = 16


def chunk(text: str, *, count_tokens: Callable[[str], int], max_tokens: int) -> list[str]:
    """Cut a text into chunks that hold as many whole sentences as fit.

    A chunk that is at least half full ends at a blank line when there is one. A sentence that is
    too long by itself is cut at a word, and a word that is too long at a character.

    Args:
        text: anything; "".join of the chunks is exactly it.
        count_tokens: the encoder's token counter.
        max_tokens: the most tokens of one chunk, 1 or more; a single character is never cut.
    """
    limit = max(1, max_tokens)
    if 0 < len(text) <= limit * _CHARACTERS_PER_TOKEN and count_tokens(text) <= limit:
        return [text]
    return [text[start:end] for start, end in _Cutter(text, count_tokens, max_tokens).cut()]


class _Cutter:
    """Cuts one text; holds the ends of its sentences and about how many tokens each has.

    Token counts of sentences do not add up exactly (byte pairs merge over sentence ends, some
    counters add start and end marks), so sums are a first guess and whole chunks are counted.
    """

    def __init__(self, text: str, count_tokens: Callable[[str], int], max_tokens: int) -> None:
        self._text = text
        self._count = count_tokens
        self._limit = max(1, max_tokens)
        self._longest = self._limit * _CHARACTERS_PER_TOKEN
        self._marks = count_tokens("")
        spans = sentences(text)
        self._ends = [end for _, end in spans]
        self._costs = [max(0, self._tokens(*span) - self._marks) for span in spans]

    def cut(self) -> Iterator[tuple[int, int]]:
        """Yield the chunks as ranges that cover the text."""
        start = first = 0
        while first < len(self._ends):
            end = self._ends[first]
            if self._fits(start, end):
                first = self._whole_sentences(start, first)
                end = self._ends[first - 1]
            else:
                end = self._part(start, end)
                first += end == self._ends[first]
            yield start, end
            start = end

    def _tokens(self, start: int, end: int) -> int:
        return self._count(self._text[start:end])

    def _fits(self, start: int, end: int) -> bool:
        return end - start <= self._longest and self._tokens(start, end) <= self._limit

    def _whole_sentences(self, start: int, first: int) -> int:
        """Return the index after the last sentence that fits together with sentence `first`."""
        ends, last = self._ends, first + 1
        room = self._limit - self._tokens(start, ends[first])
        while last < len(ends) and self._costs[last] <= room:
            room -= self._costs[last]
            last += 1
        while last > first + 1 and not self._fits(start, ends[last - 1]):
            last -= 1
        while last < len(ends) and self._fits(start, ends[last]):
            last += 1
        if last == len(ends):
            return last
        total = self._marks + sum(self._costs[first:last])
        for paragraph in range(last, first, -1):
            if 2 * total < self._limit:
                break
            end = ends[paragraph - 1]
            bare = start + len(self._text[start:end].rstrip())
            if _PARAGRAPH_END.search(self._text, bare, end) and self._fits(start, end):
                return paragraph
            total -= self._costs[paragraph - 1]
        return last

    def _part(self, start: int, end: int) -> int:
        """Return where to cut a sentence that is too long: after a word, else after a character."""
        last, length = min(end, start + self._longest), self._limit
        # Not all of the longest chunk: its characters may be tokens of their own.
        while start + length < last and self._tokens(start, start + length) <= self._limit:
            length *= 2
        ends = range(start + 1, min(last, start + length) + 1)
        fitting = bisect_right(ends, self._limit, key=lambda place: self._tokens(start, place))
        longest = ends[max(fitting, 1) - 1]
        if longest == end:
            return end
        cut = _before(self._text, start, longest)
        return cut if self._tokens(start, cut) <= self._limit else longest


def _before(text: str, start: int, end: int) -> int:
    """Return the best place to cut at or before `end`, which is inside a sentence.

    A space in the second half, a clause mark there, any space; in scripts without spaces, and
    within a word, a character with the marks that belong to it.
    """
    half = (start + end) // 2
    for good in (str.isspace, _CLAUSE_MARKS.__contains__):
        for cut in range(end, half, -1):
            if good(text[cut - 1]) and not text[cut].isspace():
                return cut
    if not is_cjk(text[end]):
        for cut in range(half, start, -1):
            if text[cut - 1].isspace() and not text[cut].isspace():
                return cut
    for cut in range(end, max(start, end - _LONGEST_CLUSTER), -1):
        if not _belongs_to_previous(text[cut - 1], text[cut]):
            return cut
    return end


def _belongs_to_previous(before: str, character: str) -> bool:
    joined = character in _JOINERS or before == _JOINERS[0] or (before, character) == ("\r", "\n")
    return joined or unicodedata.category(character).startswith("M")
