"""The graph: changed and looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag import arguments, pictures
from ku_rag.errors import BadInput, NotFound
from ku_rag.knowledge_base.graph_files import GraphFiles
from ku_rag.types import IngestReport, Record, Relation, Source, Unit

if TYPE_CHECKING:
    from ku_rag.graph.mmkg import Entity
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

        Without an id an entity joins the unit that bears its name, if one does. A relation may
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
            Of an entity its "id", the "action" (added or joined) and the numbers of "chunks" and
            "images" that it brought; of a relation "head", "relation", "tail" and "added", False
            if it was stated before.

        Raises:
            NotFound: there is no such unit, or a picture is not there.
            BadInput: neither or both were given, a name means several, or a picture is broken.
            Locked: another process is writing.
        """
        if (name is None) == (relation is None):
            raise BadInput("expected the name of an entity, or a relation: give one of them")
        if relation is not None:
            head, word, tail = (
                arguments.identity(one, what)
                for one, what in zip(
                    relation, ("the head", "the relation", "the tail"), strict=True
                )
            )
            return self._relate(head, word, tail, information, condition)
        from ku_rag.graph.mmkg import CAPTION, TOPIC
        from ku_rag.ingest.assembly import Declaration

        named = arguments.identity(name, "the name")
        found = None
        if unit is not None or id is None:
            found = self._unit_called(named if unit is None else unit, must=unit is not None)
        elif self._database.connection.execute(
            "SELECT 1 FROM units WHERE id = ?", (id,)
        ).fetchone():
            found = id
        pictures.check_files(shown := arguments.paths(images, "images"))
        unit_id = found or id or named
        brought = Source("", arguments.texts(texts, "texts"), shown)
        with self._write() as pipeline:
            connection = self._database.connection
            uri = f"{_DESCRIBED}{unit_id}"
            stored = connection.execute(
                "SELECT declared FROM sources WHERE uri = ?", (uri,)
            ).fetchone()
            before = Declaration.from_json(stored[0]) if stored else Declaration(match=False)
            first = before.name or named
            described = Unit(
                first,
                id=unit_id,
                kind=kind or before.kind,
                aliases=tuple(
                    one
                    for one in dict.fromkeys((*(before.aliases or ()), named, *aliases))
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
            self._put(pipeline, described, Source(uri))
            self._write_caches()
        return {
            "id": unit_id,
            "action": "joined" if found else "added",
            "chunks": counted.chunks_added,
            "images": counted.images_added,
        }

    def graph_delete(
        self, name: str | None = None, *, relation: tuple[str, str, str] | None = None
    ) -> dict[str, list[Any]]:
        """Delete an entity with all that only it brought and every relation of it, or a relation.

        Args:
            name: id or name of the entity.
            relation: (head, relation, tail); all that are stated so.

        Returns:
            As `delete`.

        Raises:
            NotFound: there is no such entity or relation.
            BadInput: neither or both were given, or a name means several.
            Locked: another process is writing.
        """
        from ku_rag.graph import linking
        from ku_rag.ingest import removal
        from ku_rag.store.contents import Dropped

        if (name is None) == (relation is None):
            raise BadInput("expected the name of an entity, or a relation: give one of them")
        connection = self._database.connection
        if name is not None:
            entity = linking.find_one(connection, arguments.text(name, "the name"))
            if entity.unit is not None:
                return self.delete([entity.unit])
            rows = [
                row
                for (row,) in connection.execute(
                    "SELECT row FROM relations WHERE tail = ?", (entity.row,)
                )
            ]
        else:
            head, word, tail = relation or ("", "", "")
            start = linking.find_one(connection, arguments.text(head, "the head"))
            ends = {one.row for one in linking.find(connection, arguments.text(tail, "the tail"))}
            rows = [
                row
                for row, end, target in connection.execute(
                    "SELECT row, tail, target FROM relations WHERE head = ? AND relation = ?",
                    (start.row, arguments.text(word, "the relation")),
                ).fetchall()
                if end in ends or target == tail
            ]
        if relation is not None and not rows:
            raise NotFound(
                f"no relation {relation[0]} —{relation[1]}→ {relation[2]} is stated: `ku graph "
                "show` lists those of an entity; nothing was deleted"
            )
        dropped = Dropped()
        with self._write() as pipeline, pipeline.storing.change():
            removal.unstate(connection, rows, pipeline.storing.inverted, dropped, by_hand=_BY_HAND)
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
        from ku_rag.graph import linking, showing
        from ku_rag.graph.mmkg import Graph

        connection = self._database.connection
        entity = linking.find_one(connection, arguments.text(name, "the name"))
        most = arguments.count(most, "most", least=0, most=_MOST)
        return showing.show(connection, Graph(connection, self._layout), entity, most=most)

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
            Of each path "ids" (None for what is but a name), "entities" (names), "relations" and
            "text".

        Raises:
            NotFound: there is no such entity.
            BadInput: several are called so.
        """
        from ku_rag.graph import linking, walks
        from ku_rag.graph.mmkg import Graph
        from ku_rag.store.database import snapshot

        connection = self._database.connection
        with snapshot(connection):
            begins = linking.find_one(connection, arguments.text(start, "the start"))
            ends = end and linking.find_one(connection, arguments.text(end, "the end"))
            found = walks.shortest(
                connection,
                Graph(connection, self._layout),
                begins,
                ends or None,
                most=arguments.count(most, "most", least=1, most=_MOST),
                longest=arguments.count(longest, "longest", least=1, most=_LONGEST),
            )
        return [
            {
                "ids": [entity.unit for entity in path.entities],
                "entities": [entity.name for entity in path.entities],
                "relations": [step.relation for step in path.steps],
                "text": path.text,
            }
            for path in found
        ]

    # ---- inside --------------------------------------------------------------------------------

    def _unit_called(self, name: str, *, must: bool) -> str | None:
        """The id of the unit that a name means; None if there is none and none must be."""
        from ku_rag.graph import linking

        units = [
            one.unit
            for one in linking.find(self._database.connection, arguments.text(name, "the unit"))
            if one.unit is not None
        ]
        if len(units) > 1:
            linking.find_one(self._database.connection, name)  # says which
        if must and not units:
            raise NotFound(f"there is no unit {name!r}: `ku list` prints the ids")
        return units[0] if units else None

    def _relate(
        self, head: str, word: str, tail: str, information: str | None, condition: str | None
    ) -> dict[str, Any]:
        from ku_rag.graph import linking
        from ku_rag.store.contents import content_hash

        connection = self._database.connection
        ends = linking.find(connection, tail)
        if len(ends) > 1:
            linking.find_one(connection, tail)
        started = linking.find(connection, head)
        if len(started) > 1:
            linking.find_one(connection, head)
        aim: tuple[str, str | None] = (tail, linking.ONLY_NAMED)
        if tail == head:
            aim = ((started[0].unit if started else None) or head, None)
        elif ends:
            aim = _aim(ends[0])
        target, kind = aim
        stated = Relation(word, target, kind, information or None, condition or None)
        if not started or started[0].unit is None:
            self.graph_add(head, kind=started[0].kind if started else None)
            started = [linking.find_one(connection, head)]
        start = started[0]
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
        from ku_rag.store.contents import content_hash

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
