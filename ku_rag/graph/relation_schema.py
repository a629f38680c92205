"""The relations that a graph has, with the kinds of entities that they connect."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ku_rag.store.connection import Connection
from ku_rag.types import Serializable


@dataclass(frozen=True, slots=True)
class RelationSchema(Serializable):
    """All relations of one word.

    Args:
        heads: Kinds of the entities at which they start, in alphabetical order.
        relation: The word.
        tails: Kinds of the entities at which they end, likewise.
        count: Number of relations.
    """

    heads: tuple[str, ...]
    relation: str
    tails: tuple[str, ...]
    count: int


def schema(connection: Connection) -> list[RelationSchema]:
    """Return the relations of a graph, the most frequent first."""
    return [
        RelationSchema(tuple(json.loads(heads)), relation, tuple(json.loads(tails)), count)
        for heads, relation, tails, count in connection.execute(
            "SELECT json_group_array(DISTINCT h.kind ORDER BY h.kind), r.relation, "
            "json_group_array(DISTINCT t.kind ORDER BY t.kind), count(*) AS number "
            "FROM relations r JOIN entities h ON h.row = r.head JOIN entities t ON t.row = r.tail "
            "GROUP BY r.relation ORDER BY number DESC, r.relation"
        )
    ]
