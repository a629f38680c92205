"""An entity with its attributes and relations, and the kinds of relations of a whole graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ku_rag.graph.model import Attributes, Entity, Graph, Step
from ku_rag.store.connection import Connection
from ku_rag.types import Serializable


@dataclass(frozen=True, slots=True)
class EntityView:
    """An entity with its attributes, the first relations in both directions, and counts of all."""

    entity: Entity
    attributes: Attributes
    counts: Mapping[str, int]
    out: tuple[Step, ...]
    into: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that `ku graph show --json` prints."""
        attributes = self.attributes
        return {
            "id": self.entity.unit,
            "name": self.entity.name,
            "kind": self.entity.kind,
            "topic": attributes.topic,
            "aliases": list(attributes.aliases),
            "caption": attributes.caption,
            "machine_captions": dict(attributes.captions),
            "text": attributes.text,
            "images": [str(path) for path in attributes.images],
            "videos": list(attributes.videos),
            "metadata": dict(attributes.metadata),
            "counts": dict(self.counts),
            "out": [_relation(step, "tail", step.tail) for step in self.out],
            "in": [_relation(step, "head", step.head) for step in self.into],
        }


def _relation(step: Step, key: str, end: Entity) -> dict[str, Any]:
    notes = {"information": step.information, "condition": step.condition}
    return {
        "relation": step.relation,
        key: {"id": end.unit, "name": end.name, "kind": end.kind},
        **{name: note for name, note in notes.items() if note},
    }


def show(graph: Graph, entity: Entity, *, most: int) -> EntityView:
    """Return an entity with its attributes and at most so many relations in each direction."""
    [counts] = graph.connection.execute(
        "SELECT (SELECT count(*) FROM relations WHERE head = ?1), "
        "(SELECT count(*) FROM relations WHERE tail = ?1)",
        (entity.row,),
    )
    return EntityView(
        entity=entity,
        attributes=graph.attributes(entity),
        counts=dict(zip(("out", "in"), counts, strict=True)),
        out=tuple(graph.hop(entity, most)),
        into=tuple(graph.hop(entity, most, direction="in")),
    )


@dataclass(frozen=True, slots=True)
class RelationSchema(Serializable):
    """The number of relations of one word, and the kinds of the entities at their ends."""

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
