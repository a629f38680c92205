"""Questions about a country in a picture, with the accepted answers.

A question asks about a fact of the demo data, or about a topic that is missing from the base. If
the picture shows a second flag, the question describes the country by a property that only it has.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.demo_data.facts import Country, countries, country_named
from tools.demo_data.texts import join_names

_PLURAL = re.compile(r" and |^the \w+ (?:\w+ )?(?:stars|stripes|points)\b")


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its gold answers.

    Args:
        text: The question.
        topic: Topic such as "capital" or "currency".
        gold: Accepted answers; a list is one string, "a, b and c". Empty if the base has no answer.
        clue: Description that distinguishes the country from the other one in the picture, or "".
    """

    text: str
    topic: str
    gold: tuple[str, ...]
    clue: str = ""

    @property
    def answerable(self) -> bool:
        """Whether the demo base contains the answer."""
        return bool(self.gold)


_PUNCTUATION = str.maketrans("", "", string.punctuation + "’‘“”ʻ")


def normalise(answer: str) -> str:
    """Return an answer in lower case without articles, punctuation and superfluous spaces.

    Separators of thousands are removed as well.
    """
    bare = re.sub(r"(?<=\d),(?=\d{3}\b)", "", answer.casefold()).translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", bare).split())


def parts(answer: str) -> frozenset[str]:
    """Return the normalised members of a list: "A, the B and C" → {"a", "b", "c"}."""
    cut = re.split(r",(?!\d{3}\b)|;|\band\b|&", answer.casefold())
    return frozenset(filter(None, map(normalise, cut)))


def exact_match(answer: str, gold: Sequence[str]) -> bool:
    """Return whether the answer equals a gold answer; lists are compared as sets."""
    members = parts(answer)
    return bool(members) and any(members == parts(right) for right in gold)


KNOWN: dict[str, tuple[str, ...]] = {
    "capital": ("What is the capital of {c}?", "Which city is the capital of {c}?"),
    "currency": ("What is the currency of {c}?", "What do people pay with in {c}?"),
    "languages": ("What are the official languages of {c}?",
                  "Which languages are official in {c}?"),
    "language": ("What is the official language of {c}?", "Which language is official in {c}?"),
    "neighbours": ("Which countries does {c} border?", "What are the neighbours of {c}?"),
    "neighbour": ("Which country does {c} border?", "What is the only neighbour of {c}?"),
    "area": ("How large is {c}?", "How many square kilometres does {c} cover?"),
    "waters": ("Which seas or oceans does {c} touch?",
               "On which seas or oceans does {c} have a coast?"),
    "water": ("Which sea or ocean does {c} touch?",
              "On which sea or ocean does the coast of {c} lie?"),
    "flag year": ("When was the flag of {c} adopted?", "Since when has {c} had its flag?"),
    "continent": ("On which continent does {c} lie?", "Which continent does {c} belong to?"),
    "meaning": ("What {does} {part} stand for in the flag of {c}?",
                "What {does} {part} on the flag of {c} represent?"),
}  # fmt: skip
UNKNOWN: dict[str, tuple[str, ...]] = {
    "population": ("How many people live in {c}?", "What is the population of {c}?"),
    "president": ("Who is the president of {c}?", "Who leads the government of {c}?"),
    "anthem": ("What is the national anthem of {c}?", "Who composed the anthem of {c}?"),
    "mountain": ("What is the highest mountain of {c}?", "How high is the highest peak in {c}?"),
    "dish": ("What is the national dish of {c}?", "Which dish is {c} famous for?"),
    "animal": ("What is the national animal of {c}?", "Which bird is the symbol of {c}?"),
    "airport": ("What is the largest airport in {c}?", "What is the calling code of {c}?"),
    "climate": ("How cold does it get in {c} in winter?", "How much rain falls in {c}?"),
}


