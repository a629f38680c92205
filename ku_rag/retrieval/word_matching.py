"""Match units by the words printed in a picture, beside what it looks like.

The words are compared with the names of units, the values of their facts, and the words printed in
their own pictures. Recognisers misread letters, so similar words count as equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ku_rag.encoders.embedded.window_matching import RegionMatch
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.tokens import content_words
from ku_rag.types import Word

_MOST_RARITY = 5.0
"""Sum of rarities from which on more words add nothing: long texts do not outweigh the picture."""
_LEAST_CONFIDENCE = 0.5
_WEIGHT, _ALIKE, _SHORTEST = 0.35, 84, 3
"""What the rarity of words adds to a score, see docs/decisions/0067; the least similarity of two
words, 0 to 100; letters of the shortest one."""


def add_words(
    connection: Connection, matches: Mapping[int, RegionMatch], words: Sequence[Word]
) -> dict[int, RegionMatch]:
    """Add words printed in a picture to the matches of units that have them; the best come first.

    The rarity of a word is 1 if one unit has it, and the less the more units have it.
    """
    from rapidfuzz import fuzz, process  # needed only for pictures with words

    holders = _holders(connection, matches)
    certain = [word.text for word in words if word.confidence >= _LEAST_CONFIDENCE]
    printed = {key: text for text in certain for key in _keys(text)}
    shared: dict[int, list[tuple[float, str]]] = {}
    for key, text in printed.items():
        near = process.extract(key, [*holders], scorer=fuzz.ratio, score_cutoff=_ALIKE, limit=None)
        units = set[int]().union(*(holders[word] for word, *_ in near))
        for unit in units:
            rarity = math.log1p(len(matches) / len(units)) / math.log1p(len(matches))
            shared.setdefault(unit, []).append((rarity, text))
    rescored = dict(matches)
    for unit, having in shared.items():
        rarity = min(_MOST_RARITY, sum(rarity for rarity, _ in having))
        texts = tuple(dict.fromkeys(text for _, text in sorted(having, reverse=True)))
        score = round(matches[unit].score + _WEIGHT * rarity, 4)
        rescored[unit] = replace(matches[unit], score=score, rarity=rarity, words=texts)
    return dict(sorted(rescored.items(), key=lambda pair: -pair[1].score))


def _holders(connection: Connection, units: Iterable[int]) -> dict[str, set[int]]:
    """Return the words of the names, facts and pictures of units → the units that have them."""
    holders: dict[str, set[int]] = {}
    for unit, text in connection.execute(
        "WITH listed AS (SELECT value unit FROM json_each(?)) "
        "SELECT unit, key FROM listed JOIN names USING (unit) UNION ALL "
        "SELECT unit, key FROM listed JOIN facts USING (unit) WHERE key IS NOT NULL UNION ALL "
        "SELECT unit, w.value ->> 'text' FROM listed JOIN unit_images USING (unit) "
        "JOIN image_words USING (image), json_each(words) w",
        (as_json(units),),
    ):
        for key in _keys(text):
            holders.setdefault(key, set()).add(unit)
    return holders


def _keys(text: str) -> list[str]:
    """Return the folded words that are compared."""
    return [word for word in content_words(text) if len(word) >= _SHORTEST]
