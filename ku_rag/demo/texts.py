"""Prose about a country, written from its facts, phrased differently from country to country."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from ku_rag.demo.facts import Country, with_article

_PLURAL = re.compile(r" and |^the \w+ (?:\w+ )?(?:stars|stripes|points)\b")


def write_texts(country: Country) -> tuple[str, ...]:
    """Write three documents: the land, the state, the flag.

    The wording is chosen by a generator seeded with the country's id, so that it is the same on
    every machine.
    """
    rng = np.random.default_rng(zlib.crc32(country.id.encode()))
    return (_land(country, rng), _state(country, rng), _flag(country, rng))


def listed(items: Sequence[str]) -> str:
    """A list as it stands in a sentence: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pick(rng: np.random.Generator, *choices: str) -> str:
    return choices[int(rng.integers(len(choices)))]


def _land(c: Country, rng: np.random.Generator) -> str:
    subject = _start(c.full_name)
    if len(c.continents) > 1:
        told = [f"{subject} lies in {c.region}, on the continents of {listed(c.continents)}."]
    else:
        told = [
            _pick(
                rng,
                f"{subject} is a country in {c.region}, on the continent of {c.continents[0]}.",
                f"{subject} lies in {c.region} and belongs to the continent of {c.continents[0]}.",
                f"{subject} is a country in {c.region}. Its continent is {c.continents[0]}.",
            )
        ]
    rest = []
    if c.area_km2:
        area = (
            f"{c.area_km2:,} square kilometres"
            if c.area_km2 >= 1000
            else f"{c.area_km2} square kilometres"
        )
        rest.append(
            _pick(
                rng,
                f"It covers about {area}.",
                f"Its area is about {area}.",
                f"{subject} has an area of about {area}.",
                f"The country extends over some {area}.",
            )
        )
    rest.append(_borders(c, rng))
    rest.append(_waters(c, rng))
    rest = [sentence for sentence in rest if sentence]
    if rng.random() < 0.4:
        rest.reverse()
    return " ".join([*told, *rest])


def _borders(c: Country, rng: np.random.Generator) -> str:
    subject = _start(c.full_name)
    if c.neighbours is None:
        return ""
    if not c.neighbours:
        return _pick(
            rng,
            "It has no land border with any other country.",
            f"{subject} has no neighbours on land.",
        )
    names = listed([with_article(name) for name in c.neighbours])
    if len(c.neighbours) == 1:
        told = _pick(
            rng,
            f"Its only neighbour is {names}.",
            f"{subject} borders only {names}.",
            f"It shares a border with a single country, {names}.",
        )
    else:
        told = _pick(
            rng,
            f"It borders {names}.",
            f"{subject} shares borders with {names}.",
            f"Its neighbours are {names}.",
            f"{subject} borders {names}.",
        )
    return f"{told[:-1]}; {c.neighbours_note}." if c.neighbours_note else told


def _waters(c: Country, rng: np.random.Generator) -> str:
    subject = _start(c.full_name)
    if c.waters is None:
        return ""
    if not c.waters:
        return _pick(
            rng,
            "It is landlocked.",
            f"{subject} is a landlocked country.",
            "The country is landlocked and has no coast.",
        )
    names = listed([f"the {name}" for name in c.waters])
    return _pick(
        rng,
        f"Its coast lies on {names}.",
        f"It touches {names}.",
        f"{subject} has a coast on {names}.",
        f"The waters along its coast belong to {names}.",
    )


def _state(c: Country, rng: np.random.Generator) -> str:
    name, subject = c.full_name, _start(c.full_name)
    told = []
    if c.capital:
        told.append(
            _pick(
                rng,
                f"{c.capital} is the capital of {name}.",
                f"The capital of {name} is {c.capital}.",
                f"{subject} has its capital in {c.capital}.",
                f"Its capital is {c.capital}.",
            )
        )
    told.extend(c.extra[:1])
    if c.currency:
        told.append(
            _pick(
                rng,
                f"The currency is the {c.currency}.",
                f"Its currency is the {c.currency}.",
                f"{subject} uses the {c.currency} as its currency.",
                f"People in {name} pay with the {c.currency}.",
            )
        )
    told.extend(c.extra[1:])
    if c.languages:
        told.append(_languages(c, rng))
    elif c.main_language:
        told.append(
            _pick(
                rng,
                f"The main language is {c.main_language}.",
                f"Most people speak {c.main_language}.",
            )
        )
    if told and not any(name in sentence or subject in sentence for sentence in told):
        told[0] = f"In {name}, {told[0][:1].lower()}{told[0][1:]}"
    # A name such as "Washington, D.C." brings its own full stop.
    return " ".join(told).replace("..", ".")


def _languages(c: Country, rng: np.random.Generator) -> str:
    names = listed(c.languages)
    if len(c.languages) == 1:
        return _pick(
            rng,
            f"The official language is {names}.",
            f"{names} is the official language of {c.full_name}.",
            f"Its official language is {names}.",
        )
    return _pick(
        rng,
        f"The official languages are {names}.",
        f"{names} are the official languages of {c.full_name}.",
        f"It has {_count(len(c.languages))} official languages: {names}.",
    )


def _count(number: int) -> str:
    return ("no", "one", "two", "three", "four", "five", "six")[number]


def _flag(c: Country, rng: np.random.Generator) -> str:
    name = c.full_name
    told = [
        _pick(
            rng,
            f"The flag of {name} shows {c.flag_look}.",
            f"The national flag of {name} bears {c.flag_look}.",
            f"On the flag of {name} one sees {c.flag_look}.",
        )
    ]
    if c.flag_year:
        told.append(
            _pick(
                rng,
                f"It was adopted in {c.flag_year}.",
                f"The flag was adopted in {c.flag_year}.",
                f"{_start(name)} adopted it in {c.flag_year}.",
                f"The flag has been in use in its present form since {c.flag_year}.",
            )
        )
    history = list(c.flag_history)
    meanings = [
        f"{_start(part)} {_verb(part, rng)} {meaning}." for part, meaning in c.flag_meanings.items()
    ]
    # "It" is the flag, so nothing that has a subject of its own may come before.
    if rng.random() < 0.5 and not any(sentence.startswith("It ") for sentence in history):
        return " ".join([*told, *meanings, *history])
    return " ".join([*told, *history, *meanings])


def _verb(part: str, rng: np.random.Generator) -> str:
    if _PLURAL.search(part):
        return _pick(rng, "stand for", "represent", "symbolise")
    return _pick(rng, "stands for", "represents", "symbolises")
