"""What a question asks: its kind, its content words, and the labels under which answers stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from ku_rag.text.stems import stem
from ku_rag.text.tokens import stop_words, words

_MOST_CHARACTERS = 1000
_WH = frozenset(words("who whom whose what which when where why how"))
_AUXILIARIES = frozenset(
    words("is are was were do does did has have had can could will would may must")
)
POINTED = frozenset(
    words("country nation state flag product item thing one object picture photo image scene")
)
"""Nouns that a picture may be said to show: "the country" points and asks nothing."""
_POINTERS = frozenset(words("this that these those it its they them their he she his her here"))
_NEGATIONS = frozenset(words("not no never nor neither without none nothing hardly cannot former"))
_NEGATIONS |= frozenset(words("formerly except unlike"))
_COMMANDS = frozenset(words("describe explain define introduce"))
_NAMING = frozenset(words("name kind sort type pictur imag photo thing object scene"))
_NAMING |= frozenset(words("describ explain defin introduc"))
_COMPARING = frozenset(words("than same both more most less least either older younger"))


class Asked(NamedTuple):
    """A way of asking, and where its answer stands.

    Args:
        triggers: stems of words, one set of which the question has, question words included.
        labels: stems of the labels that answer it, the most fitting first.
        extra: stems that a question may have beside them without asking something else.
        type: the kind of value; see `ku_rag.text.values`. "" is any.
    """

    triggers: tuple[frozenset[str], ...]
    labels: tuple[str, ...]
    extra: frozenset[str]
    type: str


_ASKED = """
how heavy, weigh: weight mass: weigh heavy: mass
how height, how elevation: height elevation altitude: height: length
how long: length duration: long last: length time
how wide: width breadth diameter: wide: length
how deep: depth: deep: length
how big, how large, size: area size dimension surface: big large cover: area length
how old: age year date: old: time
how fast: speed: fast move: speed
how hot, how cold, how warm: temperature: hot cold warm: temperature
how far: distance range: far: length
how many people, how many inhabitants: population inhabitants: people inhabitants live: number
how much, cost, expensive: price cost: cost pay buy sell expensive: money
how many: number count: : number
when, what year, which year, what date, which date: date year time: year date day happen: date
where, come from, originate: country origin location place city home habitat region found: come \
originate make produce grow lie locate situate find stand live be manufacture: place
where: location place position hall room address found: lie locate situate find stand see: place
who make, who manufacture: maker manufacturer producer brand company artist: make: person
who write: author writer: write: person
who paint: painter artist: paint: person
who build: builder architect: build: person
who design: designer architect: design: person
who: name person: : person
colour: colour color: : 
make of, consist of: material materials ingredients: make consist: 
pay with, money: currency: pay money use: 
speak, language: language languages: speak use official: 
continent: continent continents: lie belong: place
border, neighbour, adjoin: neighbours borders: border neighbour share country land: 
sea, ocean, coast: sea seas ocean oceans coast waters: sea ocean touch lie coast border: place
eat, feed: food diet: eat feed live: 
stand for, mean, represent, symbolise: meaning: stand mean represent symbolise: 
"""
"""Triggers: labels: extra words: type of the value. Written for this project."""


@lru_cache(maxsize=1)
def _asked() -> tuple[Asked, ...]:
    rows = (line.split(":") for line in _ASKED.strip().splitlines())
    return tuple(
        Asked(
            tuple(frozenset(map(stem, phrase.split())) for phrase in triggers.split(",")),
            tuple(dict.fromkeys(map(stem, labels.split()))),
            frozenset(map(stem, extra.split())),
            kind.strip(),
        )
        for triggers, labels, extra, kind in rows
    )


@dataclass(frozen=True, slots=True)
class Question:
    """A question taken apart.

    Args:
        kind: "identity" (what is this?), "description" (what is X?), "yes-no" or "value".
        content: stems of its content words, in order, without the names of units.
        names: stems of the names of units in it.
        every: stems of all its words.
        ways: the ways of asking that it is one of.
        type: the kind of value asked for; "" is any.
        noun: stem of the noun after "which" or "what"; "" if there is none.
        points: whether it points at something: "this country", "it".
        negated: whether it holds a negation.
        compares: whether it compares or offers a choice.
    """

    kind: str
    content: tuple[str, ...]
    names: frozenset[str]
    every: frozenset[str]
    ways: tuple[Asked, ...]
    type: str
    noun: str
    points: bool
    negated: bool
    compares: bool


def analyse(text: str, names: tuple[str, ...] = ()) -> Question:
    """Take a question apart.

    Args:
        text: the question; only its first 1,000 characters are read.
        names: of the units that it may be about.
    """
    said = words(text[:_MOST_CHARACTERS])
    every = frozenset(map(stem, said))
    own = frozenset(stem(word) for name in names for word in words(name))
    pointed = {at for at in range(len(said)) if _is_pointed(said, at)}
    stemmed = [
        stem(word) for at, word in enumerate(said) if at not in pointed and word not in stop_words()
    ]
    content = tuple(one for one in dict.fromkeys(stemmed) if one not in own)
    ways = tuple(way for way in _asked() if any(one <= every for one in way.triggers))
    noun = _noun(said)
    kind = _kind(said, content, named=bool(every & own))
    return Question(
        kind=kind,
        content=content,
        names=every & own,
        every=every,
        ways=ways,
        type=next((way.type for way in ways), "name" if noun else ""),
        noun=noun,
        points=bool(pointed or _POINTERS.intersection(said)),
        # "Isn't it waterproof?" asks what "Is it waterproof?" asks.
        negated=is_negated(said[2:] if kind == "yes-no" and said[1:2] == ["t"] else said),
        compares=bool(_COMPARING.intersection(said)) or (kind == "yes-no" and "or" in said),
    )


def is_negated(said: Sequence[str]) -> bool:
    """Whether folded words hold a negation: "not", "never", "isn't"."""
    return bool(_NEGATIONS.intersection(said)) or any(
        word == "t" and before.endswith("n") for before, word in pairwise(said)
    )


def _is_pointed(said: Sequence[str], at: int) -> bool:
    """Whether a noun only points: the one after "this", or "country" after "the"."""
    before = said[max(0, at - 2) : at]
    return before[-1:] in (["this"], ["these"]) or (
        said[at] in POINTED and bool({"the", "this", "that"}.intersection(before))
    )


def _kind(said: Sequence[str], content: Sequence[str], *, named: bool) -> str:
    first = said[0] if said else ""
    first = first.removesuffix("n") if said[1:2] == ["t"] else first
    if first in _AUXILIARIES and said[1:2] != ["you"]:
        return "yes-no"
    if first == "whose" and said[-1] in _POINTERS:
        return "identity"
    if {"when", "where", "why", "how"}.intersection(said) or set(content) - _NAMING:
        return "value"
    return "description" if named or _COMMANDS.intersection(said) else "identity"


def _noun(said: Sequence[str]) -> str:
    """The stem of the noun after "which" or "what"."""
    for word, following in pairwise(said):
        if word in ("which", "what") and following not in stop_words():
            return stem(following)
    return ""


def ways_of_label(label: frozenset[str]) -> list[Asked]:
    """Return the ways of asking for what a label, given as stems, names."""
    return [way for way in _asked() if label.intersection(way.labels)]


def label_words(text: str) -> list[str]:
    """Return stems of words with which texts answer a question: "how heavy" → "weigh", "mass"."""
    return [word for way in analyse(text).ways for word in (*way.labels, *sorted(way.extra))]
