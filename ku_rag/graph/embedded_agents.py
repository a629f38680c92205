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

from ku_rag.encoders.base import Encoder
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.query_terms import QueryTerms, relation_stems
from ku_rag.graph.scoring import score
from ku_rag.graph.search_types import Note, Query, Verdict
from ku_rag.graph.traversal import Offer, extend_to_new, traverse
from ku_rag.text.stems import stems
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
_EVIDENCE = 400
"""Greatest number of paths that are scored as evidence, from all entities together."""
_LIKELY = 0.05
"""Least likelihood of a sufficient path, as a share of that of the best path."""
_NAME_WORDS = 8
"""Greatest number of words of a name that is searched for in a text."""


class EmbeddedAgents:
    """Agents without a model, as a baseline (`ku_rag.graph.search_types.Agents`).

    Args:
        graph: The graph.
        encoder: Encodes texts, commonly that of the knowledge base.
        most: Greatest number of sufficient paths.
        sight: Finds entities by picture if the query names none.
        captions: Whether captions by people are used.
    """

    def __init__(
        self,
        graph: Graph,
        encoder: Encoder,
        *,
        most: int = 5,
        sight: Sight | None = None,
        captions: bool = True,
    ) -> None:
        self._graph, self._encoder, self._most = graph, encoder, most
        self._sight, self._captions = sight, captions
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

    def notes(self) -> Sequence[Note]:
        """Return no notes: no model is asked."""
        return ()

    def _planned(self, query: Query, start: Entity) -> _Likelihoods:
        if self._plan is None or self._plan[0] is not query or self._plan[1] != start:
            self._plan = query, start, self._choose(query, start)
        return self._plan[2]

    def _choose(self, query: Query, start: Entity) -> _Likelihoods:
        terms = QueryTerms(query, start)
        paths = look_ahead(self._graph, terms, longest=_LONGEST, most=_SEEN)
        ends = list({path.end.row: path.end for path in paths}.values())
        captions = self._graph.captions(ends) if self._captions else {}
        likely = score(terms, paths, self._encoder, captions=captions)
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


def best_paths(
    graph: Graph,
    starts: Sequence[Entity],
    query: Query,
    encoder: Encoder,
    *,
    k: int,
    longest: int = 3,
) -> list[Path]:
    """Return the paths from some entities that are relevant to a question, best first.

    A path is relevant if its last relation, or the entity, information or condition of this
    relation, shares a word with the question. Paths to an entity that the question names come
    first. At most `_EVIDENCE` paths are scored, however large the graph is.

    Args:
        graph: The graph.
        starts: Entities of the question, best first: the likelihood of paths from the second one
            is halved, from the third one divided by three, and so on.
        query: The query.
        encoder: Encodes texts, commonly that of the knowledge base.
        k: Greatest number of paths.
        longest: Greatest number of relations of a path.

    Raises:
        Corrupt: A row of the graph fails its checksum.
    """
    ranked = []
    distinct = list(dict.fromkeys(starts))
    for place, start in enumerate(distinct):
        terms = QueryTerms(query, start)
        most = max(_EVIDENCE // len(distinct), 2)
        paths = look_ahead(graph, terms, longest=longest, most=most)
        likely = score(terms, paths, encoder)
        ranked += [
            (not _names(terms, path.end), -float(value) / (1 + place), place, n, path)
            for n, (path, value) in enumerate(zip(paths, likely, strict=True))
            if path.steps and terms.wanted & _words(path.steps[-1])
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
    notes = stems(step.information) | stems(step.condition)
    return stems(step.tail.name) | notes | relation_stems(step.relation)


def _names(terms: QueryTerms, entity: Entity) -> bool:
    """Return whether the question contains all words of an entity's name."""
    name = stems(entity.name)
    return bool(name) and name <= terms.question


def _rows(path: Path) -> tuple[int, ...]:
    return tuple(step.row for step in path.steps)
