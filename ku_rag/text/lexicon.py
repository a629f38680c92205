"""What questions ask about and how texts say it: hand-made concepts, and words made comparable."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from ku_rag.text.tokens import fold

Phrase = tuple[str, ...]

_WORD = re.compile(
    r"(?P<number>\d[\d.,\u00a0\u202f']*\d|\d)|(?P<own>['’]s(?!\w))"
    r"|(?P<word>[^\W\d_]\w*(?:(?:['’](?!s\b)|[\-‑])\w+)*|\w+)|(?P<mark>[^\w\s])"
)


class Word(NamedTuple):
    """A word or mark of a text: as written, made comparable, and where it stands."""

    text: str
    stem: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Concept:
    """One thing that can be asked about.

    Args:
        name: what the lexicon calls it; "" for one made from the words of a question.
        type: the kind of value.
        units: for quantities, the kinds of unit allowed; empty allows every unit.
        ask: phrases of questions.
        nouns: what texts call it.
        before: phrases right before the value.
        after: phrases right after the value.
    """

    name: str
    type: str
    units: tuple[str, ...] = ()
    ask: tuple[Phrase, ...] = ()
    nouns: tuple[Phrase, ...] = ()
    before: tuple[Phrase, ...] = ()
    after: tuple[Phrase, ...] = ()


def read_words(text: str) -> list[Word]:
    """Cut a text into words, numbers, possessive endings and marks."""
    return [Word(m[0], stem(m[0]), m.start(), m.end()) for m in _WORD.finditer(text)]


@lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """What inflections and spellings of one English word have in common, roughly.

    "borders", "bordered", "bordering" → "border"; "neighbours", "neighbor" → "neighbor". Words of
    other languages change little, and alike wherever they stand.
    """
    base = fold(word)
    irregular = _irregular().get(base)
    if irregular == base:
        return base
    if irregular:
        return stem(irregular)
    if len(base) < 4 or not base.isalpha():
        return base
    shorter = _without_ending(base)
    if base == shorter + "s" and shorter in _irregular():
        # "comes" is a form of "come", which keeps its e.
        return stem(shorter)
    base = shorter
    if len(base) > 4:
        base = re.sub(r"our", "or", base)
    return base.removesuffix("e") if len(base) > 3 else base


@lru_cache(maxsize=1)
def _irregular() -> dict[str, str]:
    return dict(pair.split(":") for pair in word_list("irregular"))


def _without_ending(base: str) -> str:
    if base.endswith("ies") and len(base) > 4:
        return base[:-3] + "y"
    if base.endswith(("sses", "shes", "ches", "xes", "zes")):
        return base[:-2]
    if base.endswith("s") and not base.endswith(("ss", "us", "is")):
        return base[:-1]
    for ending in ("ing", "ed"):
        if base.endswith(ending) and len(base) > len(ending) + 2:
            return _undouble(base[: -len(ending)], base)
    return base


def _undouble(shorter: str, base: str) -> str:
    if not re.search(r"[aeiouy]", shorter):
        return base
    if len(shorter) > 3 and shorter[-1] == shorter[-2] and shorter[-1] not in "lsz":
        return shorter[:-1]
    return shorter[:-1] + "y" if shorter.endswith("i") else shorter


@lru_cache(maxsize=1)
def _word_lists() -> dict[str, frozenset[str]]:
    text = files("ku_rag.text").joinpath("word_lists.txt").read_text(encoding="utf-8")
    lists: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("  "):
            lists[name] += line.split()
        elif line and not line.startswith("#"):
            name = line
            lists[name] = []
    return {name: frozenset(words) for name, words in lists.items()}


def word_list(name: str) -> frozenset[str]:
    """One of the word lists kept in the project."""
    return _word_lists()[name]


@lru_cache(maxsize=1)
def concepts() -> tuple[Concept, ...]:
    """The concepts of the project's lexicon, in its order."""
    text = files("ku_rag.text").joinpath("lexicon.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    blocks = [block.splitlines() for block in "\n".join(lines).strip().split("\n\n")]
    return tuple(_concept(block) for block in blocks if block)


def _concept(lines: list[str]) -> Concept:
    fields = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    kind, *units = fields["type"].split()
    ask, nouns, before, after = (
        # Longer phrases first: "capital city" before "capital".
        tuple(sorted(map(phrase, fields.get(key, "").split(", ")), key=len, reverse=True))
        if fields.get(key)
        else ()
        for key in ("ask", "nouns", "before", "after")
    )
    return Concept(lines[0].strip(), kind, tuple(units), ask, nouns, before, after)


def phrase(text: str) -> Phrase:
    """The stems of a phrase."""
    return tuple(word.stem for word in read_words(text))


def find(words: list[Word], wanted: Phrase, start: int = 0, gap: int = 0) -> tuple[int, int] | None:
    """The first place where the stems stand in order, at most `gap` words between two of them.

    Returns:
        (first, last + 1) as indices into `words`, or None.
    """
    for first in range(start, len(words)):
        if words[first].stem != wanted[0]:
            continue
        at = first
        for part in wanted[1:]:
            window = [words[i].stem for i in range(at + 1, min(at + 2 + gap, len(words)))]
            if part not in window:
                break
            at += 1 + window.index(part)
        else:
            return first, at + 1
    return None
