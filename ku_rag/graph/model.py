"""The graph as it is walked: entities, the relations that leave them, and paths (MH-MMKG, 3.1).

An entity that brings anything, be it a caption, a text, a picture or a relation, is a knowledge
unit, so it is stored, found, verified and deleted as one; what is only pointed to has but a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from ku_rag.errors import BadInput, NotFound
from ku_rag.store.connection import Connection
from ku_rag.store.layout import Layout
from ku_rag.store.sql import as_json
from ku_rag.store.unit_records import hint, texts_of
from ku_rag.text.tokens import name_key

TOPIC = "topic"
CAPTION = "caption"
MACHINE_CAPTION = "caption by "
"""Keys of a unit's metadata; the last is followed by the name of the model."""

_WHEN = frozenset({"when", "if", "while", "during", "after", "before", "until", "unless", "once"})
"""Words that a condition may begin with itself."""

_SHOWN = 5
_OF_UNITS = (
    "SELECT coalesce(e.row, -u.row), u.name, u.kind, u.id "
    "FROM units u LEFT JOIN entities e ON e.unit = u.row "
)


@dataclass(frozen=True, slots=True)
class Entity:
    """A node of the graph.

    Args:
        row: its number in the store, below 0 for a unit that is in no relation.
        name: what people call it.
        kind: monster, attack, country …
        unit: id of the unit that it is; None when it is only pointed to.
    """

    row: int
    name: str
    kind: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A directed relation between two entities.

    Args:
        row: its number in the store.
        head: where it starts.
        relation: what holds between them.
        tail: where it ends.
        information: more about it, or "".
        condition: when it holds, or "".
    """

    row: int
    head: Entity
    relation: str
    tail: Entity
    information: str = ""
    condition: str = ""

    @property
    def text(self) -> str:
        """Its arrow and tail with its notes: `—continues→ Bite (when enraged)`."""
        return f"—{self.relation}→ {self.tail.name}{self.notes}"

    @property
    def notes(self) -> str:
        """Information and condition in brackets, or ""."""
        notes = "; ".join(filter(None, (self.information, when(self.condition))))
        return f" ({notes})" if notes else ""


def when(condition: str) -> str:
    """A condition as it is read: "when enraged", also where it was stated without the "when"."""
    begins = condition.partition(" ")[0].lower() in _WHEN
    return f"when {condition}" if condition and not begins else condition


@dataclass(frozen=True, slots=True)
class Path:
    """A walk from a topic entity; without steps it is that entity alone."""

    start: Entity
    steps: tuple[Step, ...] = ()

    @property
    def end(self) -> Entity:
        """Its leaf."""
        return self.steps[-1].tail if self.steps else self.start

    @property
    def entities(self) -> tuple[Entity, ...]:
        """What it passes, both ends included."""
        return (self.start, *(step.tail for step in self.steps))

    @property
    def text(self) -> str:
        """As the paper writes it: `Rathian —attack of→ Triple Rush —continues→ Bite`."""
        return " ".join([self.start.name, *(step.text for step in self.steps)])

    @property
    def loops(self) -> bool:
        """Whether it comes back to an entity that it has passed."""
        return len({entity.row for entity in self.entities}) < len(self.entities)

    def then(self, step: Step) -> Path:
        """This path, one step longer."""
        return Path(self.start, (*self.steps, step))

    def to_dict(self) -> dict[str, Any]:
        """One item of what `ku graph paths --json` prints."""
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
    """What an entity brings (the paper's A(e) = (c, u)).

    Args:
        topic: whether a question may be about it as a whole (the paper's monsters, E_o).
        caption: of its pictures or video, written by people, or "".
        captions: of the same, by models: model → text.
        text: what else is known, the paper's u.
        images: its pictures and keyframes.
    """

    topic: bool = False
    caption: str = ""
    captions: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    images: tuple[File, ...] = ()


class Graph:
    """The graph of a knowledge base, for reading.

    Args:
        connection: to the store; a snapshot if several calls are to see one state.
        layout: where pictures are.
    """

    def __init__(self, connection: Connection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout

    def of_units(self, units: Sequence[int]) -> list[Entity]:
        """The entities that some units, by row, are, in that order; others are left out."""
        found = {
            unit: Entity(row, name, kind, unit_id)
            for unit, row, name, kind, unit_id in self._connection.execute(
                "SELECT u.row, e.row, e.name, e.kind, u.id FROM json_each(?) r "
                "CROSS JOIN units u ON u.row = r.value CROSS JOIN entities e ON e.unit = u.row",
                (as_json(units),),
            )
        }
        return [found[unit] for unit in units if unit in found]

    def find(self, name: str) -> list[Entity]:
        """The entities of exactly this id, or else of this name or alias, units before mere names.

        A mere name that several kinds of things bear is told by its kind: `Bite (attack)`.
        """
        key = name_key(name)
        for where, given in (
            ("u.id = ?", name),
            # A name of nothing but signs has no key.
            ("u.row IN (SELECT unit FROM names WHERE key = ?)", key)
            if key
            else ("u.name = ?", name),
        ):
            rows = self._connection.execute(
                f"{_OF_UNITS} WHERE {where} ORDER BY u.id", (given,)
            ).fetchall()
            if rows:
                return [Entity(*row) for row in rows]
        if found := self._named(name):
            return found
        plain, _, kind = name.removesuffix(")").rpartition(" (")
        return [one for one in self._named(plain) if one.kind == kind] if plain else []

    def one(self, name: str) -> Entity:
        """The entity that a name means; of several the one that is spelt exactly so.

        Raises:
            NotFound: there is none.
            BadInput: there are several.
        """
        found = self.find(name)
        exact = [one for one in found if one.name == name]
        if len(exact) == 1:
            return exact[0]
        if not found:
            raise NotFound(f"there is no entity {name!r}: {hint(self._connection, name)}")
        if len(found) > 1:
            ids = ", ".join(repr(one.unit or f"{one.name} ({one.kind})") for one in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise BadInput(
                f"{len(found)} entities are called {name!r}: name one by its id: {ids}{more}"
            )
        return found[0]

    def _named(self, name: str) -> list[Entity]:
        """The entities that are but this name."""
        rows = self._connection.execute(
            "SELECT row, name, kind, NULL FROM entities WHERE key = ?1 AND unit IS NULL "
            "AND (?1 != '' OR name = ?2) ORDER BY name != ?2, kind, row",
            (name_key(name), name),
        )
        return [Entity(*row) for row in rows.fetchall()]

    def topics(self, most: int) -> list[Entity]:
        """Entities that a question may be about as a whole: the units that say so of themselves.

        When none does, all units that are in a relation.

        Args:
            most: no more than these, in the order of their arrival.
        """
        select = f"{_OF_UNITS} WHERE {{}} ORDER BY u.row LIMIT ?"
        marked = f"json_extract(u.metadata, '$.{TOPIC}') IS TRUE"
        rows = self._connection.execute(select.format(marked), (most,)).fetchall()
        if not rows:
            rows = self._connection.execute(select.format("e.row IS NOT NULL"), (most,)).fetchall()
        return [Entity(*row) for row in rows]

    def with_pictures(self, most: int) -> list[Entity]:
        """Units that bring pictures, in the order of their arrival, no more than `most`."""
        rows = self._connection.execute(
            f"{_OF_UNITS} WHERE EXISTS (SELECT 1 FROM unit_images l WHERE l.unit = u.row) "
            "ORDER BY u.row LIMIT ?",
            (most,),
        )
        return [Entity(*row) for row in rows.fetchall()]

    def hop(self, entity: Entity, most: int = -1) -> list[Step]:
        """The relations that leave an entity, in the order in which they were stated.

        Args:
            entity: where they start.
            most: no more than these, the first; -1 for all.

        Raises:
            Corrupt: one fails its checksum.
        """
        found = self._at(entity, "head", "tail", most)
        return [
            Step(row, entity, relation, other, information, condition)
            for row, relation, other, information, condition in found
        ]

    def into(self, entity: Entity, most: int = -1) -> list[Step]:
        """The relations that end at an entity, in the order in which they were stated.

        Args:
            entity: where they end.
            most: no more than these, the first; -1 for all.

        Raises:
            Corrupt: one fails its checksum.
        """
        return [
            Step(row, other, relation, entity, information, condition)
            for row, relation, other, information, condition in self._at(
                entity, "tail", "head", most
            )
        ]

    def _at(
        self, entity: Entity, here: str, there: str, most: int = -1
    ) -> Iterator[tuple[int, str, Entity, str, str]]:
        """The relations whose one end is an entity: row, relation, other end, notes."""
        rows = self._connection.execute(
            "SELECT r.row, r.relation, r.information, r.condition, e.row, e.name, e.kind, u.id "
            f"FROM relations r JOIN entities e ON e.row = r.{there} "
            "LEFT JOIN units u ON u.row = e.unit "
            f"WHERE r.{here} = ? ORDER BY r.row LIMIT ?",
            (entity.row, most),
        )
        for row, relation, information, condition, *other in rows:
            yield row, relation, Entity(*other), information or "", condition or ""

    def captions(self, entities: Sequence[Entity]) -> dict[int, str]:
        """People's captions of entities, by their rows; those without one are left out."""
        said = self._connection.execute(
            f"SELECT e.row, json_extract(u.metadata, '$.{CAPTION}') AS caption FROM json_each(?) r "
            "CROSS JOIN entities e ON e.row = r.value CROSS JOIN units u ON u.row = e.unit "
            "WHERE caption IS NOT NULL AND caption != ''",
            (as_json([entity.row for entity in entities]),),
        )
        return {row: str(caption) for row, caption in said}

    def attributes(self, entity: Entity) -> Attributes:
        """What an entity brings; nothing when it is only pointed to.

        Raises:
            Corrupt: a row fails its checksum.
        """
        if entity.unit is None:
            return Attributes()
        stored = self._connection.execute(
            "SELECT row, metadata FROM units WHERE id = ?", (entity.unit,)
        ).fetchone()
        if stored is None:  # deleted while a model thought
            return Attributes()
        row, metadata = stored
        said = json.loads(metadata)
        files = self._connection.execute(
            "SELECT DISTINCT i.file FROM unit_images l JOIN images i ON i.row = l.image "
            "WHERE l.unit = ? ORDER BY l.source, l.position",
            (row,),
        )
        return Attributes(
            topic=said.get(TOPIC) is True,
            caption=str(said.get(CAPTION) or ""),
            captions={
                key.removeprefix(MACHINE_CAPTION): str(text)
                for key, text in said.items()
                if key.startswith(MACHINE_CAPTION)
            },
            text="\n\n".join(texts_of(self._connection, row)),
            images=tuple(self._layout.image(file) for (file,) in files),
        )
