"""Entities and relations that are added or deleted one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ku_rag.errors import BadInput, NotFound
from ku_rag.graph.model import CAPTION, TOPIC, Entity, Graph
from ku_rag.ingest import deletion
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.pipeline import Pipeline
from ku_rag.store.connection import Connection
from ku_rag.store.content_rows import content_hash
from ku_rag.store.relations import ANY_KIND
from ku_rag.store.unit_records import known_row, unit_row
from ku_rag.text.tokens import name_key
from ku_rag.types import Deleted, IngestReport, Record, Relation, Source, Unit

_RELATION = "relation:"
"""Begins the uris of sources that state one relation that was added by itself."""
_ENTITY = "entity:"
"""Begins the uris of sources that describe an entity that was added by itself."""


@dataclass(frozen=True, slots=True)
class EntityInput:
    """An entity to add; see `GraphView.add_entity`."""

    name: str
    id: str | None = None
    kind: str = ""
    topic: bool = False
    caption: str = ""
    texts: tuple[str, ...] = ()
    images: tuple[Path, ...] = ()
    aliases: tuple[str, ...] = ()
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class EntityAdded:
    """What became of an entity that was added.

    Args:
        id: the unit that it is.
        action: "added" or "joined".
        chunks: that it brought.
        images: that it brought.
        kept: "kind" or "caption", where other sources state it differently and theirs stays.
    """

    id: str
    action: str
    chunks: int
    images: int
    kept: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku graph add NAME --json` prints."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RelationAdded:
    """A relation as it is stored; `added` is False if the same was stated before."""

    head: str
    relation: str
    tail: str
    added: bool

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku graph add --relation --json` prints."""
        return asdict(self)


def add_entity(
    pipeline: Pipeline, graph: Graph, connection: Connection, entity: EntityInput
) -> EntityAdded:
    """Add an entity; see `GraphView.add_entity`.

    Raises:
        NotFound: there is no such unit.
        BadInput: the name means several entities, or a picture is broken.
    """
    name, own, kind = entity.name, entity.id, entity.kind
    if entity.unit is not None:
        found = _unit_called(graph, entity.unit)
        if found is None:
            raise NotFound(f"there is no unit {entity.unit!r}: `ku list` prints the ids")
    elif own is None:
        found = _unit_called(graph, name)
    else:
        found = own if unit_row(connection, own) is not None else None
    unit_id, first = found or own or name, name
    if not found and (single := _single(graph, name, kind)):
        first, kind = single.name, single.kind
        # With its name as its id it would replace others of that name.
        if own is None and graph.find(first) == [single]:
            unit_id = first
    uri = f"{_ENTITY}{unit_id}"
    said = connection.execute("SELECT declared FROM sources WHERE uri = ?", (uri,)).fetchone()
    before = Declaration.from_json(said[0]) if said else Declaration(match=False)
    first = before.name or first
    names = dict.fromkeys((*(before.aliases or ()), name, *entity.aliases))
    stated = Unit(
        first,
        id=unit_id,
        kind=kind or before.kind,
        aliases=tuple(one for one in names if one != first),
        metadata=dict(before.metadata or {})
        | ({TOPIC: True} if entity.topic else {})
        | ({CAPTION: entity.caption} if entity.caption else {}),
        match=entity.topic or before.match or found is not None,
    )
    counted = IngestReport()
    if entity.texts or entity.images:
        # First: a broken picture is reported before anything is stored.
        brought = Source(f"{uri}/", entity.texts, entity.images)
        counted = _put(pipeline, Unit(first, id=unit_id), brought)
    _put(pipeline, stated, Source(uri))
    (stored,) = graph.find(unit_id)
    now = {"kind": stored.kind, "caption": graph.attributes(stored).caption}
    given = {"kind": kind, "caption": entity.caption}
    return EntityAdded(
        id=unit_id,
        action="joined" if found else "added",
        chunks=counted.chunks_added,
        images=counted.images_added,
        kept={key: now[key] for key, one in given.items() if one and one != now[key]},
    )


