"""Breadth-first traversal of the graph, which all searches and drawings share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ku_rag.graph.model import Direction, Entity, Graph, Path, Step

Offer = tuple[Path, Sequence[Step]]
"""A path and the relations by which it can be extended."""


def traverse(
    graph: Graph,
    start: Entity,
    choose: Callable[[Sequence[Offer]], Sequence[Path]],
    *,
    longest: int,
    direction: Direction = "out",
    most: int = -1,
) -> Iterator[Sequence[Path]]:
    """Yield the chosen paths of one relation, then of two, and so on.

    Args:
        graph: The graph.
        start: Where the paths start.
        choose: Receives the open paths with the relations of their ends, and returns the paths
            that stay open, one relation longer. The traversal ends when it returns none.
        longest: Greatest number of relations of a path.
        direction: In which direction relations are followed.
        most: Greatest number of relations of an entity, the first ones; -1 for all.

    Raises:
        Corrupt: A relation fails its checksum.
    """
    opened: Sequence[Path] = [Path(start)]
    for _ in range(longest):
        opened = choose([(p, graph.hop(p.end, most, direction=direction)) for p in opened])
        if not opened:
            return
        yield opened


def extend_to_new(offers: Sequence[Offer], reached: set[int]) -> list[Path]:
    """Return the extended paths to entities that were not reached before.

    Args:
        offers: Paths with the relations of their ends.
        reached: Rows of the entities reached so far; the new ones are added.
    """
    found = []
    for path, steps in offers:
        for step in steps:
            if (row := step.other(path.end).row) not in reached:
                reached.add(row)
                found.append(path.then(step))
    return found
