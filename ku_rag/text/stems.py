"""Stems: what the inflections and spellings of an English word have in common (Snowball)."""

from __future__ import annotations

from functools import lru_cache

import Stemmer

from ku_rag.text.tokens import fold, stop_words, words

_SNOWBALL = Stemmer.Stemmer("english")
_IRREGULAR = {
    form: base
    for base, forms in {
        "make": "made", "write": "wrote written", "build": "built", "find": "found",
        "speak": "spoke spoken", "win": "won", "hold": "held", "stand": "stood", "lie": "lay lain",
        "give": "gave given", "take": "took taken", "grow": "grew grown", "lead": "led",
        "draw": "drew drawn", "sing": "sang sung", "sell": "sold", "buy": "bought", "eat": "eaten",
        "begin": "began begun", "keep": "kept", "leave": "left", "run": "ran", "weigh": "weight",
        "neighbor": "neighbour neighbours neighbouring neighboured", "color": "colour colours",
        "height": "high tall", "live": "lives", "person": "people", "die": "died death",
        "center": "centre centres", "bear": "born birth", "meter": "metre metres",
    }.items()
    for form in forms.split()
}  # fmt: skip


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a word: "borders", "bordered" → "border"; "made" → "make".

    Words of other languages change little, and alike wherever they stand.
    """
    folded = fold(word)
    return str(_SNOWBALL.stemWord(_IRREGULAR.get(folded, folded)))


@lru_cache(maxsize=1 << 14)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text."""
    return frozenset(stem(word) for word in words(text) if word not in stop_words())


def root(word: str) -> str:
    """Return what the stems of a verb and of its agent noun share: "design" and "designer"."""
    shorter = word[:-2] if word.endswith(("er", "or")) and len(word) > 4 else word
    return shorter.removesuffix("e")
