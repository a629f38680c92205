"""Search of the graph without a model: paths are scored in advance, and the best ones selected.

The candidates are the paths from the topic entity, those with words of the question first, with
scores of `ku_rag.graph.scoring`. No selected path is the beginning of another, and none is much
less likely than the best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ku_rag.graph.model import Entity, Graph, Path
from ku_rag.graph.scoring import QueryTerms, score
from ku_rag.graph.search_types import GraphSearchResult, Query, SearchLimits, TraceEntry
from ku_rag.graph.traversal import OPENED, STEPS, look_ahead
from ku_rag.retrieval.names import find_names

if TYPE_CHECKING:
    from PIL.Image import Image

Sight = Callable[[Sequence["Image"]], Sequence[Entity]]
"""Returns the entities that pictures show, best first."""

_LONGEST = 4
"""Greatest number of relations of a path."""
_SEEN = 1000
"""Greatest number of paths that are scored."""
_LIKELY = 0.05
"""Least likelihood of a sufficient path, as a share of that of the best path."""


_LIMITS = SearchLimits()
_MOST_TOPICS = 100_000


def search_without_model(
    graph: Graph,
    query: Query,
    limits: SearchLimits = _LIMITS,
    *,
    sight: Sight | None = None,
    topic: Entity | None = None,
) -> GraphSearchResult:
    """Return the paths that most likely answer a question.

    Args:
        graph: The graph, in one state.
        query: The query.
        limits: How many paths are wanted, and how long they may be.
        sight: Finds entities by picture if the query names none.
        topic: Where the search starts; None: the entity that the query names or shows.

    Raises:
        Corrupt: A row of the graph fails its checksum.
    """
    trace = []
    if topic is None:
        topic = select_topic(graph, query, sight)
        name = topic.name if topic else "none"
        trace.append(TraceEntry(0, "topic", query.question, name))
    if topic is None:
        stopped = "no topic entity was found in the question; no path was enough"
        return GraphSearchResult(trace=tuple(trace), stopped=stopped)
    paths = _select_paths(graph, query, topic, limits)
    trace += [TraceEntry(len(p.steps), "validation", p.text, "enough") for p in paths]
    steps = {step.row: step for path in paths for step in path.steps}
    return GraphSearchResult(
        topic=topic,
        steps=tuple(steps.values()),
        paths=tuple(paths),
        trace=tuple(trace),
        stopped="no other path is likely" if steps else "the topic entity is enough by itself",
    )


def select_topic(graph: Graph, query: Query, sight: Sight | None = None) -> Entity | None:
    """Return the topic entity that the query names most often, or else the one that is seen.

    Of entities named equally often, the first counts. The perception is searched only if question
    and hints name no topic; entities that lead to another named entity only if the pictures show
    none either.
    """
    known = {entity.row: entity for entity in graph.topics(_MOST_TOPICS)}
    asked = f"{query.question}\n{query.hints}"
    for text in (asked, query.perception):
        if named := _named(graph, text, known):
            return named
    if sight and query.pictures:
        return next((e for e in sight(query.pictures) if e.row in known), None)
    return _leading_to(graph, _named(graph, asked, None), known)


def _select_paths(graph: Graph, query: Query, start: Entity, limits: SearchLimits) -> list[Path]:
    terms = QueryTerms.of(query, start)
    longest = min(_LONGEST, limits.max_rounds)
    paths = look_ahead(graph, start, terms.wanted, longest=longest, most=_SEEN)
    ends = list({path.end.row: path.end for path in paths}.values())
    likely = score(terms, paths, captions=graph.captions(ends))
    chosen: list[Path] = []
    for n in (-likely).argsort(kind="stable").tolist():
        steps = paths[n].steps
        if likely[n] < _LIKELY * likely.max() or len(chosen) == limits.max_paths:
            break
        if not any(steps[: len(c.steps)] == c.steps[: len(steps)] for c in chosen):
            chosen.append(paths[n])
    return chosen


def _leading_to(graph: Graph, named: Entity | None, known: Mapping[int, Entity]) -> Entity | None:
    """Return the nearest known entity from which relations lead to `named`."""
    opened = [named] if named else []
    reached = {entity.row: entity for entity in opened}
    for _ in range(_LONGEST):
        before = {
            step.head.row: step.head
            for entity in opened[:OPENED]
            for step in graph.hop(entity, STEPS, direction="in")
        }
        opened = [entity for row, entity in before.items() if row not in reached]
        if found := next((entity for entity in opened if entity.row in known), None):
            return found
        reached |= before
    return None


def _named(graph: Graph, text: str, known: Mapping[int, Entity] | None) -> Entity | None:
    """Return the entity that a text names most often, among the known ones or (None) all."""
    spans = find_names(graph.connection, text).spans
    meant = graph.with_keys([span.key for span in spans])
    named = Counter(
        next((one for one in meant.get(span.key, ()) if known is None or one.row in known), None)
        for span in sorted(spans, key=lambda span: span.at)
    )
    del named[None]
    return next((entity for entity, _ in named.most_common(1)), None)
