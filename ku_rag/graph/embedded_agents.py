"""Agents without a model: they score paths in advance and select the best ones.

Before its first round a search has a plan: the paths from the topic entity, those with words of
the question first, with scores of `ku_rag.graph.scoring`. Expansion selects the relations of the
planned paths, and validation accepts these. No path of the plan is the beginning of another,
because an accepted path is not extended; and the plan ends before the first path that is much less
likely than the best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ku_rag.encoders.base import Encoder
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.query_terms import QueryTerms, relation_stems, stems
from ku_rag.graph.scoring import WEIGHTS, score
from ku_rag.graph.search_types import Note, Query, Verdict
from ku_rag.graph.traversal import Offer, extend_to_new, traverse
from ku_rag.text.tokens import words

if TYPE_CHECKING:
    from PIL.Image import Image

Sight = Callable[[Sequence["Image"]], Sequence[Entity]]
"""What pictures show, best first: the entities among the units that match them."""

_LONGEST = 4
"""Relations of a path, at most."""
_OPENED = 48
"""Paths of one length that are looked at further, at most."""
_STEPS = 400
"""Relations of one entity that are looked at, at most: the first that were stated."""
_SEEN = 1000
"""Paths that are scored, at most."""
_EVIDENCE = 400
"""The same where evidence is looked for, from all entities together."""
_LIKELY = 0.05
"""The share of the best path's likelihood that another must have to be enough as well."""
_NAME_WORDS = 8
"""Words of a name that is looked for in a text, at most."""


@dataclass(frozen=True, slots=True)
class _PathPlan:
    query: Query
    start: Entity
    chosen: Mapping[tuple[int, ...], float]
    """Rows of the steps of each path that is enough → how likely it is."""
    ways: frozenset[tuple[int, ...]]
    """Rows of the steps of every piece of them, from the start."""


