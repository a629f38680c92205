"""One entity as it is shown: its attributes, and its relations in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ku_rag.graph.model import CAPTION, MACHINE_CAPTION, TOPIC, VIDEOS, Attributes, Entity, Graph
from ku_rag.store.connection import Connection
from ku_rag.store.unit_records import fields_of, known_row

_ENDS = {"out": ("head", "tail"), "in": ("tail", "head")}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A relation of an entity, as it is shown: the word, the other end and its notes.

    Args:
        relation: the word.
        other: name of the other end.
        other_id: id of the unit that it is, or None.
        other_kind: its kind; None where the relation's end is not resolved.
        information: more about the relation, or None.
        condition: when it holds, or None.
    """

    relation: str
    other: str
    other_id: str | None
    other_kind: str | None
    information: str | None
    condition: str | None

    def to_dict(self, end: str) -> dict[str, Any]:
        """One relation of what `ku graph show --json` prints; `end` is "head" or "tail"."""
        notes = {"information": self.information, "condition": self.condition}
        return {
            "relation": self.relation,
            end: {"id": self.other_id, "name": self.other, "kind": self.other_kind},
            **{key: note for key, note in notes.items() if note is not None},
        }


@dataclass(frozen=True, slots=True)
class EntityView:
    """What is known of an entity.

    Args:
        entity: id, name and kind.
        attributes: what it brings.
        aliases: further names.
        videos: paths or addresses.
        metadata: what else its unit declares.
        counts: numbers of all relations "out" and "in".
        out: relations that start at it, at most so many as were asked for.
        into: relations that end at it, likewise.
    """

    entity: Entity
    attributes: Attributes
    aliases: tuple[str, ...]
    videos: tuple[str, ...]
    metadata: Mapping[str, Any]
    counts: Mapping[str, int]
    out: tuple[Neighbour, ...]
    into: tuple[Neighbour, ...]

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku graph show --json` prints."""
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
            "out": [one.to_dict("tail") for one in self.out],
            "in": [one.to_dict("head") for one in self.into],
        }


def show(connection: Connection, graph: Graph, entity: Entity, *, most: int) -> EntityView:
    """What is known of an entity.

    Args:
        connection: to one state of the store.
        graph: of it.
        entity: of it.
        most: relations listed in each direction.

    Raises:
        Corrupt: the store is damaged.
    """
    aliases, metadata = (), {}
    if entity.unit is not None:
        fields = fields_of(connection, known_row(connection, entity.unit))
        aliases, metadata = tuple(json.loads(fields[3])), json.loads(fields[4])
    videos = metadata.pop(VIDEOS) if isinstance(metadata.get(VIDEOS), list) else ()
    counts = {
        way: connection.execute(
            f"SELECT count(*) FROM relations WHERE {here} = ?", (entity.row,)
        ).fetchone()[0]
        for way, (here, _) in _ENDS.items()
    }
    return EntityView(
        entity=entity,
        attributes=graph.attributes(entity),
        aliases=aliases,
        videos=tuple(videos),
        metadata={key: value for key, value in metadata.items() if not _is_shown(key)},
        counts=counts,
        out=_neighbours(connection, entity, "out", most),
        into=_neighbours(connection, entity, "in", most),
    )


def _is_shown(key: str) -> bool:
    return key in (TOPIC, CAPTION) or key.startswith(MACHINE_CAPTION)


def _neighbours(
    connection: Connection, entity: Entity, way: str, most: int
) -> tuple[Neighbour, ...]:
    here, there = _ENDS[way]
    listed = []
    for name, kind, unit, relation, target, information, condition in connection.execute(
        "SELECT o.name, o.kind, u.id, r.relation, r.target, r.information, r.condition "
        "FROM relations r "
        f"LEFT JOIN entities o ON o.row = r.{there} LEFT JOIN units u ON u.row = o.unit "
        f"WHERE r.{here} = ? ORDER BY r.row LIMIT ?",
        (entity.row, most),
    ):
        other = target if name is None else name
        listed.append(Neighbour(relation, other, unit, kind, information, condition))
    return tuple(listed)
