"""Stems: what the inflections and spellings of a word have in common (Snowball).

The keyword index holds stems of the language of the base. Questions and relations are compared by
English stems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise

import Stemmer

from ku_rag.text.tokens import fold, is_cjk, stop_words, words

_REMEMBERED = 1 << 17
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


class _Stems(dict[str, str]):
    """Cache of the stem of each folded word of a language."""

    def __init__(self, language: str) -> None:
        self._stemmer = Stemmer.Stemmer(language, 0)  # cached here
        self._irregular = _IRREGULAR if language == "english" else {}

    def __missing__(self, word: str) -> str:
        if word.isascii() and word.isdecimal():
            return word
        if len(self) >= _REMEMBERED:
            self.clear()
        stemmed: str = self._stemmer.stemWord(self._irregular.get(word, word))
        self[word] = stemmed
        return stemmed


_stems = lru_cache(_Stems)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a word: "borders", "bordered" → "border"; "made" → "make"."""
    return _stems("english")[fold(word)]


def index_terms(cut: Sequence[str], language: str) -> str:
    """Return stems of folded words; of scripts without spaces bigrams and the last character."""
    terms = " ".join(map(_stems(language).__getitem__, cut))
    return terms if terms.isascii() else " ".join(query_terms(cut, language, last=True))


def query_terms(cut: Sequence[str], language: str, *, last: bool = False) -> list[str]:
    """Return the terms of folded words to look up; `last` repeats the last character of a run."""
    terms: list[str] = []
    for without_spaces, run in groupby(cut, is_cjk):
        if not without_spaces:
            terms += map(_stems(language).__getitem__, run)
            continue
        characters = list(run)
        terms += map("".join, pairwise(characters))
        if last or len(characters) == 1:
            terms.append(characters[-1])
    return terms


@lru_cache(maxsize=1 << 14)
def stems(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text."""
    return frozenset(stem(word) for word in words(text) if word not in stop_words())


@lru_cache(maxsize=1 << 12)
def label_stems(label: str) -> frozenset[str]:
    """Return stems of the content words of a label, or of all its words if none has content."""
    return stems(label) or every_stem(label)


def every_stem(text: str) -> frozenset[str]:
    """Return the stems of all words of a text; long texts are not kept in a cache."""
    return frozenset(map(stem, words(text)))


def singulars(text: str) -> Iterator[str]:
    """Yield a name or a value, and its possible singulars."""
    yield text
    for ending, singular in (("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", "")):
        if text.endswith(ending):
            yield text.removesuffix(ending) + singular


def root(word: str) -> str:
    """Return what the stems of a verb and of its agent noun share: "design" and "designer"."""
    shorter = word[:-2] if word.endswith(("er", "or")) and len(word) > 4 else word
    shorter = shorter.removesuffix("abl")
    return shorter.removesuffix("e")


@lru_cache(maxsize=1 << 14)
def roots(words: frozenset[str]) -> frozenset[str]:
    """Return the roots of words; a question is compared with every label of a base."""
    return frozenset(map(root, words))
