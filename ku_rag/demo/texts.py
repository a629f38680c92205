"""Texts about a country, written from its facts: a sentence or two, and a labelled line a fact."""

from __future__ import annotations

from collections.abc import Sequence

from ku_rag.demo.facts import Country


def write_texts(country: Country) -> tuple[str, ...]:
    """Write three documents: the land, the state, the flag."""
    return (_land(country), _state(country), _flag(country))


def listed(items: Sequence[str]) -> str:
    """A list as it stands in a sentence: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(label: str, *values: str | None) -> list[str]:
    """A labelled line; no line without values."""
    given = [value for value in values if value]
    return [f"{label}: {listed(given)}"] if given else []


def _land(c: Country) -> str:
    told = [f"{_start(c.full_name)} lies in {c.region}."]
    told += _line("Continent", *c.continents)
    if c.area_km2:
        told += _line("Area", f"{c.area_km2:,} square kilometres")
    told += _line("Neighbours", *(c.neighbours or ()))
    told += _line("Seas and oceans", *(c.waters or ()))
    if c.neighbours_note:
        told.append(f"{_start(c.neighbours_note)}.")
    if c.neighbours == ():
        told.append("It has no land border with any other country.")
    if c.waters == ():
        told.append("It is landlocked.")
    return "\n".join(told)


def _state(c: Country) -> str:
    told = [f"{_start(c.full_name)} is a state in {c.region}.", *c.extra]
    told += _line("Capital", c.capital)
    told += _line("Currency", c.currency)
    told += _line(
        "Official languages" if len(c.languages) > 1 else "Official language", *c.languages
    )
    told += _line("Main language", c.main_language)
    return "\n".join(told)


def _flag(c: Country) -> str:
    told = [f"Flag of {c.full_name}", f"The flag shows {c.flag_look}.", *c.flag_history]
    told += _line("Adopted", str(c.flag_year) if c.flag_year else None)
    for part, meaning in c.flag_meanings.items():
        told += _line(f"Meaning of {part}", meaning)
    return "\n".join(told)
