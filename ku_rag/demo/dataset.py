"""The demo data set on disk: a picture of each flag and one file of unit records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ku_rag.demo.facts import Country, countries, country_named
from ku_rag.demo.flags import draw
from ku_rag.demo.texts import write_texts

FLAG_WIDTH = 320
"""Of the pictures that are written, in pixels."""


def build(folder: Path) -> Path:
    """Draw the flags and write `countries.jsonl` with a unit record for each country.

    Args:
        folder: made if it does not exist; files of an earlier build are overwritten.

    Returns:
        `folder`, ready to be ingested.
    """
    pictures = folder / "flags"
    pictures.mkdir(parents=True, exist_ok=True)
    lines = []
    for country in countries().values():
        draw(country.id, FLAG_WIDTH).save(pictures / f"{country.id}.png")
        lines.append(json.dumps(unit_record(country), ensure_ascii=False))
    (folder / "countries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


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
