"""Names of units in texts: one pass over the words, however many names there are.

Names and texts are compared as folded words (case, compatibility forms, diacritics), so a name is
found at word boundaries only; in scripts without spaces every character is a word. Every name that
stands in the text counts, "York" inside "New York" too: which of them is meant is a question that
the words alone do not answer.
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

# No other ASCII character is ever part of a word, and whether a character is does not depend on
# its neighbours: words never reach across these runs, so each run can be cut and folded by itself.
_RUN = re.compile(r"[A-Za-z0-9\x80-\U0010ffff]+")


class _Runs(dict[str, tuple[str, ...]]):
    """The folded words of every run seen lately; texts are made of few different ones."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        cut = tuple(words(run))
        if len(run) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[run] = cut
        return cut


_RUNS = _Runs()


def _words(text: str) -> list[str]:
    """`tokens.words`, some times faster."""
    if text.isascii():
        return words(text)
    return [word for run in _RUN.findall(text) for word in _RUNS[run]]


class _Node:
    """What may follow the words read so far, and the units that they name."""

    __slots__ = ("following", "units")

    def __init__(self) -> None:
        self.following: dict[str, _Node] = {}
        self.units: frozenset[int] = frozenset()


class NameIndex:
    """Finds in a text all units that it names.

    Keys are `tokens.name_key(name)`. One key may name several units, and one unit have many keys.
    """

    def __init__(self) -> None:
        self._root = _Node()

    def add(self, key: str, unit: int) -> None:
        """Look for a name from now on.

        Args:
            key: its `tokens.name_key`; an empty one is never found.
            unit: row of the unit that bears it.
        """
        if not key:
            return
        node = self._root
        for word in key.split(" "):
            node = node.following.setdefault(word, _Node())
        node.units |= {unit}

    def remove(self, key: str, unit: int) -> None:
        """Look for a name no longer; one that was never added is let pass."""
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
        """The units whose names stand in a text."""
        found: set[int] = set()
        for _, _, units in self._occurrences(_words(text)):
            found |= units
        return found

    def find_spans(self, text: str) -> list[tuple[int, int, frozenset[int]]]:
        """Every place of a text where a name stands: (start, end, units), in order."""
        tokens = tokenize(text)
        return [
            (tokens[first].start, tokens[last].end, units)
            for first, last, units in self._occurrences([token.folded for token in tokens])
        ]

    def _occurrences(self, tokens: list[str]) -> Iterator[tuple[int, int, frozenset[int]]]:
        """Every name among the words: index of its first word, of its last, and its units."""
        starts = self._root.following
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
    """Whether a name says enough by itself to be looked for in other units' texts.

    Names of stop words only, of less than three letters or digits (two in scripts without spaces,
    or where a letter stands with a digit, as in K2) would be found everywhere.

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
