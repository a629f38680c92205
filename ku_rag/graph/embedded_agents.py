"""Agents without a model: they score paths in advance and select the best ones.

Before its first round a search has a plan: the paths from the topic entity, those with words of
the question first, with scores of `ku_rag.graph.scoring`. Expansion selects the relations of the
planned paths, and validation accepts these. No path of the plan is the beginning of another,
because an accepted path is not extended; and the plan ends before the first path that is much less
likely than the best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.scoring import QueryTerms, score
from ku_rag.graph.search_types import Query, TraceEntry, Verdict
from ku_rag.graph.traversal import Offer, extend_to_new, look_ahead, traverse
from ku_rag.text.tokens import words

if TYPE_CHECKING:
    from PIL.Image import Image

Sight = Callable[[Sequence["Image"]], Sequence[Entity]]
"""Returns the entities that pictures show, best first."""

_Likelihoods = dict[tuple[int, ...], float]
"""Likelihoods of sufficient paths, by the rows of their steps."""

_LONGEST = 4
"""Greatest number of relations of a path."""
_OPENED = 48
"""Greatest number of paths of one length that are extended."""
_STEPS = 400
"""Greatest number of relations of one entity that are read, the first ones."""
_SEEN = 1000
"""Greatest number of paths that are scored."""
_LIKELY = 0.05
"""Least likelihood of a sufficient path, as a share of that of the best path."""
_NAME_WORDS = 8
"""Greatest number of words of a name that is searched for in a text."""


class EmbeddedAgents:
    """Agents without a model, as a baseline (`ku_rag.graph.search_types.Agents`).

    Args:
        graph: The graph.
        most: Greatest number of sufficient paths.
        sight: Finds entities by picture if the query names none.
    """

    def __init__(self, graph: Graph, *, most: int = 5, sight: Sight | None = None) -> None:
        self._graph, self._most, self._sight = graph, most, sight
        self._plan: tuple[Query, Entity, _Likelihoods] | None = None

    def topic(self, query: Query, among: Sequence[Entity]) -> Entity | None:
        """Return the entity that the query names most often, or else the one that is seen.

        Of entities named equally often, the first counts. The perception is searched only if
        question and hints name no topic; entities that lead to another named entity only if the
        pictures show none either.
        """
        known = {entity.row: entity for entity in among}
        asked = f"{query.question}\n{query.hints}"
        for text in (asked, query.perception):
            if named := self._named(text, known):
                return named
        if self._sight and query.pictures:
            return next((e for e in self._sight(query.pictures) if e.row in known), None)
        return self._leading_to(self._named(asked, None), known)

    def expand(
        self, query: Query, opened: Sequence[tuple[Path, Sequence[Step]]]
    ) -> list[list[Step]]:
        """Return the relations of planned paths."""
        selected = []
        for path, steps in opened:
            rows, planned = _rows(path), self._planned(query, path.start)
            following = {of[len(rows)] for of in planned if of[: len(rows)] == rows and of != rows}
            selected.append([step for step in steps if step.row in following])
        return selected

    def validate(self, query: Query, paths: Sequence[Path]) -> list[Verdict]:
        """Accept the planned paths; their scores are their likelihoods."""
        planned = [self._planned(query, path.start).get(_rows(path)) for path in paths]
        return [Verdict(one is not None, one or 0.0) for one in planned]

    def notes(self) -> Sequence[TraceEntry]:
        """Return no notes: no model is asked."""
        return ()

    def _planned(self, query: Query, start: Entity) -> _Likelihoods:
        if self._plan is None or self._plan[0] is not query or self._plan[1] != start:
            self._plan = query, start, self._choose(query, start)
        return self._plan[2]

    def _choose(self, query: Query, start: Entity) -> _Likelihoods:
        terms = QueryTerms.of(query, start)
        paths = look_ahead(self._graph, start, terms.wanted, longest=_LONGEST, most=_SEEN)
        ends = list({path.end.row: path.end for path in paths}.values())
        likely = score(terms, paths, captions=self._graph.captions(ends))
        chosen: _Likelihoods = {}
        for n in (-likely).argsort(kind="stable").tolist():
            rows = _rows(paths[n])
            if likely[n] < _LIKELY * likely.max() or len(chosen) == self._most:
                break
            if not any(rows[: len(c)] == c or c[: len(rows)] == rows for c in chosen):
                chosen[rows] = float(likely[n])
        return chosen

    def _leading_to(self, named: Entity | None, known: Mapping[int, Entity]) -> Entity | None:
        """Return the nearest known entity from which relations lead to `named`."""
        if named is None:
            return None
        reached = {named.row}
        found: list[Entity] = []

        def choose(offers: Sequence[Offer]) -> list[Path]:
            paths = extend_to_new(offers, reached)
            found.extend(path.end for path in paths if path.end.row in known)
            return [] if found else paths[:_OPENED]

        for _ in traverse(
            self._graph, named, choose, longest=_LONGEST, direction="in", most=_STEPS
        ):
            pass
        return found[0] if found else None

    def _named(self, text: str, known: Mapping[int, Entity] | None) -> Entity | None:
        """Return the entity that a text names most often, among the known ones or (None) all."""
        counts: dict[int, int] = {}
        named: dict[int, Entity] = {}
        parts, at = words(text), 0
        while at < len(parts):
            for length in range(min(_NAME_WORDS, len(parts) - at), 0, -1):
                found = self._graph.find(" ".join(parts[at : at + length]))
                hits = (one for one in found if known is None or one.row in known)
                if hit := next(hits, None):
                    counts[hit.row] = counts.get(hit.row, 0) + 1
                    named[hit.row] = hit
                    break
            else:
                length = 1
            at += length
        return named[max(counts, key=counts.__getitem__)] if counts else None


def _rows(path: Path) -> tuple[int, ...]:
    return tuple(step.row for step in path.steps)
