"""Texts about a country, written from its facts: a sentence or two, and a labelled line a fact."""

from __future__ import annotations

from collections.abc import Sequence

from tools.demo_data.facts import Country


def write_texts(country: Country) -> tuple[str, ...]:
    """Write three documents: the land, the state, the flag."""
    return (_land(country), _state(country), _flag(country))


def join_names(items: Sequence[str]) -> str:
    """Join items as in a sentence: "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(label: str, *values: str | None) -> list[str]:
    """Return a labelled line, or nothing where there are no values."""
    given = [value for value in values if value]
    return [f"{label}: {join_names(given)}"] if given else []


def _land(c: Country) -> str:
    lines = [f"{_capitalise(c.full_name)} lies in {c.region}."]
    lines += _line("Continent", *c.continents)
    if c.area_km2:
        lines += _line("Area", f"{c.area_km2:,} square kilometres")
    lines += _line("Neighbours", *(c.neighbours or ()))
    lines += _line("Seas and oceans", *(c.waters or ()))
    if c.neighbours_note:
        lines.append(f"{_capitalise(c.neighbours_note)}.")
    if c.neighbours == ():
        lines.append("It has no land border with any other country.")
    if c.waters == ():
        lines.append("It is landlocked.")
    return "\n".join(lines)


def _state(c: Country) -> str:
    lines = [f"{_capitalise(c.full_name)} is a state in {c.region}.", *c.extra]
    lines += _line("Capital", c.capital)
    lines += _line("Currency", c.currency)
    lines += _line(
        "Official languages" if len(c.languages) > 1 else "Official language", *c.languages
    )
    lines += _line("Main language", c.main_language)
    return "\n".join(lines)


def _flag(c: Country) -> str:
    lines = [f"Flag of {c.full_name}", f"The flag shows {c.flag_look}.", *c.flag_history]
    lines += _line("Adopted", str(c.flag_year) if c.flag_year else None)
    for part, meaning in c.flag_meanings.items():
        lines += _line(f"Meaning of {part}", meaning)
    return "\n".join(lines)
