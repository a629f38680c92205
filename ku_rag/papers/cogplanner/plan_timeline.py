"""The timeline of a plan in reports: what each round asked, why, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def draw_timeline(plan: Mapping[str, Any]) -> str:
    """Return the rounds of a plan, as `Plan.to_dict` has them, as an HTML list in their order."""
    ids: set[str] = set()
    rounds = "".join(_round(n, entry, ids) for n, entry in enumerate(plan["rounds"], 1))
    method = f"{plan['settings']['modelling']}, by the {plan['planner']} planner"
    head = f'<h3>Plan</h3><p class="quiet">{_text(method)}</p>'
    end = f'<li class="end">The plan ended: {_text(plan["stopped"])}.</li>'
    return f'{head}<ol class="plan">{rounds}{end}</ol>'


def _round(number: int, entry: Mapping[str, Any], ids: set[str]) -> str:
    """Show a round, and add the ids of its hits to those of the rounds before."""
    searches = {search["query"]: search for search in entry["searches"]}
    rows = "".join(_query(query, searches.get(query), ids) for query in entry["queries"])
    # The searches of a round run at the same time.
    longest = max((search["milliseconds"] for search in searches.values()), default=0)
    cost = f"{sum(entry['tokens']):,} tokens, {entry['milliseconds'] + longest:,.1f} ms"
    reasons = zip(("Query", "Action"), entry["why"], strict=True)
    lines = [*(f"{name}: {why}" for name, why in reasons if why), *entry["notes"]]
    notes = "".join(f'<p class="quiet">{_text(line)}</p>' for line in lines)
    return (
        f'<li><header><b>Round {number}</b> <span class="tag">{_text(entry["action"])}</span> '
        f'<span class="quiet">{cost}</span></header><ul>{rows}</ul>{notes}</li>'
    )


def _query(query: str, search: Mapping[str, Any] | None, ids: set[str]) -> str:
    """Show a query, with the units and titles that it found and how many hits are new."""
    result = ""
    if search:
        hits, names = search["hits"], dict.fromkeys(search["units"])
        new = {hit["id"] for hit in hits} - ids
        ids |= new
        names |= dict.fromkeys(hit["title"] for hit in hits)
        result = search["error"] or f"{len(hits)} found, {len(new)} new"
        result += f": {', '.join(filter(None, names))}" if any(names) else ""
    return f'<li class="name">{_text(query)}<p class="quiet">{_text(result)}</p></li>'


def _text(words: object) -> str:
    return escape(str(words))