class EmbeddedAgents:
    """Agents that need no model, as a baseline (`ku_rag.graph.search_types.Agents`).

    Args:
        graph: the graph that is searched.
        encoder: for texts, commonly that of the knowledge base.
        most: paths that are to be enough, at most.
        sight: finds entities by picture, where the query names none.
        captions: whether people's captions of the entities' pictures are read.
        weights: of the features, by name; for measuring others.
    """

    def __init__(
        self,
        graph: Graph,
        encoder: Encoder,
        *,
        most: int = 5,
        sight: Sight | None = None,
        captions: bool = True,
        weights: Mapping[str, float] = WEIGHTS,
    ) -> None:
        self._graph, self._encoder, self._most = graph, encoder, most
        self._sight, self._captions, self._weights = sight, captions, weights
        self._plan: _PathPlan | None = None

    def topic(self, query: Query, among: Sequence[Entity]) -> Entity | None:
        """The entity whose name or alias the query says most often, else the one that is seen.

        Of those said equally often it is the one that is said first. What the pictures show is
        looked through only if question and hints name none; what leads to another entity that they
        name, only if nothing is seen either.
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
        """Those steps that lead to a planned path."""
        kept = []
        for path, steps in opened:
            ways = self._planned(query, path.start).ways
            rows = _rows(path)
            kept.append([step for step in steps if (*rows, step.row) in ways])
        return kept

    def validate(self, query: Query, paths: Sequence[Path]) -> list[Verdict]:
        """Planned paths are enough; their score is how likely they are."""
        verdicts = []
        for path in paths:
            chosen = self._planned(query, path.start).chosen
            verdicts.append(Verdict(_rows(path) in chosen, chosen.get(_rows(path), 0.0)))
        return verdicts

    def notes(self) -> Sequence[Note]:
        """Return no notes: no model is asked."""
        return ()

    def _planned(self, query: Query, start: Entity) -> _PathPlan:
        plan = self._plan
        if plan is None or plan.query is not query or plan.start != start:
            chosen = self._choose(query, start)
            ways = {rows[:n] for rows in chosen for n in range(1, len(rows) + 1)}
            self._plan = plan = _PathPlan(query, start, chosen, frozenset(ways))
        return plan

    def _choose(self, query: Query, start: Entity) -> dict[tuple[int, ...], float]:
        terms = QueryTerms(query, start)
        paths = look_ahead(self._graph, terms, longest=_LONGEST, most=_SEEN)
        ends = list({path.end.row: path.end for path in paths}.values())
        captions = self._graph.captions(ends) if self._captions else {}
        likely = score(terms, paths, self._encoder, captions=captions, weights=self._weights)
        chosen: dict[tuple[int, ...], float] = {}
        for n in (-likely).argsort(kind="stable").tolist():
            rows = _rows(paths[n])
            if likely[n] < _LIKELY * likely.max() or len(chosen) == self._most:
                break
            if not any(rows[: len(c)] == c or c[: len(rows)] == rows for c in chosen):
                chosen[rows] = float(likely[n])
        return chosen

    def _leading_to(self, named: Entity | None, known: Mapping[int, Entity]) -> Entity | None:
        """The nearest known entity from which relations lead to one."""
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
        """What a text names most often, among the known ones or (None) all."""
        said: dict[int, int] = {}
        named: dict[int, Entity] = {}
        parts, at = words(text), 0
        while at < len(parts):
            for length in range(min(_NAME_WORDS, len(parts) - at), 0, -1):
                found = self._graph.find(" ".join(parts[at : at + length]))
                hits = (one for one in found if known is None or one.row in known)
                if hit := next(hits, None):
                    said[hit.row] = said.get(hit.row, 0) + 1
                    named[hit.row] = hit
                    break
            else:
                length = 1
            at += length
        return named[max(said, key=said.__getitem__)] if said else None


def best_paths(
    graph: Graph,
    starts: Sequence[Entity],
    query: Query,
    encoder: Encoder,
    *,
    k: int,
    longest: int = 3,
) -> list[Path]:
    """The paths from some entities that bear on a question, best first: evidence for an answer.

    A path bears on it if its last relation, or what that leads to or says, shares a word with the
    question. Those that end at what the question names come first, for they join what it speaks
    of. However large the graph is, no more than some hundred paths are scored.

    Args:
        graph: the graph.
        starts: entities that the question is about, best first: what is likely of the second one
            counts half, of the third one a third.
        query: what is asked.
        encoder: for texts, commonly that of the knowledge base.
        k: most paths.
        longest: relations of a path, at most.

    Raises:
        Corrupt: a row of the graph fails its checksum.
    """
    ranked = []
    distinct = list(dict.fromkeys(starts))
    for place, start in enumerate(distinct):
        terms = QueryTerms(query, start)
        most = max(_EVIDENCE // len(distinct), 2)
        paths = look_ahead(graph, terms, longest=longest, most=most)
        likely = score(terms, paths, encoder)
        ranked += [
            (not _says(terms, path.end), -float(value) / (1 + place), place, n, path)
            for n, (path, value) in enumerate(zip(paths, likely, strict=True))
            if path.steps and _bears(terms, path.steps[-1])
        ]
    return [path for *_, path in sorted(ranked, key=lambda one: one[:4])[:k]]


def look_ahead(graph: Graph, terms: QueryTerms, *, longest: int, most: int) -> list[Path]:
    """Return the topic alone and the paths from it that pass no entity twice, shortest first.

    Of the paths of one length, those are extended that share most words with the query.

    Args:
        graph: The graph.
        terms: The words of the query, and the topic.
        longest: Greatest number of relations of a path.
        most: Greatest number of paths.
    """
    found = [Path(terms.topic)]
    counts = [0]  # words that each open path shares with the query

    def choose(offers: Sequence[Offer]) -> list[Path]:
        longer: list[tuple[int, Path]] = []
        for count, (path, steps) in zip(counts, offers, strict=True):
            passed = {entity.row for entity in path.entities}
            for step in steps:
                if step.tail.row not in passed:
                    shared = len(terms.wanted & _words(step))
                    longer.append((count + shared, path.then(step)))
        longer.sort(key=lambda one: -one[0])
        found.extend(path for _, path in longer[: most - len(found)])
        counts[:] = [count for count, _ in longer[:_OPENED]]
        return [path for _, path in longer[:_OPENED]] if len(found) < most else []

    for _ in traverse(graph, terms.topic, choose, longest=longest, most=_STEPS):
        pass
    return found


def _words(step: Step) -> frozenset[str]:
    said = stems(step.tail.name) | stems(step.information) | stems(step.condition)
    return said | relation_stems(step.relation)


def _bears(terms: QueryTerms, step: Step) -> bool:
    return bool(terms.wanted & _words(step))


def _says(terms: QueryTerms, entity: Entity) -> bool:
    """Whether the question says all of an entity's name."""
    name = stems(entity.name)
    return bool(name) and name <= terms.question


def _rows(path: Path) -> tuple[int, ...]:
    return tuple(step.row for step in path.steps)
