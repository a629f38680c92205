"""A planner without a model: it decides from the question, the matched units and the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from ku_rag.planning.plan import Hit
from ku_rag.planning.planner import Choice, PlanState, Reformulation
from ku_rag.planning.reformulation import bridge_name, refers, uncovered, with_name
from ku_rag.text.question import analyse
from ku_rag.text.tokens import content_words, is_named, words

_READ = 5
"""Hits of each search that decisions consider."""


class EmbeddedPlanner:
    """Identifies what a question refers to, and searches until the evidence has its words.

    A query changes only if the state shows how. A reference to the picture becomes the name of
    the unit that certainly matches. A comparison becomes a sub-query for each unit. After a search
    for texts that left words of the query uncovered, a unit that the query names and that was not
    found is searched for; else the query is searched for once more, with the name that its best
    evidence leads to.
    """

    name = "embedded"

    def reformulate(self, state: PlanState) -> Reformulation:
        """Name what the query refers to, compare, or follow the evidence."""
        query, *others = state.queries
        if others:
            return Reformulation(state.queries)
        why, name = "", _subject(state)
        if name and not is_named(name, query) and with_name(query, name) != query:
            query, why = with_name(query, name), f"The picture shows {name}."
        elif state.picture and not name and refers(query, named=bool(state.about)):
            return Reformulation((query,), False, "The question refers to the picture.")
        if _is_covered((query,), state):
            return Reformulation((query,), why=why)
        names = [unit.name for unit in state.units if is_named(unit.named or unit.name, query)]
        asked = [one.queries for one in state.rounds if one.action == "text"]
        if not asked and len(names) > 1 and analyse(query, tuple(names)).compares:
            why = f"{why} The query compares {', '.join(names)}.".strip()
            return Reformulation(_for_each(query, names, names), why=why)
        if asked != [(query,)]:
            return Reformulation((query,), why=why)
        hits = _hits(state)
        lacking = [name for name in names if not any(is_named(name, hit.title) for hit in hits)]
        if lacking:
            why = f"There is no evidence about {', '.join(lacking)}."
            return Reformulation(_for_each(query, lacking, names), why=why)
        if not (name := bridge_name(query, hits[0]) if hits else ""):
            return Reformulation((query,))
        return Reformulation((f"{query} {name}",), why=f"{hits[0].title} leads to {name}.")

    def choose(self, state: PlanState) -> Choice:
        """Identify the picture, then search texts while the evidence lacks words of the query."""
        if state.picture is not None and not any(one.action == "image" for one in state.rounds):
            return Choice("image", why="The picture is not identified yet.")
        # Where the action is chosen for the last query, the next one follows from the same state.
        following = self.reformulate(state)
        if not following.clear:
            return Choice("none", why="It is not certain what the picture shows.")
        if _is_covered(following.queries, state):
            return Choice("none", why="The evidence covers all words of the query.")
        asked = (one.queries for one in state.rounds if one.action == "text")
        if any({*following.queries} <= {*queries} for queries in asked):
            return Choice("none", why="There is nothing else to search for.")
        if not (hits := _hits(state)):
            return Choice("text", why="There is no evidence yet.")
        lacking = uncovered(" ".join(following.queries), hits)
        return Choice("text", why=f"The evidence lacks: {', '.join(lacking)}.")


def _hits(state: PlanState) -> list[Hit]:
    """Return the best hits of each search so far."""
    searches = (search for one in state.rounds for search in one.searches)
    return [hit for search in searches for hit in search.hits[:_READ]]


def _is_covered(queries: Sequence[str], state: PlanState) -> bool:
    """Return whether there is evidence, and it has the content words of all queries."""
    return bool(_hits(state)) and not uncovered(" ".join(queries), _hits(state))


def _subject(state: PlanState) -> str:
    """Return the name of the unit that the picture certainly shows; "" for none."""
    sure = (unit.name for unit in state.units if unit.id in state.about and not unit.named)
    return next(sure, "") if state.picture is not None else ""


def _for_each(query: str, names: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return a query for each name, with the content words of a query that are of no name."""
    taken = {word for name in others for word in words(name)}
    rest = [word for word in content_words(query) if word not in taken]
    return tuple(" ".join([name, *rest]) for name in names)
