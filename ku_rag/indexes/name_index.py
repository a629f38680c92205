"""Find the names of units in a text: one pass over its words with a trie of names.

Names and texts are compared as folded words (case, compatibility forms, diacritics), so a name
matches at word boundaries only; in scripts without spaces every character is a word. All
occurrences count, "York" inside "New York" too, because words alone do not tell which is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ku_rag.text.tokens import is_cjk, stop_words, tokenize, words

_SHORTEST_WORD = 3
_SHORTEST_NUMBER = 3
_SHORTEST_CJK = 2
_REMEMBERED = 1 << 17
_LONGEST_REMEMBERED = 40

# No other ASCII character is part of a word, and this does not depend on its neighbours. So words
# never cross these runs, and each run can be tokenised and folded by itself.
_RUN = re.compile(r"[A-Za-z0-9\x80-\U0010ffff]+")


class _Runs(dict[str, tuple[str, ...]]):
    """Cache of the folded words of each run; texts repeat few different runs."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        cut = tuple(words(run))
        if len(run) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[run] = cut
        return cut


_RUNS = _Runs()


def _words(text: str) -> list[str]:
    """Like `tokens.words`, but several times faster."""
    if text.isascii():
        return words(text)
    return [word for run in _RUN.findall(text) for word in _RUNS[run]]


class _Node:
    """Trie node: the words that may follow, and the units that the words so far name."""

    __slots__ = ("following", "units")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.units: frozenset[int] = frozenset()


class NameIndex:
    """Finds all units that a text names.

    Keys are `tokens.name_key(name)`. A key may name several units, and a unit may have many keys.
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, key: str, unit: int) -> None:
        """Add a name.

        Args:
            key: its `tokens.name_key`; an empty key is ignored.
            unit: row of the unit with this name.
        """
        if not key:
            return
        node = self._root
        for word in key.split(" "):
            node = node.following.setdefault(word, _Node())
        node.units |= {unit}

    def remove(self, key: str, unit: int) -> None:
        """Remove a name; an unknown name is ignored."""
        path = [self._root]
        tokens = key.split(" ")
        for word in tokens:
            node = path[-1].following.get(word)
            if node is None:
                return
            path.append(node)
        path[-1].units -= {unit}
        for word, parent, node in zip(tokens[::-1], path[-2::-1], path[::-1], strict=False):
            if node.units or node.following:
                return
            del parent.following[word]

    def find(self, text: str) -> set[int]:
        """Return the rows of the units that a text names."""
        found: set[int] = set()
        for _, _, units in self._occurrences(_words(text)):
            found |= units
        return found

    def find_spans(self, text: str) -> list[tuple[int, int, frozenset[int]]]:
        """Return every occurrence of a name as (start, end, units), in order."""
        tokens = tokenize(text)
        return [
            (tokens[first].start, tokens[last].end, units)
            for first, last, units in self._occurrences([token.folded for token in tokens])
        ]

    def _occurrences(self, tokens: list[str]) -> Iterator[tuple[int, int, frozenset[int]]]:
        """Yield every occurrence: index of its first word, of its last word, and its units."""
        starts = self._root.following
        if starts.keys().isdisjoint(tokens):
            return
        for first in [at for at, word in enumerate(tokens) if word in starts]:
            node = starts[tokens[first]]
            last = first
            while True:
                if node.units:
                    yield first, last, node.units
                last += 1
                following = node.following.get(tokens[last]) if last < len(tokens) else None
                if following is None:
                    break
                node = following


def matchable(key: str) -> bool:
    """Whether a name is specific enough to be searched in the texts of other units.

    Names that consist of stop words, or of fewer than three letters or digits (two in scripts
    without spaces, or with both a letter and a digit, as in K2), would match everywhere.

    Args:
        key: `tokens.name_key` of the name.
    """
    tokens = key.split()
    if not tokens or all(word in stop_words() for word in tokens):
        return False
    if any(map(is_cjk, tokens)):
        return len(key.replace(" ", "")) >= _SHORTEST_CJK
    letters = "".join(tokens)
    if letters.isdigit():
        return len(letters) >= _SHORTEST_NUMBER
    if any(map(str.isdigit, letters)):
        return True
    return len(letters) >= _SHORTEST_WORD
