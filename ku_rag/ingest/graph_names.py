"""Resolution of the names in graph files to unit ids.

A name in a file means, in this order: the entity of that id, the one entity of that name, the one
with that alias, the unit of the knowledge base with that id, the one entity of the file with that
name in another spelling, the one unit of the base with that name. In workbooks, names are valid
within their sub-graph, and topics and shared entities everywhere; ids come after names. A name of
several entities is refused.
"""

from __future__ import annotations

import json
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from ku_rag.ingest.readers.graph_records import EntityRecord, GraphPart, RelationRecord
from ku_rag.ingest.readers.workbook import is_shared, qualified_name
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.tokens import name_key
from ku_rag.types import Quarantined, Relation, Source, Unit

StoredUnits = Mapping[str, Mapping[str, str]]
"""The units of the knowledge base that have an id or name: their names by id."""

_Names = dict[str, str | None]
"""Ids by name; None for a name of several entities."""

_Search = Callable[[str], str | None]
"""Returns the id of the unit that a name means, a new id, or None if it means several."""


def _find_units(
    connection: Connection, names: Iterable[str], own: Sequence[tuple[str, str]]
) -> StoredUnits:
    """Find the units that have an id, a name or an alias.

    What only sources in `own`, ranges of URIs (first, end), say is ignored: it is about to be
    replaced.
    """
    wanted = [(name, name_key(name)) for name in dict.fromkeys(names)]
    units: dict[str, dict[str, str]] = {}
    for place, unit, name, declared in connection.execute(
        "SELECT w.key, u.id, u.name, s.declared FROM json_each(?) w CROSS JOIN units u ON u.row IN "
        "(SELECT row FROM units WHERE id = json_extract(w.value, '$[0]') UNION "
        "SELECT unit FROM names WHERE key = json_extract(w.value, '$[1]')) "
        "CROSS JOIN sources s ON s.unit = u.row WHERE TRUE"
        + " AND NOT (s.uri >= ? AND s.uri < ?)" * len(own)
        + " ORDER BY u.row",
        (as_json(wanted), *(bound for bounds in own for bound in bounds)),
    ):
        term, key = wanted[place]
        if unit == term or not own or key in _declared_names(declared):
            units.setdefault(term, {})[unit] = name
    return units


def _declared_names(declared: str) -> set[str]:
    """Return the keys of the names, aliases and metadata that a source declares."""
    data = json.loads(declared)
    names = [data["name"], *(data["aliases"] or ())]
    for value in (data["metadata"] or {}).values():
        names += value if isinstance(value, list) else [value]
    return {name_key(name) for name in names if isinstance(name, str)}


