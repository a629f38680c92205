"""Entities and relations of graph files, and graphs as JSON lines.

{"entity": "Zinogre", "kind": "monster", "topic": true, "images": ["zinogre.png"]}
{"head": "Zinogre", "relation": "attack of", "tail": "Bite", "condition": "when enraged"}

An entity is a unit record with some more fields. A relation may come before the entities that it
joins, so a file is held in memory, about 500 bytes for each relation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.graph.model import CAPTION, TOPIC, VIDEOS
from ku_rag.ingest.readers.jsonl import read_objects
from ku_rag.ingest.readers.records import describe_value, read_record
from ku_rag.pictures import locate_picture
from ku_rag.types import Quarantined, Record, Source, Unit

Progress = Callable[[int], None]

ENTITY_FIELDS = frozenset(
    {"entity", "id", "kind", "topic", "aliases", "caption", "text", "texts", "images", "videos"}
    | {"keyframes", "unit", "metadata", "match"}
)
"""The fields of an entity; fields of other names become metadata."""

PROGRESS_STEP = 4096
"""Progress is reported each time that this many entities and relations have been read."""

_EXPECTED = 'expected {"entity": …} or {"head": …, "relation": …, "tail": …} on one line'
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]+")

T = TypeVar("T")


class RelationRecord(NamedTuple):
    """A relation as a file states it.

    Args:
        head: Id or name of the entity at which the relation starts.
        relation: The word of the relation.
        tail: Id or name of the entity at which it ends.
        information: More about it.
        condition: When it holds.
        tail_kind: If given, the tail is an entity of this kind that has only a name, unless a unit
            of this kind has the name.
    """

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
        unit: Its declaration, without relations.
        source: Its texts and pictures.
        same_as: Id or name of the unit of the knowledge base that the entity is, or None.
        topic: Whether a question may be about it as a whole.
        match: Whether its names are searched for in texts; None: only if it is a topic.
        videos: Paths of videos; frames are taken from them if the entity has no picture.
    """

    unit: Unit
    source: Source
    same_as: str | None = None
    topic: bool = False
    match: bool | None = None
    videos: tuple[str, ...] = ()


