"""Entities, relations and paths of the graph, and reading them (MH-MMKG, section 3.1).

An entity with a caption, a text, a picture or a relation of its own is a knowledge unit. The tail
of a relation that no source describes has only a name and a kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, Literal

from ku_rag.errors import BadInput, NotFound
from ku_rag.indexes.name_index import matchable
from ku_rag.store.connection import Connection, as_json
from ku_rag.store.layout import Layout
from ku_rag.store.unit_records import hint, texts_of
from ku_rag.text.tokens import name_key
from ku_rag.types import PathEvidence

TOPIC = "topic"
CAPTION = "caption"
VIDEOS = "videos"
MACHINE_CAPTION = "caption by "
"""Keys of a unit's metadata; the last one is followed by the name of the model."""

_WHEN = frozenset({"when", "if", "while", "during", "after", "before", "until", "unless", "once"})
"""First words of conditions that need no "when"."""

Direction = Literal["out", "in", "both"]
"""Along relations, against them, or both."""

_SHOWN = 5
NO_ROW = -(1 << 60)
"""Rows up to this one are values that are no entities, such as metadata."""
_OF_UNITS = (
    "SELECT coalesce(e.row, -u.row), u.name, u.kind, u.id "
    "FROM units u LEFT JOIN entities e ON e.unit = u.row "
)


@dataclass(frozen=True, slots=True)
class Entity:
    """A node: its row (negative for a unit without relations), and the id of its unit, if any."""

    row: int
    name: str
    kind: str
    unit: str | None = None

    @property
    def has_relations(self) -> bool:
        """Whether a relation starts or ends here."""
        return self.row > 0


@dataclass(frozen=True, slots=True)
class Step:
    """A directed relation between two entities.

    Args:
        line: Row of the chunk, start and end of the labelled line that states it; None if the
            relation or metadata do.
    """

    row: int
    head: Entity
    relation: str
    tail: Entity
    information: str = ""
    condition: str = ""
    line: tuple[int, int, int] | None = None

    @property
    def has_value(self) -> bool:
        """Whether it leads to a value, such as metadata, and not to an entity."""
        return self.tail.row <= NO_ROW

    def other(self, end: Entity) -> Entity:
        """Return the end that is not `end`; a loop has the same entity at both."""
        return self.tail if self.head.row == end.row else self.head

    @property
    def text(self) -> str:
        """Arrow, tail and notes: `—continues→ Bite (when enraged)`."""
        return f"—{self.relation}→ {self.tail.name}{self.notes}"

    @property
    def notes(self) -> str:
        """Information and condition in brackets, or ""."""
        notes = "; ".join(filter(None, (self.information, when(self.condition))))
        return f" ({notes})" if notes else ""


def when(condition: str) -> str:
    """Return a condition for display, with "when" unless it begins with such a word."""
    begins = condition.partition(" ")[0].lower() in _WHEN
    return f"when {condition}" if condition and not begins else condition