class NameResolver:
    """Resolves the names in one graph to units; see `_find_units`."""

    def __init__(
        self, parts: Sequence[GraphPart], connection: Connection, own: Sequence[tuple[str, str]]
    ) -> None:
        self._parts = parts
        self._problems = [problem for part in parts for problem in part.problems]
        every = [entity for part in parts for entity in part.entities.values()]
        self._ids: _Names = {entity.id: entity.id for entity in every}
        ends = {end for part in parts for row in part.relations for end in (row.head, row.tail)}
        wanted = [entity.same_as or entity.id for entity in every]
        names = [*wanted, *sorted(ends - self._ids.keys())]
        self._stored = _find_units(connection, names, own)
        self._units = {entity.id: self._unit(entity) for entity in every}
        self._names = {unit: name for of in self._stored.values() for unit, name in of.items()}
        for entity in every:
            self._names.setdefault(self._units[entity.id], entity.unit.name)
        self._shared = [
            entity
            for part in parts
            for entity in part.entities.values()
            if entity.topic or is_shared(entity.id) or entity.unit.name == part.scope
        ]

    def _unit(self, entity: EntityRecord) -> str:
        """Return the id of the unit that the file says the entity is, or else its own."""
        if (same_as := entity.same_as) is None:
            return entity.id
        if unit := _only(self._stored.get(same_as, {}), same_as):
            return unit
        reason = (
            f"there is no unit {same_as!r}, or several have the name: use an id; the "
            "entity is kept as a unit of its own"
        )
        self._problems.append(Quarantined(entity.source.uri, reason))
        return entity.id

    def resolve(self) -> tuple[list[EntityRecord], list[Quarantined]]:
        """Resolve all parts.

        Returns:
            What the files say, one item for each file and unit, with ids of units, and relations
            whose targets are unit ids or new names; and what was left out.
        """
        entities = []
        for part in self._parts:
            search = self._search(part)
            stated: dict[str, list[RelationRecord]] = {}
            for relation in part.relations:
                if (head := search(relation.head)) is None:
                    self._problems.append(_ambiguous(part, relation.head, relation))
                else:
                    stated.setdefault(head, []).append(relation)
            for entity in part.entities.values():
                unit = self._units[entity.id]
                relations = self._relations(part, search, stated.pop(unit, ()))
                match = entity.match
                if match is None:
                    wanted = entity.same_as or entity.id
                    match = entity.topic or unit in self._stored.get(wanted, ())
                described = replace(entity.unit, id=unit, match=match, relations=relations)
                entities.append(replace(entity, unit=described))
            for head, statements in stated.items():
                # Whether its names are searched for is up to the source that describes it.
                match, name = head in self._names, self._names.get(head, statements[0].head)
                relations = self._relations(part, search, statements)
                described = Unit(name, id=head, match=match, relations=relations)
                source = Source(f"{part.relations_path.as_posix()}#{head}")
                entities.append(EntityRecord(described, source))
        return entities, self._problems

    def _relations(
        self, part: GraphPart, search: _Search, stated: Iterable[RelationRecord]
    ) -> tuple[Relation, ...]:
        """Resolve the tails of relations; equal relations are stored once."""
        relations = []
        for row in dict.fromkeys(stated):
            tail = row.tail if row.tail_kind else search(row.tail)
            if tail is None:
                self._problems.append(_ambiguous(part, row.tail, row))
            else:
                notes = row.tail_kind, row.information, row.condition
                relations.append(Relation(row.relation, tail, *notes))
        return tuple(relations)

    def _search(self, part: GraphPart) -> _Search:
        """Return the search for names in a part."""
        own, own_keys = _tables(part.entities.values())
        shared, shared_keys = _tables(self._shared)
        exact = ChainMap(*((self._ids, own, shared) if part.has_ids else (own, shared, self._ids)))
        spelled = ChainMap(own_keys, shared_keys)

        @cache
        def search(name: str) -> str | None:
            units = self._stored.get(name, {})
            # Entities of other sub-graphs are not visible by their names.
            stored = {unit: of for unit, of in units.items() if not (part.scope and ">" in unit)}
            if name in exact:
                entity = exact[name]
            elif name in units:
                return name
            elif (key := name_key(name)) in spelled:
                entity = spelled[key]
            else:
                return _only(stored, name) if stored else qualified_name(part.scope, name)
            return entity and self._units[entity]

        return search


def _tables(entities: Iterable[EntityRecord]) -> tuple[_Names, _Names]:
    """Index the names of entities as they are written, aliases after names; and by their keys."""
    listed = list(entities)
    names = [(entity.unit.name, entity) for entity in listed]
    aliases = [(alias, entity) for entity in listed for alias in entity.unit.aliases]
    keys = _table((name_key(name), entity) for name, entity in names + aliases)
    return _table(aliases) | _table(names), keys


def _table(named: Iterable[tuple[str, EntityRecord]]) -> _Names:
    table: _Names = {}
    for name, entity in named:
        if name and table.setdefault(name, entity.id) != entity.id:
            table[name] = None
    return table


def _only(stored: Mapping[str, str], name: str) -> str | None:
    """Return the unit with this id, the only one with exactly this name, or the only one."""
    if name in stored:
        return name
    exact = [unit for unit, called in stored.items() if called == name] or list(stored)
    return exact[0] if len(exact) == 1 else None


def _ambiguous(part: GraphPart, name: str, row: RelationRecord) -> Quarantined:
    return Quarantined(
        f"{part.relations_path.as_posix()}: {row.head} —{row.relation}→ {row.tail}",
        f"several entities are called {name!r}: name the one that is meant by its id",
    )
