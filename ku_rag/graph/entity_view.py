"""The attributes of an entity, and its relations in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ku_rag.graph.model import (
    CAPTION,
    MACHINE_CAPTION,
    TOPIC,
    VIDEOS,
    Attributes,
    Entity,
    Graph,
    Step,
)
from ku_rag.store.connection import Connection
from ku_rag.store.unit_records import fields_of, known_row


@dataclass(frozen=True, slots=True)
class EntityView:
    """An entity with its attributes and relations.

    Args:
        entity: The entity.
        attributes: Its topic mark, captions, texts and pictures.
        aliases: Further names.
        videos: Paths or addresses.
        metadata: Other metadata of its unit.
        counts: Numbers of all its relations, "out" and "in".
        out: The first relations that start at it.
        into: The first relations that end at it.
    """

    entity: Entity
    attributes: Attributes
    aliases: tuple[str, ...]
    videos: tuple[str, ...]
    metadata: Mapping[str, Any]
    counts: Mapping[str, int]
    out: tuple[Step, ...]
    into: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that `ku graph show --json` prints."""
        return {
            "id": self.entity.unit,
            "name": self.entity.name,
            "kind": self.entity.kind,
            "topic": self.attributes.topic,
            "aliases": list(self.aliases),
            "caption": self.attributes.caption,
            "machine_captions": dict(self.attributes.captions),
            "text": self.attributes.text,
            "images": [str(one) for one in self.attributes.images],
            "videos": list(self.videos),
            "metadata": dict(self.metadata),
            "counts": dict(self.counts),
            "out": [_relation(one, "tail", one.tail) for one in self.out],
            "in": [_relation(one, "head", one.head) for one in self.into],
        }


def _relation(step: Step, key: str, end: Entity) -> dict[str, Any]:
    notes = {"information": step.information, "condition": step.condition}
    return {
        "relation": step.relation,
        key: {"id": end.unit, "name": end.name, "kind": end.kind},
        **{name: note for name, note in notes.items() if note},
    }


def show(connection: Connection, graph: Graph, entity: Entity, *, most: int) -> EntityView:
    """Return an entity with its attributes and relations.

    Args:
        connection: To one state of the store.
        graph: The graph in this state.
        entity: The entity.
        most: Greatest number of relations in each direction.

    Raises:
        Corrupt: A row fails its checksum.
    """
    aliases, metadata = (), {}
    if entity.unit is not None:
        fields = fields_of(connection, known_row(connection, entity.unit))
        aliases, metadata = tuple(json.loads(fields[3])), json.loads(fields[4])
    videos = metadata.pop(VIDEOS) if isinstance(metadata.get(VIDEOS), list) else ()
    [counts] = connection.execute(
        "SELECT (SELECT count(*) FROM relations WHERE head = ?1), "
        "(SELECT count(*) FROM relations WHERE tail = ?1)",
        (entity.row,),
    )
    return EntityView(
        entity=entity,
        attributes=graph.attributes(entity),
        aliases=aliases,
        videos=tuple(videos),
        metadata={
            key: value
            for key, value in metadata.items()
            if key not in (TOPIC, CAPTION) and not key.startswith(MACHINE_CAPTION)
        },
        counts=dict(zip(("out", "in"), counts, strict=True)),
        out=tuple(graph.hop(entity, most)),
        into=tuple(graph.hop(entity, most, direction="in")),
    )
