"""The graph: changed and looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag import arguments, pictures
from ku_rag.errors import BadInput, NotFound
from ku_rag.knowledge_base.graph_files import GraphFiles
from ku_rag.types import IngestReport, Record, Relation, Source, Unit

if TYPE_CHECKING:
    from ku_rag.graph.model import Entity
    from ku_rag.ingest.pipeline import Pipeline

_BY_HAND = "relation:"
"""Begins the uris of sources that state one relation, as it was added."""
_DESCRIBED = "entity:"
"""Begins the uris of sources that describe an entity, as it was added."""
_MOST = 1_000_000
_LONGEST = 20


class Graphing(GraphFiles):
    """What is done with entities and their relations."""

    def graph_add(
        self,
        name: str | None = None,
        *,
        id: str | None = None,
        kind: str | None = None,
        topic: bool = False,
        caption: str = "",
        texts: Sequence[str] = (),
        images: Sequence[str | Path] = (),
        aliases: Sequence[str] = (),
        unit: str | None = None,
        relation: tuple[str, str, str] | None = None,
        information: str | None = None,
        condition: str | None = None,
    ) -> dict[str, Any]:
        """Add an entity, or to what was added of it before; or a relation between two.

        Without an id an entity joins the unit that bears its name, if one does. A mere name that
        is told by its kind, `Bath (city)`, becomes a unit of that name and kind. A relation may
        start at an entity that is new, which is made, and end at a name that nobody bears.

        Args:
            name: of the entity.
            id: its identity; by default its name.
            kind: monster, attack …
            topic: whether a question may be about it as a whole.
            caption: of its pictures, by people.
            texts: what else is known.
            images: picture files.
            aliases: further names.
            unit: id or name of a unit that it is.
            relation: (head, relation, tail), ids or names, instead of an entity.
            information: more about the relation.
            condition: when it holds.

        Returns:
            Of an entity its "id", the "action" (added or joined), the numbers of "chunks" and
            "images" that it brought, and what was "kept" as others say it, "kind" or "caption";
            of a relation "head", "relation", "tail" and "added", False if it was stated before.

        Raises:
            NotFound: there is no such unit, or a picture is not there.
            BadInput: neither or both were given, a name means several, or a picture is broken.
            Locked: another process is writing.
        """
        from ku_rag.graph.graph_records import clean, named

        topic = arguments.flag(topic, "topic")
        described: dict[str, object] = {"id": id, "kind": kind, "topic": topic, "unit": unit}
        described |= {"caption": caption, "texts": texts, "images": images, "aliases": aliases}
        notes = {"information": information, "condition": condition}
        notes = {key: arguments.optional_text(one, key) for key, one in notes.items()}
        if relation is not None:
            _check(name, relation, described, "an entity")
            head, word, tail = (named(one, what) for one, what in _parts(relation))
            return self._relate(head, word, tail, notes["information"], notes["condition"])
        _check(name, relation, notes, "a relation")
        from ku_rag.graph.model import CAPTION, TOPIC
        from ku_rag.ingest.assembly import Declaration

        called = named(arguments.text(name, "the name"), "the name")
        own = None if id is None else named(arguments.text(id, "the id"), "the id")
        kind = clean(arguments.optional_text(kind, "the kind") or "")
        caption = arguments.text(caption, "the caption")
        further = filter(None, map(clean, arguments.texts(aliases, "aliases")))
        found = None
        if unit is not None or own is None:
            found = self._unit_called(called if unit is None else unit, must=unit is not None)
        elif self._database.connection.execute(
            "SELECT 1 FROM units WHERE id = ?", (own,)
        ).fetchone():
            found = own
        pictures.check_files(shown := arguments.paths(images, "images"))
        unit_id = found or own or called
        first = called
        if not found and (told := self._told(called, kind)):
            first, kind = told.name, told.kind
            # With its name as id it would take the place of others that are called so.
            if own is None and self._graph.find(first) == [told]:
                unit_id = first
        brought = Source("", arguments.texts(texts, "texts"), shown)
        with self._write() as pipeline:
            connection = self._database.connection
            uri = f"{_DESCRIBED}{unit_id}"
            stored = connection.execute(
                "SELECT declared FROM sources WHERE uri = ?", (uri,)
            ).fetchone()
            before = Declaration.from_json(stored[0]) if stored else Declaration(match=False)
            first = before.name or first
            stated = Unit(
                first,
                id=unit_id,
                kind=kind or before.kind,
                aliases=tuple(
                    one
                    for one in dict.fromkeys((*(before.aliases or ()), called, *further))
                    if one != first
                ),
                metadata=dict(before.metadata or {})
                | ({TOPIC: True} if topic else {})
                | ({CAPTION: caption} if caption else {}),
                match=topic or before.match or found is not None,
            )
            counted = IngestReport()
            if brought.texts or brought.images:
                # First: a picture that is broken is said to be before anything is stored.
                counted = self._put(pipeline, Unit(first, id=unit_id), brought, f"{uri}/")
            self._put(pipeline, stated, Source(uri))
            self._write_caches()
            (entity,) = self._graph.find(unit_id)
            now = {"kind": entity.kind, "caption": self._graph.attributes(entity).caption}
        return {
            "id": unit_id,
            "action": "joined" if found else "added",
            "chunks": counted.chunks_added,
            "images": counted.images_added,
            "kept": {
                key: now[key]
                for key, given in (("kind", kind), ("caption", caption))
                if given and given != now[key]
            },
        }

    def graph_delete(
        self,
        name: str | None = None,
        *,
        relation: tuple[str, str, str] | None = None,
        condition: str | None = None,
    ) -> dict[str, list[Any]]:
        """Delete an entity with all that only it brought and every relation of it, or a relation.

        What a file states comes back when the file is imported again.

        Args:
            name: id or name of the entity.
            relation: (head, relation, tail); all that are stated so. Where several are called as
                the tail, only those that were stated with exactly this text.
            condition: of the relation: only those that hold then.

        Returns:
            As `delete`.

        Raises:
            NotFound: there is no such entity or relation.
            BadInput: neither or both were given, or a name means several.
            Locked: another process is writing.
        """
        from ku_rag.graph.graph_records import named
        from ku_rag.ingest import deletion
        from ku_rag.store.content_rows import Dropped

        condition = arguments.optional_text(condition, "condition")
        stray = relation is None and condition is not None
        _check(name, relation, {"condition": stray}, "a relation")
        connection = self._database.connection
        if name is not None:
            entity = self._graph.one(arguments.text(name, "the name"))
            if entity.unit is not None:
                return self.delete([entity.unit])
            rows = [
                row
                for (row,) in connection.execute(
                    "SELECT row FROM relations WHERE tail = ?", (entity.row,)
                )
            ]
        else:
            head, word, tail = (named(one, what) for one, what in _parts(relation))
            start = self._graph.one(head)
            several = None
            try:
                end = self._graph.one(tail).row
            except NotFound:
                end = None
            except BadInput as error:
                end, several = None, error
            rows = [
                row
                for row, aim, target, when in connection.execute(
                    "SELECT row, tail, target, condition FROM relations "
                    "WHERE head = ? AND relation = ?",
                    (start.row, word),
                ).fetchall()
                if (target == tail or (end is not None and end == aim))
                and (condition is None or condition == (when or None))
            ]
            if not rows and several:
                raise several
            if not rows:
                so = "" if condition is None else f" with the condition {condition!r}"
                raise NotFound(
                    f"no relation {head} —{word}→ {tail}{so} is stated: `ku graph show` lists "
                    "those of an entity; nothing was deleted"
                )
        dropped = Dropped()
        with self._write() as pipeline, pipeline.storing.change():
            deletion.unstate(connection, rows, pipeline.storing.inverted, dropped, by_hand=_BY_HAND)
        return dropped.to_dict()

    def graph_show(self, name: str, *, most: int = 100) -> dict[str, Any]:
        """What is known of an entity: what it brings, and its relations "out" and "in".

        Args:
            name: its id, name or alias.
            most: relations that are listed of each direction; "counts" has the number of all.

        Raises:
            NotFound: there is no such entity.
            BadInput: several are called so.
        """
        from ku_rag.graph import entity_view

        graph = self._graph
        entity = graph.one(arguments.text(name, "the name"))
        most = arguments.count(most, "most", least=0, most=_MOST)
        return entity_view.show(self._database.connection, graph, entity, most=most)

    def graph_paths(
        self, start: str, end: str | None = None, *, most: int = 10, longest: int = 4
    ) -> list[dict[str, Any]]:
        """The shortest paths between two entities, or all from one, shortest first.

        Args:
            start: id or name of the entity where they begin.
            end: where they end; None: anywhere.
            most: paths.
            longest: relations of a path.

        Returns:
            Of each path "ids" (None for what is but a name), "entities" (names), "relations",
            "information" and "conditions" of these (None where there is none), and "text".

        Raises:
            NotFound: there is no such entity.
            BadInput: several are called so.
        """
        from ku_rag.graph import shortest_paths
        from ku_rag.store.database import snapshot

        connection, graph = self._database.connection, self._graph
        with snapshot(connection):
            begins = graph.one(arguments.text(start, "the start"))
            ends = None if end is None else graph.one(arguments.text(end, "the end"))
            found = shortest_paths.shortest(
                connection,
                graph,
                begins,
                ends,
                most=arguments.count(most, "most", least=1, most=_MOST),
                longest=arguments.count(longest, "longest", least=1, most=_LONGEST),
            )
        return [
            {
                "ids": [entity.unit for entity in path.entities],
                "entities": [entity.name for entity in path.entities],
                "relations": [step.relation for step in path.steps],
                "information": [step.information or None for step in path.steps],
                "conditions": [step.condition or None for step in path.steps],
                "text": path.text,
            }
            for path in found
        ]

    # ---- inside --------------------------------------------------------------------------------

    def _unit_called(self, name: str, *, must: bool) -> str | None:
        """The id of the unit that a name means; None if there is none and none must be."""
        found = self._graph.find(arguments.text(name, "the unit"))
        units = [one.unit for one in found if one.unit is not None]
        if len(units) > 1:
            return self._graph.one(name).unit
        if must and not units:
            raise NotFound(f"there is no unit {name!r}: `ku list` prints the ids")
        return units[0] if units else None

    def _told(self, name: str, kind: str) -> Entity | None:
        """The mere name that another name means together with its kind, unless this is another."""
        from ku_rag.text.tokens import name_key

        for one in self._graph.find(name):
            if one.unit is None and name_key(one.name) != name_key(name):
                return one if kind in ("", one.kind) else None
        return None

    def _relate(
        self, head: str, word: str, tail: str, information: str | None, condition: str | None
    ) -> dict[str, Any]:
        from ku_rag.graph import name_resolution
        from ku_rag.store.content_rows import content_hash

        graph = self._graph
        ends, started = (
            [graph.one(name)] if len(found := graph.find(name)) > 1 else found
            for name in (tail, head)
        )
        aim: tuple[str, str | None] = (tail, name_resolution.ONLY_NAMED)
        if ends:
            aim = _aim(ends[0])
        if not started or started[0].unit is None:
            made = self.graph_add(head, kind=started[0].kind if started else None)
            started = [graph.one(made["id"])]
        start = started[0]
        target, kind = aim if tail != head else _aim(start)
        stated = Relation(word, target, kind, information or None, condition or None)
        said = (word, target, information or "", condition or "")
        uri = f"{_BY_HAND}{start.unit}/{content_hash(chr(31).join(said))[:16]}"
        unit = Unit(start.name, id=start.unit, relations=(stated,))
        with self._write() as pipeline:
            report = self._put(pipeline, unit, Source(uri))
        return {
            "head": start.unit,
            "relation": word,
            "tail": target,
            "added": bool(report.relations_added),
        }

    @staticmethod
    def _put(
        pipeline: Pipeline, unit: Unit, source: Source, hashed: str | None = None
    ) -> IngestReport:
        """Store what one source says of a unit.

        Args:
            pipeline: stores it.
            unit: its declaration, with relations.
            source: its texts and pictures, and its uri, if that is known;
            hashed: otherwise how the uri begins: the same content comes from the same source.

        Raises:
            BadInput: a picture is broken.
        """
        from ku_rag.ingest.preparation import prepare
        from ku_rag.store.content_rows import content_hash

        prepared = prepare(Record(unit, (source,)))
        if hashed is not None:
            one = prepared.sources[0]
            one.uri = f"{hashed}{content_hash(one.digest)[:16]}"
        if broken := pipeline.encode([prepared]):
            raise BadInput("; ".join(broken.values()))
        return pipeline.put(prepared, origin="add")


def _aim(entity: Entity) -> tuple[str, str | None]:
    """How a relation names its target: the id of a unit, or a name with its kind."""
    return (entity.name, entity.kind) if entity.unit is None else (entity.unit, None)


def _check(name: object, relation: object, others: Mapping[str, object], belongs_to: str) -> None:
    """Refuse neither or both, and what belongs to the other kind of thing.

    Raises:
        BadInput: there is something of it.
    """
    if (name is None) == (relation is None):
        raise BadInput("expected the name of an entity, or a relation: give one of them")
    if given := [key for key, value in others.items() if not _is_nothing(value)]:
        raise BadInput(f"{given[0]} belongs to {belongs_to}: leave it out")


def _is_nothing(value: object) -> bool:
    # Not by comparing: an array compares each of its parts.
    return value is None or (isinstance(value, bool | str | tuple | list) and not value)


def _parts(relation: object) -> list[tuple[str, str]]:
    """The three parts of a relation, with what each is called.

    Raises:
        BadInput: it is something else.
    """
    if isinstance(relation, Set):
        raise BadInput("relation is a set, which has no order: expected (head, relation, tail)")
    given = arguments.texts(relation, "relation")
    if len(given) != 3:
        raise BadInput(f"relation has {len(given)} parts: expected (head, relation, tail)")
    return list(zip(given, ("the head", "the relation", "the tail"), strict=True))