@dataclass(frozen=True, slots=True)
class Path:
    """A sequence of relations from an entity, in either direction; it may be empty."""

    start: Entity
    steps: tuple[Step, ...] = ()

    @property
    def end(self) -> Entity:
        """The last entity."""
        return self.entities[-1]

    @property
    def entities(self) -> tuple[Entity, ...]:
        """All entities of the path, both ends included."""
        passed = [self.start]
        for step in self.steps:
            passed.append(step.other(passed[-1]))
        return tuple(passed)

    @property
    def text(self) -> str:
        """The path as in the paper: `Rathian —attack of→ Triple Rush —continues→ Bite`."""
        steps = (
            step.text
            if step.head.row == passed.row
            else f"←{step.relation}— {step.head.name}{step.notes}"
            for passed, step in zip(self.entities, self.steps, strict=False)
        )
        return " ".join([self.start.name, *steps])

    def as_evidence(self, label: str) -> PathEvidence:
        """Return the path as evidence under a label, such as "E3"."""
        names = tuple(entity.name for entity in self.entities)
        return PathEvidence(label, names, tuple(step.relation for step in self.steps), self.text)

    def then(self, step: Step) -> Path:
        """Return the path extended by a step."""
        return Path(self.start, (*self.steps, step))

    def to_dict(self) -> dict[str, Any]:
        """Return an item of what `ku graph paths --json` prints."""
        return {
            "ids": [entity.unit for entity in self.entities],
            "entities": [entity.name for entity in self.entities],
            "relations": [step.relation for step in self.steps],
            "information": [step.information or None for step in self.steps],
            "conditions": [step.condition or None for step in self.steps],
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of an entity (the paper's A(e) = (c, u)); a topic (E_o) may start a search."""

    aliases: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    topic: bool = False
    caption: str = ""
    captions: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    images: tuple[File, ...] = ()
    videos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """Read access to the graph, without names and relations of units that are not `among` some."""

    connection: Connection
    layout: Layout
    among: frozenset[int] | None = None

    def of_units(self, units: Sequence[int]) -> list[Entity]:
        """Return the entity of each unit, given by row; its row is negative without relations."""
        return self._entities(
            "SELECT coalesce(e.row, -u.row), u.name, u.kind, u.id FROM json_each(?) r "
            "CROSS JOIN units u ON u.row = r.value LEFT JOIN entities e ON e.unit = u.row "
            "ORDER BY r.key",
            as_json(units),
        )

    def _entities(self, query: str, *values: object) -> list[Entity]:
        return [Entity(*row) for row in self.connection.execute(query, values).fetchall()]

    def find(self, name: str) -> list[Entity]:
        """Return the entities with an id, or else a name, alias or "Bite (attack)"."""
        key = name_key(name)
        for where, value in (
            ("u.id = ?", name),
            # A name of nothing but signs has no key.
            ("u.row IN (SELECT unit FROM names WHERE key = ?)", key)
            if key
            else ("u.name = ?", name),
        ):
            if units := self._entities(f"{_OF_UNITS} WHERE {where} ORDER BY u.id", value):
                return units
        if entities := self._with_name(name):
            return entities
        plain, _, kind = name.removesuffix(")").rpartition(" (")
        return [entity for entity in self._with_name(plain) if entity.kind == kind] if plain else []

    def entity(self, name: str) -> Entity:
        """Return the entity of a name; of several the one with this spelling, else `BadInput`."""
        entities = self.find(name)
        exact = [entity for entity in entities if entity.name == name]
        if len(exact) == 1:
            return exact[0]
        if not entities:
            near = hint(self.connection, name, entities=True)
            raise NotFound(f"there is no entity {name!r}: {near}")
        if len(entities) > 1:
            ids = ", ".join(repr(e.unit or f"{e.name} ({e.kind})") for e in entities[:_SHOWN])
            more = f" and {len(entities) - _SHOWN} more" if len(entities) > _SHOWN else ""
            raise BadInput(
                f"{len(entities)} entities are called {name!r}: name one by its id: {ids}{more}"
            )
        return entities[0]

    def _with_name(self, name: str) -> list[Entity]:
        """Return the entities that have only this name."""
        return self._entities(
            "SELECT row, name, kind, NULL FROM entities WHERE key = ?1 AND unit IS NULL "
            "AND (?1 != '' OR name = ?2) ORDER BY name != ?2, kind, row",
            name_key(name),
            name,
        )

    def with_keys(self, keys: Sequence[str]) -> dict[str, list[Entity]]:
        """Return units and other entities by name key; "the tower" also finds the unit "Tower"."""
        entities: dict[str, list[Entity]] = {}
        for key, unit, *entity in self.connection.execute(
            "SELECT r.value, u.row, coalesce(e.row, -u.row), u.name, u.kind, u.id "
            "FROM json_each(?1) r CROSS JOIN names n ON n.key IN "
            "(r.value, substr(r.value, 1 + 4 * (r.value LIKE 'the %'))) "
            "CROSS JOIN units u ON u.row = n.unit "
            "LEFT JOIN entities e ON e.unit = u.row UNION "
            "SELECT e.key, NULL, e.row, e.name, e.kind, NULL FROM json_each(?1) r "
            "CROSS JOIN entities e ON e.key = r.value WHERE e.unit IS NULL ORDER BY 3",
            (as_json([key for key in keys if matchable(key)]),),
        ):
            if self._counts(unit):
                entities.setdefault(key, []).append(Entity(*entity))
        return entities

    def topics(self, most: int) -> list[Entity]:
        """Return the first topic entities, or else units with relations, as they were inserted."""
        select = f"{_OF_UNITS} WHERE {{}} ORDER BY u.row LIMIT ?"
        marked = f"json_extract(u.metadata, '$.{TOPIC}') IS TRUE"
        return self._entities(select.format(marked), most) or self._entities(
            select.format("e.row IS NOT NULL"), most
        )

    def with_pictures(self, most: int) -> list[Entity]:
        """Return the first units with pictures, at most `most`."""
        return self._entities(
            f"{_OF_UNITS} WHERE EXISTS (SELECT 1 FROM unit_images l WHERE l.unit = u.row) "
            "ORDER BY u.row LIMIT ?",
            most,
        )

    def hop(self, entity: Entity, most: int = -1, *, direction: Direction = "out") -> list[Step]:
        """Return the first relations, -1 for all, in each direction, source by source."""
        if direction == "both":
            return [*self.hop(entity, most), *self.hop(entity, most, direction="in")]
        here, there = ("head", "tail") if direction == "out" else ("tail", "head")
        steps = []
        rows = self.connection.execute(
            "SELECT h.unit, r.row, r.relation, r.information, r.condition, e.row, e.name, e.kind, "
            f"u.id FROM relations r JOIN entities e ON e.row = r.{there} "
            "JOIN entities h ON h.row = r.head LEFT JOIN units u ON u.row = e.unit "
            f"WHERE r.{here} = ? ORDER BY r.source, r.row LIMIT ?",
            (entity.row, most),
        )
        for unit, row, relation, information, condition, *other in rows:
            ends = (entity, Entity(*other))
            head, tail = ends if direction == "out" else ends[::-1]
            if self._counts(unit):
                steps.append(Step(row, head, relation, tail, information or "", condition or ""))
        return steps

    def _counts(self, unit: int | None) -> bool:
        """Return whether a unit counts, by row; what is no unit does."""
        return self.among is None or unit is None or unit in self.among

    def captions(self, entities: Sequence[Entity]) -> dict[int, str]:
        """Return the captions that people wrote, by row of the entity."""
        rows = self.connection.execute(
            f"SELECT e.row, json_extract(u.metadata, '$.{CAPTION}') AS caption FROM json_each(?) r "
            "CROSS JOIN entities e ON e.row = r.value CROSS JOIN units u ON u.row = e.unit "
            "WHERE caption IS NOT NULL AND caption != ''",
            (as_json([entity.row for entity in entities]),),
        )
        return {row: str(caption) for row, caption in rows}

    def attributes(self, entity: Entity) -> Attributes:
        """Return the attributes of an entity; none if it has only a name."""
        if entity.unit is None:
            return Attributes()
        stored = self.connection.execute(
            "SELECT row, aliases, metadata FROM units WHERE id = ?", (entity.unit,)
        ).fetchone()
        if stored is None:  # deleted since it was read
            return Attributes()
        row, aliases, metadata = stored
        values = json.loads(metadata)
        topic, caption = values.pop(TOPIC, None), values.pop(CAPTION, None)
        by_models = {key: values.pop(key) for key in [*values] if key.startswith(MACHINE_CAPTION)}
        videos = values.pop(VIDEOS) if isinstance(values.get(VIDEOS), list) else ()
        files = self.connection.execute(
            "SELECT DISTINCT i.file FROM unit_images l JOIN images i ON i.row = l.image "
            "WHERE l.unit = ? ORDER BY l.source, l.position",
            (row,),
        )
        return Attributes(
            aliases=tuple(json.loads(aliases)),
            metadata=values,
            topic=topic is True,
            caption=str(caption or ""),
            captions={k.removeprefix(MACHINE_CAPTION): str(t) for k, t in by_models.items()},
            text="\n\n".join(texts_of(self.connection, row)),
            images=tuple(self.layout.image(file) for (file,) in files),
            videos=tuple(videos),
        )
