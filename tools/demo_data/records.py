"""The demo's unit records, written from facts."""

from __future__ import annotations

from typing import Any

from tools.demo_data.facts import Country, country_named
from tools.demo_data.texts import write_texts


def unit_record(country: Country) -> dict[str, Any]:
    """The record of one country, its picture at flags/ID.png beside the records."""
    record: dict[str, Any] = {"id": country.id, "name": country.name, "kind": "country"}
    if country.aliases:
        record["aliases"] = list(country.aliases)
    record["images"] = [f"flags/{country.id}.png"]
    record["texts"] = list(write_texts(country))
    record["metadata"] = {
        "continents": list(country.continents),
        "origin": "drawn and written by ku demo, from facts",
    }
    record["relations"] = _relations(country)
    return record


def _relations(country: Country) -> list[dict[str, str]]:
    stated: list[tuple[str, str | None, str]] = []
    for name in country.neighbours or ():
        known = country_named(name)
        stated.append(("borders", known.id, "") if known else ("borders", name, "country"))
    stated.append(("capital", country.capital, "city"))
    stated.append(("currency", country.currency, "currency"))
    for language in country.languages or (country.main_language,):
        stated.append(("language", language, "language"))
    return [
        {"relation": relation, "target": target} | ({"target_kind": kind} if kind else {})
        for relation, target, kind in stated
        if target
    ]
