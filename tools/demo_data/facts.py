"""What the demo base knows about its countries, read from facts.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Country:
    """Facts about a country; a fact that is unsure, disputed or unstable is left out.

    Args:
        id: its identity, such as "ivory-coast".
        name: in English, without article.
        article: "the" or "".
        aliases: other names in use.
        continents: one, or two.
        region: where it lies, such as "West Africa".
        capital: its name.
        neighbours: names of all countries it has a border with; () when there are none; None
            when left out.
        neighbours_note: what has to be said about one of them.
        currency: its English name, without article.
        languages: the official ones.
        main_language: what most people speak where no law names an official language.
        area_km2: in square kilometres, rounded.
        waters: seas and oceans at its coasts; () when it is landlocked; None when left out.
        flag_year: when the flag was adopted in its present form.
        flag_look: what the flag shows.
        flag_meanings: part or colour of the flag → what it stands for.
        flag_history: sentences on where it comes from.
        extra: further sentences.
    """

    id: str
    name: str
    region: str
    continents: tuple[str, ...]
    flag_look: str
    article: str = ""
    aliases: tuple[str, ...] = ()
    capital: str | None = None
    neighbours: tuple[str, ...] | None = None
    neighbours_note: str | None = None
    currency: str | None = None
    languages: tuple[str, ...] = ()
    main_language: str | None = None
    area_km2: int | None = None
    waters: tuple[str, ...] | None = None
    flag_year: int | None = None
    flag_meanings: Mapping[str, str] = field(default_factory=dict)
    flag_history: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name as it stands inside a sentence: "the Netherlands"."""
        return f"{self.article} {self.name}".strip()


@lru_cache(maxsize=1)
def countries() -> Mapping[str, Country]:
    """All countries of the demo base, by id, in alphabetical order."""
    text = Path(__file__).with_name("facts.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = [
        {str(key): tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        for row in json.loads(text)
    ]
    return {row["id"]: Country(**row) for row in rows}


def country_named(name: str) -> Country | None:
    """The country of the base that bears this name, if there is one."""
    return next((one for one in countries().values() if one.name == name), None)
