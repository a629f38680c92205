"""Resolution of the names in graph files to unit ids.

A name in a file means, in this order: the entity of that id, the one entity of that name, the one
with that alias, the unit of the knowledge base with that id, the one entity of the file with that
name in another spelling, the one unit of the base with that name. In workbooks, names are valid
within their sub-graph, and topics and shared entities everywhere; ids come after names. A name of
several is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from ku_rag.ingest.readers.graph_records import EntityRecord, GraphPart, RelationRecord
from ku_rag.ingest.readers.workbook import is_shared, qualified_name
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.tokens import name_key
from ku_rag.types import Quarantined, Relation, Source, Unit


class StoredUnit(NamedTuple):
    """A unit of the knowledge base."""

    id: str
    name: str


class ResolvedEntity(NamedTuple):
    """What one file says about one unit.

    Args:
        unit: The unit, with relations whose targets are unit ids or new names.
        source: Its source.
        videos: Paths of videos, see `EntityRecord`.
    """

    unit: Unit
    source: Source
    videos: tuple[str, ...] = ()


class ResolvedGraph(NamedTuple):
    """A graph whose names are resolved.

    Args:
        entities: What the files say, one item for each file and unit.
        problems: What was left out.
        only_named: Number of entities that have only a name.
    """

    entities: list[ResolvedEntity]
    problems: list[Quarantined]
    only_named: int


Lookup = Callable[[Iterable[str]], Mapping[str, Sequence[StoredUnit]]]
"""Finds the units of the knowledge base that have an id or name."""

_Names = dict[str, str | None]
"""Ids by name; None for a name of several entities."""

_Search = Callable[[str], str | None]
"""Returns the id of the unit that a name means, a new id, or None if it means several."""


def find_units(
    connection: Connection, names: Iterable[str], own: Sequence[tuple[str, str]]
) -> dict[str, list[StoredUnit]]:
    """Find the units that have an id, or a name or alias; the unit with the id comes first.

    Args:
        connection: To the store.
        names: Ids and names.
        own: Ranges of URIs (first, end): what only these sources say is ignored, because it is
            about to be replaced.
    """
    wanted = [(name, name_key(name)) for name in dict.fromkeys(names)]
    other = "".join(" AND NOT (s.uri >= ? AND s.uri < ?)" for _ in own)
    bounds = [bound for one in own for bound in one]
    found: dict[str, dict[str, StoredUnit]] = {}
    for place, unit, name in connection.execute(
        "SELECT w.key, u.id, u.name FROM json_each(?) w CROSS JOIN units u ON u.id = w.value "
        f"WHERE EXISTS (SELECT 1 FROM sources s WHERE s.unit = u.row{other})",
        (as_json(name for name, _ in wanted), *bounds),
    ):
        found[wanted[place][0]] = {unit: StoredUnit(unit, name)}
    for place, unit, name, declared in connection.execute(
        "SELECT w.key, u.id, u.name, s.declared FROM json_each(?) w "
        "CROSS JOIN names n ON n.key = w.value CROSS JOIN units u ON u.row = n.unit "
        f"CROSS JOIN sources s ON s.unit = u.row WHERE w.value != ''{other} ORDER BY u.row",
        (as_json(key for _, key in wanted), *bounds),
    ):
        asked, key = wanted[place]
        if not own or key in _declared_names(declared):
            found.setdefault(asked, {}).setdefault(unit, StoredUnit(unit, name))
    return {name: list(units.values()) for name, units in found.items()}


def _declared_names(declared: str) -> set[str]:
    """Return the keys of the names, aliases and metadata that a source declares."""
    data = json.loads(declared)
    names = [data["name"], *(data["aliases"] or ())]
    for value in (data["metadata"] or {}).values():
        names += value if isinstance(value, list) else [value]
    return {name_key(one) for one in names if isinstance(one, str)}


def resolve(parts: Sequence[GraphPart], lookup: Lookup) -> ResolvedGraph:
    """Resolve the names in the parts of a graph.

    Args:
        parts: As they were read.
        lookup: Finds units of the knowledge base.
    """
    return _Resolver(parts, lookup).resolve()


class _NameIndex(NamedTuple):
    """The names of some entities: as they are written, aliases after names; and by their keys."""

    exact: _Names
    spelled: _Names

    @classmethod
    def of(cls, entities: Iterable[EntityRecord]) -> _NameIndex:
        """Index the names and aliases of entities."""
        listed = list(entities)
        names = [(one.unit.name, one) for one in listed]
        aliases = [(alias, one) for one in listed for alias in one.unit.aliases]
        keys = _table((name_key(name), one) for name, one in names + aliases)
        return cls(_table(aliases) | _table(names), keys)


class _Resolver:
    """The names of one graph."""

    def __init__(self, parts: Sequence[GraphPart], lookup: Lookup) -> None:
        self._parts = parts
        self._problems = [problem for part in parts for problem in part.problems]
        self._only_named: set[str] = set()
        every = [one for part in parts for one in part.entities.values()]
        self._units: dict[str, str] = {_id(one): _id(one) for one in every}
        ends = {end for part in parts for one in part.relations for end in (one.head, one.tail)}
        asked = [one.same_as or _id(one) for one in every]
        self._stored = lookup([*asked, *sorted(ends - self._units.keys())])
        for entity in every:
            if entity.same_as:
                self._join(entity, entity.same_as)
        self._names = {one.id: one.name for found in self._stored.values() for one in found[:1]}
        for entity in every:
            self._names.setdefault(self._units[_id(entity)], entity.unit.name)
        self._described = frozenset(self._names)
        self._ids: _Names = {entity_id: entity_id for entity_id in self._units}
        self._everywhere = _NameIndex.of(
            one
            for part in parts
            for one in part.entities.values()
            if one.topic or is_shared(_id(one)) or one.unit.name == part.scope
        )

    def _join(self, entity: EntityRecord, unit: str) -> None:
        """Resolve the entity to the unit that the file says it is."""
        found = _only(self._stored.get(unit, ()), unit)
        if found:
            self._units[_id(entity)] = found
            return
        self._problems.append(
            Quarantined(
                entity.source.uri,
                f"there is no unit {unit!r}, or several have the name: use an id; the "
                "entity is kept as a unit of its own",
            )
        )

    def resolve(self) -> ResolvedGraph:
        """Resolve all parts: heads first, because a new head is a unit that tails may name."""
        by_head = [self._relations_by_head(part) for part in self._parts]
        entities = []
        for part, (search, stated) in zip(self._parts, by_head, strict=True):
            for entity in part.entities.values():
                unit = self._units[_id(entity)]
                relations = self._relations(part, search, stated.pop(unit, ()))
                found = self._stored.get(entity.same_as or _id(entity), ())
                match = entity.match
                if match is None:
                    match = entity.topic or any(one.id == unit for one in found)
                described = replace(entity.unit, id=unit, match=match, relations=relations)
                entities.append(ResolvedEntity(described, entity.source, entity.videos))
            for head, statements in stated.items():
                # Whether its names are searched for is up to the source that describes it.
                relations = self._relations(part, search, statements)
                match = head in self._described
                described = Unit(self._names[head], id=head, match=match, relations=relations)
                source = Source(f"{part.relations_path.as_posix()}#{head}")
                entities.append(ResolvedEntity(described, source))
        return ResolvedGraph(entities, self._problems, len(self._only_named))

    def _relations_by_head(
        self, part: GraphPart
    ) -> tuple[_Search, dict[str, list[RelationRecord]]]:
        """Resolve the heads of a part's relations."""
        search = cache(partial(self._search, part, _NameIndex.of(part.entities.values())))
        stated: dict[str, list[RelationRecord]] = {}
        for one in part.relations:
            head = search(one.head)
            if head is None:
                self._problems.append(_ambiguous(part, one.head, one))
                continue
            if head not in stated:
                self._names.setdefault(head, one.head)
            stated.setdefault(head, []).append(one)
        return search, stated

    def _relations(
        self, part: GraphPart, search: _Search, stated: Iterable[RelationRecord]
    ) -> tuple[Relation, ...]:
        """Resolve the tails of relations; equal relations are stored once."""
        made = []
        for one in dict.fromkeys(stated):
            tail = one.tail if one.tail_kind else search(one.tail)
            if tail is None:
                self._problems.append(_ambiguous(part, one.tail, one))
                continue
            if one.tail_kind or tail not in self._names:
                self._only_named.add(tail)
            made.append(Relation(one.relation, tail, one.tail_kind, one.information, one.condition))
        return tuple(made)

    def _search(self, part: GraphPart, own: _NameIndex, name: str) -> str | None:
        named = (own.exact, self._everywhere.exact)
        for table in (self._ids, *named) if part.has_ids else (*named, self._ids):
            if name in table:
                return self._unit(table[name])
        # Entities of other sub-graphs are not visible by their names.
        found = self._stored.get(name, ())
        stored = [one for one in found if not (part.scope and ">" in one.id)]
        if any(one.id == name for one in stored):
            return name
        key = name_key(name)
        for table in (own.spelled, self._everywhere.spelled):
            if key in table:
                return self._unit(table[key])
        return _only(stored, name) if stored else qualified_name(part.scope, name)

    def _unit(self, entity: str | None) -> str | None:
        return entity and self._units[entity]


def _table(named: Iterable[tuple[str, EntityRecord]]) -> _Names:
    table: _Names = {}
    for name, entity in named:
        if name and table.setdefault(name, _id(entity)) != _id(entity):
            table[name] = None
    return table


def _only(stored: Sequence[StoredUnit], name: str) -> str | None:
    """Return the unit with this id, the only one with exactly this name, or the only one."""
    if any(one.id == name for one in stored):
        return name
    exact = [one for one in stored if one.name == name] or stored
    return exact[0].id if len(exact) == 1 else None


def _id(entity: EntityRecord) -> str:
    return entity.unit.id or entity.unit.name


def _ambiguous(part: GraphPart, name: str, one: RelationRecord) -> Quarantined:
    return Quarantined(
        f"{part.relations_path.as_posix()}: {one.head} —{one.relation}→ {one.tail}",
        f"several entities are called {name!r}: name the one that is meant by its id",
    )
