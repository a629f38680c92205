"""Questions about a country in a picture, with the answers that count as right.

`make_question` asks about anything the facts hold, or about something that the base does not know.
A question about a picture with two flags names something that is true of one country only.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ku_rag.demo.facts import Country, country, with_article
from ku_rag.demo.texts import listed

__all__ = ["Question", "benchmark_question", "exact_match", "make_question"]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its gold answers.

    Args:
        text: the question.
        country: id of the country that it is about.
        topic: "capital", "currency" …, or what is asked for in vain.
        gold: the acceptable answers; a list answer is one string, "a, b and c". Empty when the
            base cannot answer.
        clue: what tells the country from another one in the picture, or "".
    """

    text: str
    country: str
    topic: str
    gold: tuple[str, ...]
    clue: str = ""

    @property
    def answerable(self) -> bool:
        """Whether the demo base holds the answer."""
        return bool(self.gold)


# ---- comparing answers -------------------------------------------------------------------------

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_BETWEEN = re.compile(r",|;|\band\b|&")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "’‘“”ʻ")


def normalise(answer: str) -> str:
    """Lower-case, without articles, punctuation and superfluous spaces."""
    bare = _THOUSANDS.sub("", answer.casefold()).translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def parts(answer: str) -> frozenset[str]:
    """The members of a list answer, normalised: "A, the B and C" → {"a", "b", "c"}."""
    cut = _BETWEEN.split(_THOUSANDS.sub("", answer.casefold()))
    return frozenset(part for part in map(normalise, cut) if part)


def exact_match(answer: str, gold: Sequence[str]) -> bool:
    """Whether the answer equals one of the gold answers, lists compared as sets."""
    found = parts(answer)
    return bool(found) and any(found == parts(right) for right in gold)


# ---- what can be asked -------------------------------------------------------------------------

_PHRASES: dict[str, tuple[str, ...]] = {
    "capital": (
        "What is the capital of {c}?",
        "Which city is the capital of {c}?",
        "Name the capital of {c}.",
    ),
    "currency": (
        "What is the currency of {c}?",
        "Which currency is used in {c}?",
        "What do people pay with in {c}?",
    ),
    "languages": (
        "What are the official languages of {c}?",
        "Which languages are official in {c}?",
    ),
    "language": (
        "What is the official language of {c}?",
        "Which language is official in {c}?",
    ),
    "neighbours": (
        "Which countries does {c} border?",
        "What are the neighbours of {c}?",
        "Which countries share a border with {c}?",
    ),
    "neighbour": (
        "Which country does {c} border?",
        "What is the only neighbour of {c}?",
    ),
    "area": (
        "How large is {c}?",
        "What is the area of {c}?",
        "How many square kilometres does {c} cover?",
    ),
    "waters": (
        "Which seas or oceans does {c} touch?",
        "On which seas or oceans does {c} have a coast?",
    ),
    "water": (
        "Which sea or ocean does {c} touch?",
        "On which sea or ocean does the coast of {c} lie?",
    ),
    "flag year": (
        "When was the flag of {c} adopted?",
        "In which year was the flag of {c} adopted?",
        "Since when has {c} had its flag?",
    ),
    "continent": (
        "On which continent does {c} lie?",
        "Which continent does {c} belong to?",
    ),
    "meaning": (
        "What {do} {part} stand for in the flag of {c}?",
        "What {is} the meaning of {part} in the flag of {c}?",
        "What {do} {part} on the flag of {c} represent?",
    ),
}

_UNKNOWN: dict[str, tuple[str, ...]] = {
    "population": ("How many people live in {c}?", "What is the population of {c}?"),
    "president": ("Who is the president of {c}?", "Who leads the government of {c}?"),
    "anthem": ("What is the national anthem of {c}?", "Who composed the anthem of {c}?"),
    "mountain": ("What is the highest mountain of {c}?", "How high is the highest peak in {c}?"),
    "river": ("What is the longest river in {c}?", "How long is the longest river of {c}?"),
    "dish": ("What is the national dish of {c}?", "Which dish is {c} famous for?"),
    "calling code": ("What is the telephone calling code of {c}?",),
    "domain": ("What is the internet domain of {c}?",),
    "traffic": ("On which side of the road do people drive in {c}?",),
    "airport": ("What is the largest airport in {c}?",),
    "animal": ("What is the national animal of {c}?", "Which bird is the symbol of {c}?"),
    "football": ("How often has {c} won the football world cup?",),
    "climate": ("How cold does it get in {c} in winter?", "How much rain falls in {c}?"),
}