def gold_answers(c: Country) -> dict[str, tuple[str, ...]]:
    """Return the accepted answers by topic, for the topics that the facts contain."""
    area = f"{c.area_km2:,}" if c.area_km2 else ""
    answers: dict[str, tuple[str, ...]] = {
        "continent": (join_names(c.continents),),
        "capital": tuple(dict.fromkeys((c.capital, c.capital.partition(",")[0])))
        if c.capital
        else (),
        "currency": (c.currency,) if c.currency else (),
        "area": tuple(
            f"{about}{area}{unit}"
            for about in ("", "about ", "some ")
            for unit in ("", " square kilometres", " km2", " km²")
            if area
        ),
        "flag year": (str(c.flag_year),) if c.flag_year else (),
        "meaning": tuple(c.flag_meanings.values()),
    }
    for topic, names in (("language", c.languages), ("neighbour", c.neighbours),
                         ("water", c.waters)):  # fmt: skip
        if names:
            answers[topic if len(names) == 1 else f"{topic}s"] = (join_names(names),)
    return {topic: gold for topic, gold in answers.items() if gold}


def with_article(name: str) -> str:
    """Return the name of a country as used within a sentence; it need not be in the base."""
    if country := country_named(name):
        return country.full_name
    return f"the {name}" if name == "Central African Republic" else name


def _clues(c: Country, other: Country, topic: str) -> list[list[str]]:
    """Return descriptions that fit `c` and not `other`, by kind, without that of the topic."""
    by_kind = {
        "capital": [f"the country whose capital is {c.capital}"] if c.capital else [],
        "neighbour": [
            f"the country that borders {with_article(name)}"
            for name in c.neighbours or ()
            if name not in (other.name, *(other.neighbours or ()))
        ],
        "continent": [
            f"the country in {name}" for name in c.continents if name not in other.continents
        ],
        "currency": [f"the country where people pay with the {c.currency}"]
        if c.currency and other.currency not in (None, c.currency)
        else [],
        "water": [
            f"the country that touches the {name}"
            for name in c.waters or ()
            if other.waters is not None and name not in other.waters
        ],
    }
    return [clues for kind, clues in by_kind.items() if clues and kind != topic.removesuffix("s")]


def make_question(
    rng: np.random.Generator, country_id: str, *, topic: str | None = None, other: str | None = None
) -> Question:
    """Return a question about the country whose flag is in a picture.

    Args:
        rng: Chooses the topic if it is None, the wording and the clue.
        country_id: The country.
        topic: A topic of the facts, or of `UNKNOWN`.
        other: Country of another flag in the picture.

    Raises:
        KeyError: There are no facts about the country, or none about `topic`.
    """
    c = countries()[country_id]
    gold = gold_answers(c)
    topic = topic or str(rng.choice(list(gold)))
    accepted: tuple[str, ...] = () if topic in UNKNOWN else gold[topic]
    part = str(rng.choice(list(c.flag_meanings))) if topic == "meaning" else ""
    if part:
        accepted = (c.flag_meanings[part],)
    clue, subject = "", "this country"
    if other:
        # No clue with the answer: "Which language is official where people pay with the Russian
        # ruble?"
        kinds = [
            fitting
            for clues in _clues(c, countries()[other], topic)
            if (fitting := [text for text in clues if not _gives_away(text, accepted)])
        ]
        kind = kinds[int(rng.integers(len(kinds)))]
        clue = subject = kind[int(rng.integers(len(kind)))]
    phrase = str(rng.choice(UNKNOWN.get(topic) or KNOWN[topic]))
    does = "do" if _PLURAL.search(part) else "does"
    return Question(phrase.format(c=subject, part=part, does=does), topic, accepted, clue)


def _gives_away(clue: str, gold: Sequence[str]) -> bool:
    return any(f" {normalise(answer)} " in f" {normalise(clue)} " for answer in gold)


def benchmark_question(seed: int, country_id: str, other: str | None) -> Question:
    """Return the question of the seed of a scene; one in five cannot be answered."""
    rng = np.random.default_rng([seed, 77])
    topic = str(rng.choice(list(UNKNOWN))) if seed % 5 == 4 else None
    return make_question(rng, country_id, topic=topic, other=other)
