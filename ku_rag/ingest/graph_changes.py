"""Entities and relations that are added or deleted one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ku_rag.errors import BadInput, NotFound
from ku_rag.graph.model import CAPTION, Entity, Graph
from ku_rag.ingest import deletion
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.pipeline import Pipeline
from ku_rag.store.content_rows import content_hash
from ku_rag.store.relations import ANY_KIND
from ku_rag.store.unit_records import hint, known_row, unit_row
from ku_rag.types import Deleted, IngestReport, Record, Relation, Serializable, Source, Unit

_RELATION = "relation:"
"""Begins the uris of sources that state one relation that was added by itself."""
_ENTITY = "entity:"
"""Begins the uris of sources that describe an entity that was added by itself."""


@dataclass(frozen=True, slots=True)
class EntityAdded(Serializable):
    """What became of an entity that was added.

    Args:
        action: "added" or "joined".
        kept: "kind" or "caption", where other sources state it differently and theirs stays.
    """

    id: str
    action: str
    chunks: int
    images: int
    kept: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RelationAdded(Serializable):
    """A relation as it is stored; `added` is False if it was stated before."""

    head: str
    relation: str
    tail: str
    added: bool


def add_entity(pipeline: Pipeline, graph: Graph, entity: Unit, same_as: str | None) -> EntityAdded:
    """Add an entity, which may be an existing unit by id or name; see `GraphView.add_entity`.

    Raises:
        NotFound: There is no such unit.
        BadInput: The name means several entities, or a picture is broken.
    """
    connection = graph.connection
    if same_as is not None:
        existing = _unit_called(graph, same_as)
        if existing is None:
            raise NotFound(f"there is no unit {same_as!r}: {hint(connection, same_as)}")
    elif entity.id is None:
        existing = _unit_called(graph, entity.name)
    else:
        existing = entity.id if unit_row(connection, entity.id) is not None else None
    unit_id = existing or entity.id or entity.name
    uri = f"{_ENTITY}{unit_id}"
    stored = connection.execute("SELECT declared FROM sources WHERE uri = ?", (uri,)).fetchone()
    before = Declaration.from_json(stored[0]) if stored else Declaration(match=False)
    name = before.name or entity.name
    names = dict.fromkeys((*(before.aliases or ()), entity.name, *entity.aliases))
    added = IngestReport()
    if entity.texts or entity.images:
        # First: a broken picture is reported before anything is stored.
        content = Source(f"{uri}/", entity.texts, entity.images)
        added = _put(pipeline, Unit(name, id=unit_id), content)
    stated = Unit(
        name,
        id=unit_id,
        kind=entity.kind or before.kind,
        aliases=tuple(alias for alias in names if alias != name),
        metadata={**(before.metadata or {}), **entity.metadata},
        match=entity.match or before.match or existing is not None,
    )
    _put(pipeline, stated, Source(uri))
    (now,) = graph.find(unit_id)
    wanted = {"kind": entity.kind, "caption": entity.metadata.get(CAPTION)}
    kept = {"kind": now.kind, "caption": graph.attributes(now).caption}
    return EntityAdded(
        id=unit_id,
        action="joined" if existing else "added",
        chunks=added.chunks_added,
        images=added.images_added,
        kept={key: kept[key] for key, value in wanted.items() if value and value != kept[key]},
    )


def add_relation(pipeline: Pipeline, graph: Graph, relation: Relation, head: str) -> RelationAdded:
    """Add a relation; a head that is new is added as well. See `GraphView.add_relation`.

    Raises:
        BadInput: A name means several entities.
    """
    tail, start = _one(graph, relation.target), _one(graph, head)
    if start.unit is None:
        unit = Unit(start.name, id=head, kind=start.kind, match=False)
        add_entity(pipeline, graph, unit, None)
        start = graph.entity(head)
        tail = start if relation.target == head else tail
    target = tail.unit or tail.name
    stated = replace(relation, target=target, target_kind=None if tail.unit else tail.kind)
    fields = (stated.relation, target, stated.information or "", stated.condition or "")
    uri = f"{_RELATION}{start.unit}/{content_hash(chr(31).join(fields))[:16]}"
    report = _put(pipeline, Unit(start.name, id=start.unit, relations=(stated,)), Source(uri))
    return RelationAdded(str(start.unit), stated.relation, target, bool(report.relations_added))


def delete_entity(pipeline: Pipeline, graph: Graph, name: str) -> Deleted:
    """Delete an entity and every relation of it.

    Raises:
        NotFound: there is no such entity.
        BadInput: the name means several.
    """
    entity = graph.entity(name)
    if entity.unit is None:
        rows = graph.connection.column("SELECT row FROM relations WHERE tail = ?", (entity.row,))
        return _delete_relations(pipeline, rows)
    with pipeline.writer.change() as connection:
        unit = known_row(connection, entity.unit)
        return deletion.delete_units(connection, [unit])


def delete_relation(
    pipeline: Pipeline,
    graph: Graph,
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
    start = graph.entity(head)
    several = None
    try:
        end = _one(graph, tail).row
    except BadInput as error:
        end, several = 0, error
    rows = [
        row
        for row, aim, target, when in graph.connection.execute(
            "SELECT row, tail, target, condition FROM relations WHERE head = ? AND relation = ?",
            (start.row, relation),
        )
        if (target == tail or end == aim) and (condition is None or condition == (when or None))
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
        return deletion.delete_relations(connection, rows, single=_RELATION)


def _one(graph: Graph, name: str) -> Entity:
    """Return the entity of a name, which must be unique; row 0 if there is none yet."""
    return graph.entity(name) if graph.find(name) else Entity(0, name, ANY_KIND)


def _unit_called(graph: Graph, name: str) -> str | None:
    """Return the id of the unit of a name, which must be unique; None if there is none."""
    return graph.entity(name).unit if any(entity.unit for entity in graph.find(name)) else None


def _put(pipeline: Pipeline, unit: Unit, source: Source) -> IngestReport:
    """Store what one source states of a unit; the hash completes a uri that ends in "/"."""
    prepared = pipeline.encode(Record(unit, (source,)), "add")
    if source.uri.endswith("/"):
        (stored,) = prepared.sources
        stored.uri += content_hash(stored.digest)[:16]
    return pipeline.put(prepared)
