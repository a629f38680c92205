"""Shortest walks through the graph, without agents: between two entities, or from one to all."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from ku_rag.graph.model import Entity, Graph, Path
from ku_rag.store.connection import Connection
from ku_rag.store.sql import as_json

_REMEMBERED = 1024
"""Of so many entities the relations are kept, for each longer walk passes them again."""


def shortest(
    connection: Connection,
    graph: Graph,
    start: Entity,
    end: Entity | None,
    *,
    most: int,
    longest: int,
) -> list[Path]:
    """Walks that pass no entity twice, shortest first; those of one length in stated order.

    From an entity to itself they are the loops through it.

    Args:
        connection: to the store that the graph is in.
        graph: what is walked.
        start: where they begin.
        end: where they end; None: anywhere.
        most: so many at most.
        longest: relations that one has at most.
    """
    away = _distances(connection, end, longest) if end else None
    hop = lru_cache(_REMEMBERED)(graph.hop)

    def reaches(entity: Entity, left: int) -> bool:
        return away is None or away.get(entity.row, longest + 1) <= left

    def of_length(path: Path, left: int) -> Iterator[Path]:
        if not left:
            if path.steps and (end is None or path.end.row == end.row):
                yield path
            return
        passed = {entity.row for entity in path.entities}
        for step in hop(path.end):
            closes = left == 1 and end == start == step.tail
            if (closes or step.tail.row not in passed) and reaches(step.tail, left - 1):
                yield from of_length(path.then(step), left - 1)

    found: list[Path] = []
    for length in range(1, longest + 1):
        found += islice(of_length(Path(start), length), most - len(found))
        if len(found) >= most:
            break
    return found


def _distances(connection: Connection, end: Entity, longest: int) -> dict[int, int]:
    """Relations from each entity to `end`, against their direction, up to `longest`."""
    away = {end.row: 0}
    edge = [end.row]
    for length in range(1, longest + 1):
        rows = connection.execute(
            "SELECT DISTINCT r.head FROM json_each(?) w CROSS JOIN relations r ON r.tail = w.value",
            (as_json(edge),),
        )
        edge = [row for (row,) in rows if row not in away]
        away |= dict.fromkeys(edge, length)
    return away
