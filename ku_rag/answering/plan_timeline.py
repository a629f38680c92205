"""The timeline of a plan in reports: what each round asked, why, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any


def draw_timeline(plan: Mapping[str, Any]) -> str:
    """Return the rounds of a plan, as `Plan.to_dict` has them, as an HTML list in their order."""
    known: set[str] = set()
    rounds = "".join(_round(n, one, known) for n, one in enumerate(plan["rounds"], 1))
    made = f"{plan['settings']['modelling']}, by the {plan['planner']} planner"
    head = f'<h3>Plan</h3><p class="quiet">{_text(made)}</p>'
    end = f'<li class="end">The plan ended: {_text(plan["stopped"])}.</li>'
    return f'{head}<ol class="plan">{rounds}{end}</ol>'


def _round(number: int, one: Mapping[str, Any], known: set[str]) -> str:
    """Show a round, and add the ids of what it found to those that are known."""
    searches = {search["query"]: search for search in one["searches"]}
    rows = "".join(_query(query, searches.get(query), known) for query in one["queries"])
    # The searches of a round run at the same time.
    longest = max((search["milliseconds"] for search in searches.values()), default=0)
    cost = f"{sum(one['tokens']):,} tokens, {one['milliseconds'] + longest:,.1f} ms"
    reasons = zip(("Query", "Action"), one["why"], strict=True)
    lines = [*(f"{name}: {why}" for name, why in reasons if why), *one["notes"]]
    shown = "".join(f'<p class="quiet">{_text(line)}</p>' for line in lines)
    return (
        f'<li><header><b>Round {number}</b> <span class="tag">{_text(one["action"])}</span> '
        f'<span class="quiet">{cost}</span></header><ul>{rows}</ul>{shown}</li>'
    )


def _query(query: str, search: Mapping[str, Any] | None, known: set[str]) -> str:
    """Show a query, with the units and titles that it found and how many hits are new."""
    found = ""
    if search:
        hits, names = search["hits"], dict.fromkeys(search["units"])
        new = {hit["id"] for hit in hits} - known
        known |= new
        names |= dict.fromkeys(hit["title"] for hit in hits)
        found = search["error"] or f"{len(hits)} found, {len(new)} new"
        found += f": {', '.join(filter(None, names))}" if any(names) else ""
    return f'<li class="name">{_text(query)}<p class="quiet">{_text(found)}</p></li>'


def _text(words: object) -> str:
    return escape(str(words))
