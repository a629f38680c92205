"""Prose about a country, written from its facts, phrased differently from country to country."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from ku_rag.demo.facts import Country, with_article

_PLURAL = re.compile(r" and |^the \w+ (?:\w+ )?(?:stars|stripes|points)\b")
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
# fmt: off
_SENTENCES: dict[str, tuple[str, ...]] = {
    "continents": ("{Name} lies in {region}, on the continents of {continents}.",),
    "continent": ("{Name} is a country in {region}, on the continent of {continents}.",
                  "{Name} lies in {region} and belongs to the continent of {continents}.",
                  "{Name} is a country in {region}. Its continent is {continents}."),
    "area": ("It covers about {area}.", "Its area is about {area}.",
             "{Name} has an area of about {area}.", "The country extends over some {area}."),
    "no neighbour": ("It has no land border with any other country.",
                     "{Name} has no neighbours on land."),
    "neighbour": ("Its only neighbour is {neighbours}{note}.",
                  "{Name} borders only {neighbours}{note}."),
    "neighbours": ("It borders {neighbours}{note}.", "{Name} borders {neighbours}{note}.",
                   "{Name} shares borders with {neighbours}{note}.",
                   "Its neighbours are {neighbours}{note}."),
    "landlocked": ("It is landlocked.", "{Name} is a landlocked country.",
                   "The country is landlocked and has no coast."),
    "waters": ("Its coast lies on {waters}.", "{Name} has a coast on {waters}.",
               "It touches {waters}.", "The waters along its coast belong to {waters}."),
    "capital": ("{capital} is the capital of {name}.", "The capital of {name} is {capital}.",
                "{Name} has its capital in {capital}.", "Its capital is {capital}."),
    "currency": ("The currency is the {currency}.", "Its currency is the {currency}.",
                 "{Name} uses the {currency} as its currency.",
                 "People in {name} pay with the {currency}."),
    "language": ("The official language is {languages}.", "Its official language is {languages}.",
                 "{languages} is the official language of {name}."),
    "languages": ("The official languages are {languages}.",
                  "{languages} are the official languages of {name}.",
                  "It has {count} official languages: {languages}."),
    "main language": ("The main language is {main}.", "Most people speak {main}."),
    "look": ("The flag of {name} shows {look}.", "The national flag of {name} bears {look}.",
             "On the flag of {name} one sees {look}."),
    "year": ("It was adopted in {year}.", "The flag was adopted in {year}.",
             "{Name} adopted it in {year}.",
             "The flag has been in use in its present form since {year}."),
    "meaning": ("{Part} stands for {meaning}.", "{Part} represents {meaning}.",
                "{Part} symbolises {meaning}."),
    "meanings": ("{Part} stand for {meaning}.", "{Part} represent {meaning}.",
                 "{Part} symbolise {meaning}."),
}
# fmt: on
"""Wordings by topic; {Name} starts a sentence."""


def write_texts(country: Country) -> tuple[str, ...]:
    """Write three documents: the land, the state, the flag.

    The wording is chosen by a generator seeded with the country's id, so that it is the same on
    every machine.
    """
    rng = np.random.default_rng(zlib.crc32(country.id.encode()))
    return _land(country, rng), _state(country, rng), _flag(country, rng)


def listed(items: Sequence[str]) -> str:
    """A list as it stands in a sentence: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def is_plural(part: str) -> bool:
    """Whether a part of a flag is spoken of in the plural: "the two stars", "red and white"."""
    return bool(_PLURAL.search(part))


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _say(rng: np.random.Generator, topic: str, c: Country, **values: object) -> str:
    sentence = str(rng.choice(_SENTENCES[topic]))
    return sentence.format(name=c.full_name, Name=_start(c.full_name), **values)


def _land(c: Country, rng: np.random.Generator) -> str:
    topic = "continents" if len(c.continents) > 1 else "continent"
    first = _say(rng, topic, c, region=c.region, continents=listed(c.continents))
    rest = []
    if c.area_km2:
        rest.append(_say(rng, "area", c, area=f"{c.area_km2:,} square kilometres"))
    if c.neighbours:
        names = listed([with_article(name) for name in c.neighbours])
        note = f"; {c.neighbours_note}" if c.neighbours_note else ""
        topic = "neighbours" if len(c.neighbours) > 1 else "neighbour"
        rest.append(_say(rng, topic, c, neighbours=names, note=note))
    elif c.neighbours is not None:
        rest.append(_say(rng, "no neighbour", c))
    if c.waters:
        rest.append(_say(rng, "waters", c, waters=listed([f"the {name}" for name in c.waters])))
    elif c.waters is not None:
        rest.append(_say(rng, "landlocked", c))
    return " ".join([first, *(rest[::-1] if rng.random() < 0.4 else rest)])


def _state(c: Country, rng: np.random.Generator) -> str:
    told = [_say(rng, "capital", c, capital=c.capital)] if c.capital else []
    told += c.extra[:1]
    told += [_say(rng, "currency", c, currency=c.currency)] if c.currency else []
    told += c.extra[1:]
    if c.languages:
        topic, count = "languages" if len(c.languages) > 1 else "language", len(c.languages)
        told.append(_say(rng, topic, c, languages=listed(c.languages), count=_NUMBERS[count]))
    elif c.main_language:
        told.append(_say(rng, "main language", c, main=c.main_language))
    name = c.full_name
    if told and not any(name in sentence or _start(name) in sentence for sentence in told):
        told[0] = f"In {name}, {told[0][:1].lower()}{told[0][1:]}"
    # A name such as "Washington, D.C." brings its own full stop.
    return " ".join(told).replace("..", ".")


def _flag(c: Country, rng: np.random.Generator) -> str:
    told = [_say(rng, "look", c, look=c.flag_look)]
    told += [_say(rng, "year", c, year=c.flag_year)] if c.flag_year else []
    meanings = [
        _say(
            rng, "meanings" if is_plural(part) else "meaning", c, Part=_start(part), meaning=meaning
        )
        for part, meaning in c.flag_meanings.items()
    ]
    # "It" is the flag, so nothing that has a subject of its own may come before.
    if rng.random() < 0.5 and not any(one.startswith("It ") for one in c.flag_history):
        return " ".join([*told, *meanings, *c.flag_history])
    return " ".join([*told, *c.flag_history, *meanings])
