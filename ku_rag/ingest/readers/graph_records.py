"""Entities and relations of graph files, and graphs as JSON lines.

{"entity": "Zinogre", "kind": "monster", "topic": true, "images": ["zinogre.png"]}
{"head": "Zinogre", "relation": "attack of", "tail": "Bite", "condition": "when enraged"}

An entity is a unit record with some more fields. A relation may come before the entities that it
joins, so a file is held in memory, about 500 bytes for each relation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.graph.model import CAPTION, TOPIC, VIDEOS
from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.jsonl import read_objects
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.ingest.readers.records import checked_field, read_field, read_record, read_texts
from ku_rag.picture_paths import locate_picture
from ku_rag.types import Quarantined, Record, Source, Unit

ENTITY_FIELDS = frozenset(
    {"entity", "id", "kind", "topic", "aliases", "caption", "text", "texts", "images", "videos"}
    | {"keyframes", "unit", "metadata", "match"}
)
"""The fields of an entity; fields of other names become metadata."""

_EXPECTED = 'expected {"entity": …} or {"head": …, "relation": …, "tail": …} on one line'


class RelationRecord(NamedTuple):
    """A relation as a file states it; a tail with a kind may be an entity that has only a name."""

    head: str
    relation: str
    tail: str
    information: str | None = None
    condition: str | None = None
    tail_kind: str | None = None


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """An entity as a file describes it.

    Args:
        same_as: Id or name of the unit of the knowledge base that the entity is, or None.
        match: Whether its names are searched for in texts; None: only if it is a topic.
        videos: Paths of videos; frames are taken from them if the entity has no picture.
    """

    unit: Unit
    source: Source
    same_as: str | None = None
    topic: bool = False
    match: bool | None = None
    videos: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id that the file gives it, by default its name."""
        return self.unit.id or self.unit.name


@dataclass(slots=True)
class GraphPart:
    """The contents of one graph file, or of the workbooks of one sub-graph.

    Args:
        path: The file that describes the entities; pictures are relative to its folder.
        scope: Name of the sub-graph; names are valid inside it. None for a whole graph.
        has_ids: Whether the file gives ids to entities, so that relations may use them.
        complete: Whether everything could be read. Only then are sources deleted that the file no
            longer contains.
    """

    path: Path
    relations_path: Path
    scope: str | None = None
    has_ids: bool = True
    entities: dict[str, EntityRecord] = field(default_factory=dict)
    relations: list[RelationRecord] = field(default_factory=list)
    problems: list[Quarantined] = field(default_factory=list)
    complete: bool = True

    def leave_out(self, where: str, reason: str, *, unread: bool = False) -> None:
        """Report an item ("file:line"); one that could not be read leaves the file incomplete."""
        self.problems.append(Quarantined(where, reason))
        self.complete = self.complete and not unread

    def add_entity(self, data: Mapping[str, Any], where: str) -> str | None:
        """Add an entity; return its id, or None if it is left out."""
        try:
            entity, problems = read_entity(data, self.path, where)
        except BadInput as error:
            self.leave_out(where, str(error), unread=True)
            return None
        if entity.id in self.entities:
            self.leave_out(
                where,
                f"entity {entity.id!r} is described more than once: the first description is "
                "kept; give every entity an id of its own",
            )
            return None
        self.entities[entity.id] = entity
        self.problems += problems
        return entity.id

    def add_relation(self, data: Mapping[str, Any], where: str) -> None:
        """Add a relation, or report why it is left out."""
        try:
            self.relations.append(read_relation(data))
        except BadInput as error:
            self.leave_out(where, str(error), unread=True)


def read_entity(
    data: Mapping[str, Any], path: Path, where: str
) -> tuple[EntityRecord, list[Quarantined]]:
    """Return the entity of an object, and what is wrong with parts of it; see docs/graph.md."""
    metadata = {key: value for key, value in data.items() if key not in ENTITY_FIELDS}
    metadata |= checked_field(data, "metadata", dict, {}, "an object in curly brackets")
    problems = []
    try:
        read_texts(metadata, VIDEOS)
    except BadInput as error:
        problems.append(str(error))
        del metadata[VIDEOS]
    videos = []
    for name in checked_field(data, "videos", list, [], "a list of texts"):
        try:
            videos.append(str(locate_picture(path.parent, arguments.text(name, "a video"))))
        except BadInput as error:
            problems.append(f'"videos" {error}')
    topic = checked_field(data, "topic", bool, False, "true or false")
    caption = read_field(data, "caption") or ""
    metadata |= {TOPIC: True} if topic else {}
    metadata |= {CAPTION: caption} if caption else {}
    metadata |= {VIDEOS: videos} if videos else {}
    same_as = read_field(data, "unit")
    fields = {
        "name": _name(data, "entity"),
        "id": None if data.get("id") is None else _name(data, "id"),
        "images": read_texts(data, "images") + read_texts(data, "keyframes"),
        "metadata": metadata,
        **{key: data.get(key) for key in ("kind", "aliases", "text", "texts", "match")},
    }
    try:
        items = list(read_record(fields, path, where))
    except BadInput as error:
        # Metadata that cannot be stored are no reason to lose the entity and its relations.
        items = list(read_record({**fields, "metadata": {}}, path, where))
        problems.append(str(error))
    [(unit, source)] = [
        (item.unit, item.sources[0]) for item in items if isinstance(item, Record) and item.unit
    ]
    entity = EntityRecord(
        unit, source, clean_name(same_as or "") or None, topic, data.get("match"), tuple(videos)
    )
    unread = [item for item in items if isinstance(item, Quarantined)]
    return entity, unread + [
        Quarantined(where, f"{problem}; the rest of the record is kept") for problem in problems
    ]


def read_relation(data: Mapping[str, Any]) -> RelationRecord:
    """Read the fields of a relation; see `RelationRecord`."""
    ends = _name(data, "head"), _name(data, "relation"), _name(data, "tail")
    if len(data) == 3:
        return RelationRecord(*ends)
    information, condition, kind = (
        read_field(data, key) or None for key in ("information", "condition", "tail_kind")
    )
    return RelationRecord(*ends, information, condition, clean_name(kind or "") or None)


def read_graph_jsonl(path: Path, parsing: Parsing) -> list[GraphPart]:
    """Read a graph as JSON lines; lines that cannot be read are left out."""
    part = GraphPart(path, path)
    fields = set(RelationRecord._fields)
    for where, data in read_objects(path, _EXPECTED):
        parsing.advance()
        if isinstance(data, BadInput):
            part.leave_out(where, str(data), unread=True)
        elif "head" not in data:
            part.add_entity(data, where)
        else:
            part.add_relation(data, where)
            if len(data) > 3 and (unknown := data.keys() - fields):
                part.leave_out(
                    where,
                    f"a relation has no field {min(unknown)[:40]!r}, only "
                    f"{', '.join(RelationRecord._fields)}: the field is ignored, here and below",
                )
                fields |= unknown
    return [part]


@lru_cache(maxsize=1 << 16)  # The relations of a graph repeat few names.
def named(text: str, what: str) -> str:
    """Return a text as a clean name; `what` is what messages call it."""
    return arguments.name(clean_name(text), what)


def _name(data: Mapping[str, Any], key: str) -> str:
    if (name := read_field(data, key)) is not None:
        return named(name, f'"{key}"')
    seen = "is null" if key in data else "is missing"
    fields = ", ".join(repr(str(other)[:40]) for other in list(data)[:8]) or "no fields"
    raise BadInput(f'"{key}" {seen}: expected a name; there are {fields}')