def _gold(c: Country) -> dict[str, tuple[str, ...]]:
    """The topics that can be asked about a country, each with its acceptable answers."""
    found: dict[str, tuple[str, ...]] = {"continent": (listed(c.continents),)}
    if c.capital:
        bare = c.capital.partition(",")[0]
        found["capital"] = tuple(dict.fromkeys((c.capital, bare)))
    if c.currency:
        found["currency"] = (c.currency,)
    if c.languages:
        found["languages" if len(c.languages) > 1 else "language"] = (listed(c.languages),)
    if c.neighbours:
        found["neighbours" if len(c.neighbours) > 1 else "neighbour"] = (listed(c.neighbours),)
    if c.area_km2:
        number = f"{c.area_km2:,}"
        found["area"] = tuple(
            f"{before}{number}{unit}"
            for before in ("", "about ", "some ")
            for unit in ("", " square kilometres", " km2", " km²")
        )
    if c.waters:
        found["waters" if len(c.waters) > 1 else "water"] = (listed(c.waters),)
    if c.flag_year:
        found["flag year"] = (str(c.flag_year),)
    if c.flag_meanings:
        found["meaning"] = tuple(c.flag_meanings)
    return found


_ADJECTIVES = {
    "Africa": "African",
    "Asia": "Asian",
    "Europe": "European",
    "North America": "North American",
    "South America": "South American",
    "Oceania": "Oceanian",
}


def _clues(c: Country, other: Country, topic: str) -> dict[str, list[str]]:
    """Descriptions that fit `c` and not `other`, by kind; none of the kind that is asked for."""
    far = not set(c.continents) & set(other.continents)
    found = {
        "capital": [f"the country whose capital is {c.capital}"] if c.capital else [],
        "neighbours": [
            f"the country that borders {with_article(name)}"
            for name in c.neighbours or ()
            if name not in (other.name, *(other.neighbours or ()))
        ],
        "continent": [f"the {_ADJECTIVES[name]} country" for name in c.continents if far],
        "currency": [f"the country where people pay with the {c.currency}"]
        if c.currency and other.currency and c.currency != other.currency
        else [],
        "languages": [
            f"the country where {name} is an official language"
            for name in c.languages
            if other.languages and name not in other.languages
        ],
        "waters": [
            f"the country that touches the {name}"
            for name in c.waters or ()
            if other.waters is not None and name not in other.waters
        ],
    }
    asked = {"neighbour": "neighbours", "language": "languages", "water": "waters"}
    return {k: v for k, v in found.items() if v and k != asked.get(topic, topic)}


def _clue(
    rng: np.random.Generator, c: Country, other: Country, topic: str, gold: Sequence[str]
) -> str:
    """One of the clues; each kind is equally likely, however many neighbours there are."""
    # "Which language is official where people pay with the Russian ruble?" asks for nothing.
    found = {
        kind: fitting
        for kind, clues in _clues(c, other, topic).items()
        if (fitting := [clue for clue in clues if not _gives_away(clue, gold)])
    }
    kind = found[str(rng.choice(list(found)))]
    return kind[int(rng.integers(len(kind)))]


def _gives_away(clue: str, gold: Sequence[str]) -> bool:
    return any(f" {normalise(answer)} " in f" {normalise(clue)} " for answer in gold)


def make_question(
    rng: np.random.Generator,
    country_id: str,
    *,
    distractor: str | None = None,
    answerable: bool = True,
    topic: str | None = None,
) -> Question:
    """Ask about the country whose flag is in a picture.

    Args:
        rng: decides topic and wording.
        country_id: the country.
        distractor: country of another flag in the picture; the question then names something
            that only the first country has.
        answerable: False asks for something that the base does not know.
        topic: what to ask about, among those that the facts hold; None chooses.

    Raises:
        NotFound: there are no facts about the country.
        KeyError: the facts hold nothing on `topic`.
    """
    c = country(country_id)
    gold = _gold(c)
    if not answerable:
        topic = topic or str(rng.choice(list(_UNKNOWN)))
        right: tuple[str, ...] = ()
    else:
        topic = topic or str(rng.choice(list(gold)))
        right = gold[topic]
    clue = _clue(rng, c, country(distractor), topic, right) if distractor else ""
    # "The flag of the country with this flag" is what nobody says.
    named = clue or str(rng.choice(["this country", "the country with this flag"]))
    if not clue and topic in ("flag year", "meaning"):
        named = "this country"
    phrases = (_PHRASES if answerable else _UNKNOWN)[topic]
    phrase = phrases[int(rng.integers(len(phrases)))]
    if topic == "meaning":
        part = str(rng.choice(list(c.flag_meanings)))
        right = (c.flag_meanings[part],)
        many = " and " in part or part.rsplit(" ", 1)[-1] in ("stars", "stripes")
        many = many or part.startswith("the five points") or part.startswith("the twelve points")
        text = phrase.format(c=named, part=part, do="do" if many else "does", **{"is": "is"})
    else:
        text = phrase.format(c=named)
    return Question(text=text, country=c.id, topic=topic, gold=right, clue=clue)


def benchmark_question(seed: int, country_id: str, distractor: str | None) -> Question:
    """The question that belongs to a scene's seed; one in five cannot be answered."""
    rng = np.random.default_rng([seed, 77])
    return make_question(rng, country_id, distractor=distractor, answerable=seed % 5 != 4)
