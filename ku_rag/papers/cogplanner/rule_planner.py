"""The planner without a model: it decides from the question, the matched units and the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from ku_rag.papers.cogplanner.plan import Hit
from ku_rag.papers.cogplanner.planner import Choice, PlanState, Reformulation
from ku_rag.papers.cogplanner.reformulation import bridge_name, refers, uncovered, with_name
from ku_rag.text.question import analyse
from ku_rag.text.tokens import content_words, is_named, words

_READ = 5
"""Hits of each search that decisions consider."""


def decide_by_rule(state: PlanState) -> tuple[Reformulation, Choice]:
    """Identify the picture, then search texts while the evidence lacks words of the query."""
    hits = [hit for r in state.rounds for search in r.searches for hit in search.hits[:_READ]]
    reformulation = _reformulate(state, hits)
    lacking = uncovered(" ".join(reformulation.queries), hits)
    searched = (round_.queries for round_ in state.rounds if round_.action == "text")
    if state.picture is not None and all(round_.action != "image" for round_ in state.rounds):
        choice = Choice("image", why="The picture is not identified yet.")
    elif not reformulation.clear:
        choice = Choice("none", why="It is not certain what the picture shows.")
    elif hits and not lacking:
        choice = Choice("none", why="The evidence covers all words of the query.")
    elif any({*reformulation.queries} <= {*queries} for queries in searched):
        choice = Choice("none", why="There is nothing else to search for.")
    else:
        why = f"The evidence lacks: {', '.join(lacking)}." if hits else "There is no evidence yet."
        choice = Choice("text", why=why)
    return reformulation, choice


def _reformulate(state: PlanState, hits: Sequence[Hit]) -> Reformulation:
    """Name what the query refers to, split a comparison, or follow the evidence."""
    query, *others = state.queries
    if others:
        return Reformulation(state.queries)
    why, name = "", ""
    if state.picture is not None:
        sure = (unit.name for unit in state.units if unit.id in state.about and not unit.named)
        name = next(sure, "")
        if not name and refers(query, named=bool(state.about)):
            return Reformulation((query,), False, "The question refers to the picture.")
    if name and not is_named(name, query) and with_name(query, name) != query:
        query, why = with_name(query, name), f"The picture shows {name}."
    searched = [round_.queries for round_ in state.rounds if round_.action == "text"]
    if hits and not uncovered(query, hits):
        return Reformulation((query,), why=why)
    names = [unit.name for unit in state.units if is_named(unit.named or unit.name, query)]
    if not searched and len(names) > 1 and analyse(query, tuple(names)).compares:
        taken = {word for name in names for word in words(name)}
        rest = [word for word in content_words(query) if word not in taken]
        why = f"{why} The query compares {', '.join(names)}.".strip()
        return Reformulation(tuple(" ".join([name, *rest]) for name in names), why=why)
    if searched == [(query,)] and hits and (name := bridge_name(query, hits[0])):
        return Reformulation((f"{query} {name}",), why=f"{hits[0].title} leads to {name}.")
    return Reformulation((query,), why=why)
