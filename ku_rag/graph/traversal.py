"""Paths of the graph: shortest ones, and those that share words with a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice

from ku_rag.errors import NotFound
from ku_rag.graph.model import Direction, Entity, Graph, Path, Step
from ku_rag.graph.unit_facts import FactReader
from ku_rag.store.connection import as_json
from ku_rag.text.question import label_words
from ku_rag.text.stems import every_stem, label_stems, stems
from ku_rag.text.tokens import name_key

_CACHED = 1024
"""Number of entities whose relations are kept in memory; paths of each length need them again."""
_OPENED = 48
"""Greatest number of paths of one length that are extended."""
_STEPS = 400
"""Greatest number of relations of one entity that are read, the first ones."""
_REPEATED = 0.05
"""Loss of score for each kind of entity that a path passes again."""
_EVIDENCE = 400
"""Greatest number of paths that are ranked as evidence, from all entities together."""


def named_path(graph: Graph, names: Sequence[str]) -> Path:
    """Return the first path whose entities have some names, in that order."""
    paths = [Path(graph.entity(name)) for name in names[:1]]
    for key in map(name_key, names[1:]):
        steps = [(path, step) for path in paths for step in graph.hop(path.end)]
        paths = [path.then(step) for path, step in steps if name_key(step.tail.name) == key]
    if not paths:
        raise NotFound(f"the graph has no path {' > '.join(names)}: check the names")
    return paths[0]


def shortest_paths(
    graph: Graph,
    start: Entity,
    end: Entity | None,
    *,
    most: int,
    longest: int,
    direction: Direction = "out",
) -> list[Path]:
    """Return paths that pass no entity twice but the start of a loop, shortest first."""
    hop = lru_cache(_CACHED)(partial(graph.hop, direction=direction))
    distances = {end.row: 0} if end else {}
    levels = levels_before(graph, end, direction) if end else iter(())

    def paths_of_length(path: Path, left: int) -> Iterator[Path]:
        if not left:
            if end is None or path.end.row == end.row:
                yield path
            return
        passed = {entity.row for entity in path.entities}
        for step in hop(path.end):
            reached = step.other(path.end)
            closes = left == 1 and end == start == reached
            near = end is None or distances.get(reached.row, longest) < left
            if near and (closes or reached.row not in passed):
                yield from paths_of_length(path.then(step), left - 1)

    paths: list[Path] = []
    for length in range(1, longest + 1):
        distinct = distinct_paths(paths_of_length(Path(start), length))
        paths += islice(distinct, most - len(paths))
        if len(paths) >= most:
            break
        # Only now: entities farther from the end matter to longer paths alone.
        distances |= dict.fromkeys(next(levels, ()), length)
    return paths


def distinct_paths(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield paths; of those that differ in directions alone ("borders"), only the first."""
    passed = set[object]()
    for path in paths:
        ends = (frozenset({(end.row, end.name) for end in (s.head, s.tail)}) for s in path.steps)
        words = ((step.relation, step.notes) for step in path.steps)
        key = frozenset(zip(ends, words, strict=True)) or path.start
        if key not in passed:
            passed.add(key)
            yield path


def levels_before(graph: Graph, end: Entity, direction: Direction = "out") -> Iterator[set[int]]:
    """Yield the rows of the entities at distance 1 before an entity, at distance 2, and so on."""
    heads, tails = (
        f"SELECT {other} FROM relations WHERE {end} IN (SELECT value FROM json_each(?1)) "
        f"AND {other} IS NOT NULL"
        for other, end in (("head", "tail"), ("tail", "head"))
    )
    query = {"out": heads, "in": tails, "both": f"{heads} UNION {tails}"}[direction]
    reached = level = {end.row}
    while level:
        rows = graph.connection.execute(query, (as_json(level),))
        level = {row for (row,) in rows} - reached
        reached = reached | level
        yield level


def rank_paths(
    graph: Graph,
    start: Entity,
    wanted: frozenset[str],
    *,
    longest: int,
    most: int,
    facts: FactReader | None = None,
) -> list[tuple[float, Path]]:
    """Return paths that pass no entity twice, best first, each with a score.

    The score is the share of words that the relations of the path, or these and the caption of its
    end, have in common with the wanted stems (Jaccard). Each kind of entity that is passed again
    lowers it: such paths run into other topics, or along chains. Of the paths of one length, those
    are extended that have most of the wanted stems; facts are the last relation of a path.
    """
    paths: list[Path] = []
    opened = [(0, Path(start))]  # with the number of wanted words
    for _ in range(longest):
        longer: list[tuple[int, Path]] = []
        for count, path in opened:
            passed = {entity.row for entity in path.entities}
            for step in (*graph.hop(path.end, _STEPS), *(facts.of_unit(path.end) if facts else ())):
                if step.tail.row not in passed:
                    longer.append((count + len(wanted & step_stems(step)), path.then(step)))
        longer.sort(key=lambda entry: -entry[0])
        paths += [path for _, path in longer[: most - len(paths)]]
        opened = longer[:_OPENED] if len(paths) < most else []
    captions = graph.captions([path.end for path in paths])
    ranked = []
    for path in paths:
        passed_stems = frozenset[str]().union(*map(step_stems, path.steps))
        both = passed_stems | stems(captions.get(path.end.row, ""))
        share = max(len(wanted & terms) / len(wanted | terms) for terms in (passed_stems, both))
        kinds = [entity.kind for entity in path.entities]
        ranked.append((share - _REPEATED * (len(kinds) - len({*kinds})), path))
    return sorted(ranked, key=lambda entry: -entry[0])


def best_paths(
    graph: Graph, starts: Sequence[Entity], question: str, *, k: int, longest: int = 3
) -> list[Path]:
    """Return the paths from some entities that share words with a question, best first."""
    distinct = list(dict.fromkeys(starts))
    most = max(_EVIDENCE // max(len(distinct), 1), 2)
    ranked = []
    for place, start in enumerate(distinct, 1):
        wanted = wanted_stems(question, start)
        for score, path in rank_paths(graph, start, wanted, longest=longest, most=most):
            if wanted & step_stems(path.steps[-1]):
                ranked.append((score / place, path))
    best = (path for _, path in sorted(ranked, key=lambda entry: -entry[0]))
    return list(islice(distinct_paths(best), k))


def wanted_stems(text: str, start: Entity) -> frozenset[str]:
    """Return the stems of a text, and of labels that answer it, without those of an entity."""
    terms = every_stem(text).union(label_words(text))
    return terms - stems(start.name) - stems(start.kind)


def step_stems(step: Step) -> frozenset[str]:
    """Return stems of a relation, of its notes, and of the entity where it ends."""
    notes = stems(step.information) | stems(step.condition)
    return stems(step.tail.name) | notes | label_stems(step.relation)
