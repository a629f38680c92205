"""Find the names of units in a text: one pass over its words.

Names and texts are compared as folded words (case, compatibility forms, diacritics), so a name
matches at word boundaries only; in scripts without spaces every character is a word. All
occurrences count, "York" inside "New York" too, because the words do not show which is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ku_rag.text.tokens import is_cjk, stop_words

_SHORTEST = 3
_SHORTEST_CJK = 2


class NameIndex:
    """Finds all units that a text names.

    Args:
        names: `tokens.name_key` of each name, and the row of the unit. A key may name several
            units, and a unit may have many keys. Names that are not `matchable` are never found.
    """

    def __init__(self, names: Iterable[tuple[str, int]]) -> None:
        self._units: dict[str, list[int]] = {}
        self._longer: set[str] = set()  # words at the beginning of longer names
        self._first: set[str] = set()
        for key, unit in names:
            self._units.setdefault(key, []).append(unit)
            end = key.find(" ")
            self._first.add(key if end < 0 else key[:end])
            while end >= 0:
                self._longer.add(key[:end])
                end = key.find(" ", end + 1)

    def find(self, words: Sequence[str]) -> set[int]:
        """Return the rows of the units that a text names, given its folded words."""
        units: set[int] = set()
        if not self._first or self._first.isdisjoint(words):
            return units
        for first, key in enumerate(words):
            last = first
            while True:
                if key in self._units and matchable(key):
                    units.update(self._units[key])
                last += 1
                if key not in self._longer or last == len(words):
                    break
                key = f"{key} {words[last]}"
        return units


@lru_cache(maxsize=1 << 12)
def matchable(key: str) -> bool:
    """Return whether a name, by its `name_key`, may be searched for in the texts of other units.

    Names that consist of stop words, or of fewer than three letters or digits (two in scripts
    without spaces, or with both a letter and a digit, as in K2), would match nearly everywhere.
    """
    tokens = key.split()
    if stop_words().issuperset(tokens):
        return False
    letters = "".join(tokens)
    if len(letters) >= _SHORTEST:
        return True
    if any(map(is_cjk, tokens)):
        return len(letters) >= _SHORTEST_CJK
    return any(map(str.isdigit, letters)) and not letters.isdigit()