@dataclass(slots=True)
class GraphPart:
    """The contents of one graph file, or of the workbooks of one sub-graph.

    Args:
        path: The file that describes the entities; pictures are relative to its folder.
        relations_path: The file that states the relations.
        scope: Name of the sub-graph; names are valid inside it. None for a whole graph.
        has_ids: Whether the file gives ids to entities, so that relations may use them.
        entities: By id.
        relations: In the order of the file.
        problems: What was left out.
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
        """Report an item that is left out.

        Args:
            where: File and line.
            reason: One sentence.
            unread: Whether the item could not be read, so that the file is incomplete.
        """
        self.problems.append(Quarantined(where, reason))
        self.complete = self.complete and not unread

    def add_entity(self, data: Mapping[str, Any], where: str) -> str | None:
        """Add an entity; return its id, or None if it is left out."""
        try:
            entity, problems = read_entity(data, self.path, where)
        except BadInput as error:
            self.leave_out(where, str(error), unread=True)
            return None
        entity_id = entity.unit.id or entity.unit.name
        if entity_id in self.entities:
            self.leave_out(
                where,
                f"entity {entity_id!r} is described more than once: the first description is "
                "kept; give every entity an id of its own",
            )
            return None
        self.entities[entity_id] = entity
        self.problems += problems
        return entity_id

    def add_relation(self, data: Mapping[str, Any], where: str) -> None:
        """Add a relation, or report why it is left out."""
        try:
            self.relations.append(read_relation(data))
        except BadInput as error:
            self.leave_out(where, str(error), unread=True)


def read_entity(
    data: Mapping[str, Any], path: Path, where: str
) -> tuple[EntityRecord, list[Quarantined]]:
    """Read the fields of an entity; see docs/graph.md.

    Args:
        data: The fields.
        path: The file; pictures and videos are relative to its folder.
        where: File and line, for reports.

    Returns:
        The entity, and what is wrong with parts of it.

    Raises:
        BadInput: The whole entity is wrong.
    """
    metadata = {key: value for key, value in data.items() if key not in ENTITY_FIELDS}
    metadata |= _field(data, "metadata", dict, "an object in curly brackets") or {}
    problems = []
    if VIDEOS in metadata and not is_list_of_texts(metadata[VIDEOS]):
        seen = describe_value(metadata.pop(VIDEOS))
        problems.append(f'"videos" is {seen}: expected a list of texts')
    videos = []
    for name in _field(data, "videos", list, "a list of texts") or ():
        try:
            videos.append(str(locate_picture(path.parent, arguments.text(name, "a video"))))
        except BadInput as error:
            problems.append(f'"videos" {error}')
    topic = _field(data, "topic", bool, "true or false") is True
    caption = _field(data, "caption", str, "a text") or ""
    metadata |= {TOPIC: True} if topic else {}
    metadata |= {CAPTION: caption} if caption else {}
    metadata |= {VIDEOS: videos} if videos else {}
    shown = [_field(data, key, list, "a list of texts") or [] for key in ("images", "keyframes")]
    same_as = _field(data, "unit", str, "a text")
    fields = {
        "name": _name(data, "entity"),
        "id": None if data.get("id") is None else _name(data, "id"),
        "kind": _clean_value(data.get("kind")),
        "aliases": _clean_value(data.get("aliases")),
        "images": [*shown[0], *shown[1]],
        "metadata": metadata,
        **{key: data[key] for key in ("text", "texts", "match") if key in data},
    }
    try:
        items = list(read_record(fields, path, where))
    except BadInput as error:
        # Metadata that cannot be stored are no reason to lose the entity and its relations.
        items = list(read_record({**fields, "metadata": {}}, path, where))
        problems.append(str(error))
    [(unit, source)] = [
        (one.unit, one.sources[0]) for one in items if isinstance(one, Record) and one.unit
    ]
    entity = EntityRecord(
        unit, source, clean(same_as or "") or None, topic, data.get("match"), tuple(videos)
    )
    found = [one for one in items if isinstance(one, Quarantined)]
    return entity, found + [
        Quarantined(where, f"{one}; the rest of the record is kept") for one in problems
    ]


def read_relation(data: Mapping[str, Any]) -> RelationRecord:
    """Read the fields of a relation; see `RelationRecord`.

    Raises:
        BadInput: A field is missing, empty or of another type.
    """
    ends = _name(data, "head"), _name(data, "relation"), _name(data, "tail")
    if len(data) == 3:
        return RelationRecord(*ends)
    information = _field(data, "information", str, "a text") or None
    condition = _field(data, "condition", str, "a text") or None
    kind = clean(_field(data, "tail_kind", str, "a text") or "") or None
    return RelationRecord(*ends, information, condition, kind)


def read_graph_jsonl(path: Path, progress: Progress | None = None) -> GraphPart:
    """Read a graph as JSON lines; lines that cannot be read are left out.

    Args:
        path: Resolved; pictures and videos are relative to its folder.
        progress: Called with the number of lines read so far.

    Raises:
        BadInput: The file is not in UTF-8.
        OSError: It cannot be read.
    """
    part = GraphPart(path, path)
    known = set(RelationRecord._fields)
    for number, (where, data) in enumerate(read_objects(path, _EXPECTED), 1):
        if progress and not number % PROGRESS_STEP:
            progress(number)
        if isinstance(data, BadInput):
            part.leave_out(where, str(data), unread=True)
        elif "head" not in data:
            part.add_entity(data, where)
        else:
            part.add_relation(data, where)
            if len(data) > 3 and (unknown := data.keys() - known):
                part.leave_out(
                    where,
                    f"a relation has no field {min(unknown)[:40]!r}, only "
                    f"{', '.join(RelationRecord._fields)}: the field is ignored, here and below",
                )
                known |= unknown
    return part


def clean(name: str) -> str:
    """Return a name with composed characters, single spaces and no control characters."""
    if name.isascii() and name.isprintable() and "  " not in name:
        return name.strip()
    return " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", name)).split())


@lru_cache(maxsize=1 << 16)  # The relations of a graph repeat few names.
def named(text: str, what: str) -> str:
    """Return a text as a clean name.

    Args:
        text: The text.
        what: What messages call it.

    Raises:
        BadInput: The name is blank or too long.
    """
    return arguments.name(clean(text), what)


def is_list_of_texts(value: object) -> bool:
    """Return whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _name(data: Mapping[str, Any], key: str) -> str:
    if (found := _field(data, key, str, "a text")) is not None:
        return named(found, f'"{key}"')
    seen = "is null" if key in data else "is missing"
    fields = ", ".join(repr(str(one)[:40]) for one in list(data)[:8]) or "no fields"
    raise BadInput(f'"{key}" {seen}: expected a name; there are {fields}')


def _field(data: Mapping[str, Any], key: str, kind: type[T], expected: str) -> T | None:
    """Return the value of a field, or None.

    Raises:
        BadInput: It is of another type.
    """
    value = data.get(key)
    if value is not None and not isinstance(value, kind):
        raise BadInput(f'"{key}" is {describe_value(value)}: expected {expected}')
    return value


def _clean_value(value: object) -> object:
    """Clean a text, or each of several; leave anything else to the reader of records."""
    if isinstance(value, list):
        return [_clean_value(one) for one in value]
    return clean(value) if isinstance(value, str) else value
