"""Find the names of units in a text: one pass over its words with a trie of names.

Names and texts are compared as folded words (case, compatibility forms, diacritics), so a name
matches at word boundaries only; in scripts without spaces every character is a word. All
occurrences count, "York" inside "New York" too, because words alone do not tell which is meant.
"""

from __future__ import annotations

from collections.abc import Sequence

from ku_rag.text.tokens import is_cjk, stop_words

_SHORTEST_WORD = 3
_SHORTEST_NUMBER = 3
_SHORTEST_CJK = 2


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

    def find(self, said: Sequence[str]) -> set[int]:
        """Return the rows of the units that a text names, given by its folded words."""
        found: set[int] = set()
        starts = self._root.following
        if starts.keys().isdisjoint(said):
            return found
        for first in [at for at, word in enumerate(said) if word in starts]:
            node: _Node | None = starts[said[first]]
            last = first
            while node is not None:
                found |= node.units
                last += 1
                node = node.following.get(said[last]) if last < len(said) else None
        return found


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
