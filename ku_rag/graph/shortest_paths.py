"""The shortest paths between two entities, or from one to all others, without agents."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import islice

from ku_rag.graph.model import Entity, Graph, Path
from ku_rag.graph.traversal import extend_to_new, traverse

_CACHED = 1024
"""Number of entities whose relations are kept in memory; paths of each length need them again."""


def shortest(
    graph: Graph, start: Entity, end: Entity | None, *, most: int, longest: int
) -> list[Path]:
    """Return paths that pass no entity twice, shortest first, then in the order of statement.

    From an entity to itself they are the loops through it.

    Args:
        graph: The graph.
        start: Where the paths start.
        end: Where they end; None: anywhere.
        most: Greatest number of paths.
        longest: Greatest number of relations of a path.

    Raises:
        Corrupt: A relation fails its checksum.
    """
    hop = lru_cache(_CACHED)(graph.hop)
    distances = {end.row: 0} if end else {}
    choose = partial(extend_to_new, reached=set(distances))
    nearest = traverse(graph, end, choose, longest=longest, direction="in") if end else iter(())

    def paths_of_length(path: Path, left: int) -> Iterator[Path]:
        if not left:
            if end is None or path.end.row == end.row:
                yield path
            return
        passed = {entity.row for entity in path.entities}
        for step in hop(path.end):
            closes = left == 1 and end == start == step.tail
            near = end is None or distances.get(step.tail.row, longest) < left
            if near and (closes or step.tail.row not in passed):
                yield from paths_of_length(path.then(step), left - 1)

    found: list[Path] = []
    for length in range(1, longest + 1):
        found += islice(paths_of_length(Path(start), length), most - len(found))
        if len(found) >= most:
            break
        # Only now: entities farther from the end matter to longer paths alone.
        distances |= {path.end.row: length for path in next(nearest, ())}
    return found