def add_relation(
    pipeline: Pipeline, graph: Graph, connection: Connection, relation: Relation, head: str
) -> RelationAdded:
    """Add a relation; see `GraphView.add_relation`.

    Args:
        pipeline: stores it.
        graph: finds its ends.
        connection: to the store.
        relation: with the id or name of its tail, and without a kind.
        head: id or name of the entity where it starts, which is made if it is new.

    Raises:
        BadInput: a name means several entities.
    """
    end = _one(graph, relation.target)
    start = _one(graph, head)
    target, kind = _reference(end) if end else (relation.target, ANY_KIND)
    if start is None or start.unit is None:
        described = EntityInput(head, kind=start.kind if start else "")
        made = add_entity(pipeline, graph, connection, described)
        start = graph.one(made.id)
    if relation.target == head:
        target, kind = _reference(start)
    stated = Relation(
        relation.relation, target, kind, relation.information or None, relation.condition or None
    )
    fields = (stated.relation, target, stated.information or "", stated.condition or "")
    uri = f"{_RELATION}{start.unit}/{content_hash(chr(31).join(fields))[:16]}"
    report = _put(pipeline, Unit(start.name, id=start.unit, relations=(stated,)), Source(uri))
    return RelationAdded(str(start.unit), stated.relation, target, bool(report.relations_added))


def delete_entity(pipeline: Pipeline, graph: Graph, connection: Connection, name: str) -> Deleted:
    """Delete an entity and every relation of it.

    Raises:
        NotFound: there is no such entity.
        BadInput: the name means several.
    """
    entity = graph.one(name)
    if entity.unit is None:
        rows = connection.execute("SELECT row FROM relations WHERE tail = ?", (entity.row,))
        return _delete_relations(pipeline, [row for (row,) in rows])
    with pipeline.writer.change():
        unit = known_row(connection, entity.unit)
        dropped = deletion.delete_units(connection, [unit], pipeline.writer.inverted)
    return dropped.result()


def delete_relation(
    pipeline: Pipeline,
    graph: Graph,
    connection: Connection,
    head: str,
    relation: str,
    tail: str,
    condition: str | None,
) -> Deleted:
    """Delete all relations that are stated so; see `GraphView.delete`.

    Raises:
        NotFound: there is none.
        BadInput: the name of an end means several, and none is stated by exactly this tail.
    """
    start = graph.one(head)
    several = None
    try:
        end = _one(graph, tail)
    except BadInput as error:
        end, several = None, error
    rows = [
        row
        for row, aim, target, when in connection.execute(
            "SELECT row, tail, target, condition FROM relations WHERE head = ? AND relation = ?",
            (start.row, relation),
        )
        if (target == tail or (end is not None and end.row == aim))
        and (condition is None or condition == (when or None))
    ]
    if not rows and several:
        raise several
    if not rows:
        so = "" if condition is None else f" with the condition {condition!r}"
        raise NotFound(
            f"no relation {head} —{relation}→ {tail}{so} is stated: `ku graph show` lists "
            "those of an entity; nothing was deleted"
        )
    return _delete_relations(pipeline, rows)


def _delete_relations(pipeline: Pipeline, rows: Sequence[int]) -> Deleted:
    with pipeline.writer.change() as connection:
        dropped = deletion.delete_relations(
            connection, rows, pipeline.writer.inverted, single=_RELATION
        )
    return dropped.result()


def _one(graph: Graph, name: str) -> Entity | None:
    """The entity that a name means, or None.

    Raises:
        BadInput: there are several.
    """
    return graph.one(name) if graph.find(name) else None


def _unit_called(graph: Graph, name: str) -> str | None:
    """The id of the unit that a name means, or None.

    Raises:
        BadInput: there are several.
    """
    units = [one.unit for one in graph.find(name) if one.unit is not None]
    return graph.one(name).unit if len(units) > 1 else next(iter(units), None)


def _single(graph: Graph, name: str, kind: str) -> Entity | None:
    """The mere name that `name` means together with its kind, as in `Bath (city)`."""
    for one in graph.find(name):
        if one.unit is None and name_key(one.name) != name_key(name):
            return one if kind in ("", one.kind) else None
    return None


def _reference(entity: Entity) -> tuple[str, str | None]:
    """How a relation names its target: the id of a unit, or a name with its kind."""
    return (entity.name, entity.kind) if entity.unit is None else (entity.unit, None)


def _put(pipeline: Pipeline, unit: Unit, source: Source) -> IngestReport:
    """Store what one source says of a unit; a uri that ends in "/" is completed by the content.

    Raises:
        BadInput: a picture is broken.
    """
    prepared = pipeline.encode(Record(unit, (source,)), "add")
    if source.uri.endswith("/"):
        (one,) = prepared.sources
        one.uri += content_hash(one.digest)[:16]
    return pipeline.put(prepared)
