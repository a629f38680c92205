"""Search of the graph without a model: what facts and relations answer, or else paths by words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ku_rag.graph.model import Entity, Graph, Path
from ku_rag.graph.search_types import GraphSearchResult, Query, SearchLimits, TraceEntry
from ku_rag.graph.traversal import levels_before, rank_paths, wanted_stems
from ku_rag.graph.unit_facts import FactReader
from ku_rag.reading.named_units import trace
from ku_rag.retrieval.names import find_names
from ku_rag.text.stems import stems

if TYPE_CHECKING:
    from PIL.Image import Image

Sight = Callable[[Sequence["Image"]], Sequence[Entity]]
"""Returns the entities that pictures show, best first."""

_LONGEST = 4
"""Greatest number of relations of a path."""
_MOST_RANKED = 1000
_MOST_TOPICS = 100_000
_LIMITS = SearchLimits()


def search_without_model(
    graph: Graph,
    query: Query,
    limits: SearchLimits = _LIMITS,
    *,
    sight: Sight | None = None,
    topic: Entity | None = None,
) -> GraphSearchResult:
    """Return the paths that answer a question, or share most words with it; or the topic."""
    topic = topic or select_topic(graph, query, sight)
    # The reader does not see hints and perception.
    traced = trace(graph, topic, query.question) if query.text == query.question else None
    topic = topic or _leading_topic(graph, query)
    # A relation and a labelled line may state the same.
    stated = {path.text.casefold(): path for path in reversed(traced.paths if traced else ())}
    paths = [path for path in reversed(stated.values()) if len(path.steps) <= limits.max_rounds]
    if paths:
        topic, stopped = paths[0].start, "facts and relations answer the question"
    elif topic:
        paths = _paths_by_words(graph, query, topic, limits)
        is_alone = not paths[0].steps
        stopped = f"no {'' if is_alone else 'other '}path shares words with the question"
    else:
        stopped = "no topic entity was found in the question; no path was enough"
    paths = paths[: limits.max_paths]
    trace_entries = [TraceEntry(0, "topic", query.question, topic.name if topic else "none")]
    trace_entries += [TraceEntry(len(p.steps), "validation", p.text, "enough") for p in paths]
    return GraphSearchResult(
        topic=topic,
        steps=tuple(dict.fromkeys(step for path in paths for step in path.steps)),
        paths=tuple(paths),
        trace=tuple(trace_entries),
        stopped=stopped,
    )


def _paths_by_words(graph: Graph, query: Query, topic: Entity, limits: SearchLimits) -> list[Path]:
    """Return the paths that share words with a query and do not begin another, or the topic."""
    ranked = rank_paths(
        graph,
        topic,
        wanted_stems(query.text, topic),
        longest=min(_LONGEST, limits.max_rounds),
        most=_MOST_RANKED,
        facts=FactReader(graph.connection, graph.among),
    )
    named = stems(query.question) - stems(topic.name)
    chosen: list[Path] = []
    for score, path in ranked:
        steps, end = path.steps, stems(path.end.name) - stems(topic.name)
        is_new = not any(steps[: len(c.steps)] == c.steps[: len(steps)] for c in chosen)
        if score > 0 and is_new and not (end and end <= named):
            chosen.append(path)
    return chosen or [Path(topic)]


def select_topic(graph: Graph, query: Query, sight: Sight | None = None) -> Entity | None:
    """Return the topic entity that the query names most often, or else the one that is seen."""
    topics = _topics(graph)
    for text in (f"{query.question}\n{query.hints}", query.perception):
        if topic := next((entity for entity in _find(graph, text) if entity.row in topics), None):
            return topic
    seen = sight(query.pictures) if sight and query.pictures else ()
    return next((entity for entity in seen if entity.row in topics), None)


def _leading_topic(graph: Graph, query: Query) -> Entity | None:
    """Return the nearest topic entity from which relations lead to what a question names."""
    topics, named = _topics(graph), _find(graph, query.question)
    levels = islice(levels_before(graph, named[0]), _LONGEST) if named else ()
    rows = next((near for level in levels if (near := level & topics.keys())), set())
    return topics[min(rows)] if rows else None


def _topics(graph: Graph) -> dict[int, Entity]:
    return {entity.row: entity for entity in graph.topics(_MOST_TOPICS)}


def _find(graph: Graph, text: str) -> list[Entity]:
    """Return the entities that a text names, those that it names most often first."""
    spans = sorted(find_names(graph.connection, text).spans, key=lambda span: span.at)
    meant = graph.with_keys([span.key for span in spans])
    counts = Counter(entity for span in spans for entity in meant.get(span.key, ()))
    return [entity for entity, _ in counts.most_common()]
