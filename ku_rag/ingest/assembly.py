"""Assembly (KU-RAG, section 3.2.2): a unit is what its sources declare, merged.

The name, kind, aliases and metadata of a unit follow from the declarations of its sources, in an
order that does not depend on when they arrived. Deleting a source removes what only it declared;
deleting the source that joined a unit undoes the joining.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from ku_rag.indexes import inverted, keywords
from ku_rag.store import content_rows, facts, relations
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.tokens import name_key, words
from ku_rag.types import Unit

_ALIAS_FIELDS = {"aliases", "alias", "also_known_as", "synonyms"}
_PRECEDENCE = {"update": 0, "ingest": 1, "add": 1, "join": 2}
"""Order of declarations: updates, then the unit's own sources, then those that joined it."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one source declares of its unit; None where it declares nothing.

    Args:
        match: Whether the names are looked up in the texts of other units.
        relations: Digest of the relations that the source states.
        replaces: Whether aliases and metadata replace those of other sources (an update) or are
            added to them.
    """

    name: str | None = None
    kind: str | None = None
    aliases: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    match: bool = True
    relations: str = ""
    replaces: bool = False

    def to_json(self) -> str:
        """Return the form that is stored and compared."""
        return _encode({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> Declaration:
        """Read the stored form.

        Raises:
            ValueError, KeyError, TypeError: The text is something else.
        """
        fields = json.loads(text)
        if fields["aliases"] is not None:
            fields["aliases"] = tuple(fields["aliases"])
        return cls(**fields)

    @classmethod
    def from_unit(cls, unit: Unit, stated: str = "") -> Declaration:
        """Return the declaration of a unit; `stated` is the digest of its source's relations."""
        return cls(
            name=unit.name,
            kind=unit.kind,
            aliases=unit.aliases,
            metadata=None if unit.metadata is None else as_read(unit.metadata),
            match=unit.match,
            relations=stated,
        )

    @property
    def describes_unit(self) -> bool:
        """Whether anything but the name is declared."""
        return bool(self.kind or self.aliases or self.metadata or self.relations)


class _Merged(NamedTuple):
    """What the sources of a unit declare together."""

    name: str
    kind: str
    aliases: Sequence[str]
    metadata: Mapping[str, Any]
    match: bool

    def columns(self) -> tuple[str, str, str, str, bool]:
        """Return the fields as they are stored."""
        return self.name, self.kind, as_json(self.aliases), _encode(self.metadata), self.match


def insert_units(
    connection: Connection,
    units: Mapping[str, int],
    sources: Iterable[tuple[int, str, str, Declaration]],
) -> set[str]:
    """Insert new units (id → row), before their sources; update lists.

    Called inside a change. Sources are row of the unit, origin, uri and declaration.

    Returns:
        The keys of their names, for `relations.resolve_names` once renamed units are updated.
    """
    declared = _in_order(units.values(), sources)
    merged = {row: _merge(declared[row], unit_id) for unit_id, row in units.items()}
    keys = {row: _keys(unit) for row, unit in merged.items()}
    connection.executemany(
        "INSERT INTO units (name, kind, aliases, metadata, match, row, id) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((*merged[row].columns(), row, unit_id) for unit_id, row in units.items()),
    )
    _insert_names(connection, keys)
    facts.add_metadata(connection, {row: unit.metadata for row, unit in merged.items()})
    inverted.add_names(
        connection, {row: keys[row] if unit.match else set() for row, unit in merged.items()}
    )
    return set().union(*keys.values())


def update_units(connection: Connection, units: Mapping[str, int]) -> None:
    """Update units (id → row) from the declarations of their sources; update lists and relations.

    Called inside a change.
    """
    rows = as_json(units.values())
    stored = {
        row: fields
        for row, *fields in connection.execute(
            "SELECT u.row, u.name, u.kind, u.match, u.metadata FROM json_each(?) w "
            "CROSS JOIN units u ON u.row = w.value",
            (rows,),
        )
    }
    before: dict[int, set[str]] = {row: set() for row in stored}
    for row, key in connection.execute(
        "SELECT n.unit, n.key FROM json_each(?) w CROSS JOIN names n ON n.unit = w.value", (rows,)
    ):
        before[row].add(key)
    declared = _declarations(connection, units.values())
    merged = {row: _merge(declared[row], unit_id) for unit_id, row in units.items()}
    after = {row: _keys(unit) for row, unit in merged.items()}
    connection.executemany(
        "UPDATE units SET name = ?, kind = ?, aliases = ?, metadata = ?, match = ? WHERE row = ?",
        ((*unit.columns(), row) for row, unit in merged.items()),
    )
    metadata = {
        row: unit.metadata
        for row, unit in merged.items()
        if _encode(unit.metadata) != stored[row][3]
    }
    facts.drop_metadata(connection, list(metadata))
    facts.add_metadata(connection, metadata)
    connection.executemany(
        "DELETE FROM names WHERE key = ? AND unit = ?",
        ((key, row) for row in after for key in before[row] - after[row]),
    )
    _insert_names(connection, {row: after[row] - before[row] for row in after})
    new: dict[int, set[str]] = {}
    ids: list[str] = []
    keys: set[str] = set()
    for unit_id, row in units.items():
        unit, (name, kind, match, _) = merged[row], stored[row]
        matched_before = before[row] if match else set()
        matched = after[row] if unit.match else set()
        if not matched_before:
            new[row] = matched
        elif matched_before != matched:
            inverted.rename(connection, row, name_key(name), before=matched_before, after=matched)
        if before[row] != after[row] or (name, kind) != (unit.name, unit.kind):
            ids.append(unit_id)
            keys |= before[row] | after[row]
            if name != unit.name:
                chunks = content_rows.own_chunks(connection, row)
                cut = ((chunk, row, words(text)) for chunk, (_, text) in chunks.items())
                keywords.put(connection, [row], cut, again=True)
                facts.replace_read(connection, chunks)
            relations.rename_unit(connection, row, unit.name, unit.kind)
    inverted.add_names(connection, new)
    relations.resolve_names(connection, ids=ids, keys=keys)


def _insert_names(connection: Connection, keys: Mapping[int, set[str]]) -> None:
    connection.executemany(
        "INSERT INTO names (key, unit) VALUES (?, ?)",
        ((key, row) for row, of_unit in keys.items() for key in sorted(of_unit)),
    )


def differences(connection: Connection) -> Iterator[str]:
    """Yield where units and relations differ from the declarations of their sources."""
    for row, unit_id, *stored in connection.execute(
        "SELECT row, id, name, kind, aliases, metadata, match FROM units"
    ):
        merged = _merge(_declarations(connection, [row])[row], unit_id)
        expected = [
            merged.name,
            merged.kind,
            list(merged.aliases),
            dict(merged.metadata),
            int(merged.match),
        ]
        name, kind, aliases, metadata, match = stored
        if [name, kind, json.loads(aliases), json.loads(metadata), match] != expected:
            yield f"unit {unit_id!r} is not what its sources declare"
        names = connection.column("SELECT key FROM names WHERE unit = ?", (row,))
        if set(names) != _keys(merged):
            yield f"the names of unit {unit_id!r} are not those that its sources declare"
    for row, uri, declared in connection.execute(
        "SELECT row, uri, declared FROM sources WHERE unit IS NOT NULL"
    ):
        if Declaration.from_json(declared).relations != relations.stored_digest(connection, row):
            yield f"the relations stored of {uri} are not those that it states"


def update_relation_digest(connection: Connection, source: int) -> None:
    """Record the stored relations of a source as the ones that it states.

    The source then counts as changed at the next ingest, which restores relations that were deleted
    with other units.
    """
    (declared,) = connection.execute(
        "SELECT declared FROM sources WHERE row = ?", (source,)
    ).fetchone()
    stored = relations.stored_digest(connection, source)
    connection.execute(
        "UPDATE sources SET declared = ? WHERE row = ?",
        (replace(Declaration.from_json(declared), relations=stored).to_json(), source),
    )


_Declared = list[tuple[str, Declaration]]
"""Origin and declaration of each source of a unit, in order of precedence."""


def _declarations(connection: Connection, units: Iterable[int]) -> dict[int, _Declared]:
    """Return what the sources of units declare, by row of the unit."""
    rows = list(units)
    sources = connection.execute(
        "SELECT s.unit, s.origin, s.uri, s.declared FROM json_each(?) w "
        "CROSS JOIN sources s ON s.unit = w.value",
        (as_json(rows),),
    )
    return _in_order(rows, ((*fields, Declaration.from_json(text)) for *fields, text in sources))


def _in_order(
    units: Iterable[int], sources: Iterable[tuple[int, str, str, Declaration]]
) -> dict[int, _Declared]:
    """Return what sources declare, by row of the unit."""
    by_unit: dict[int, list[tuple[int, str, str, Declaration]]] = {row: [] for row in units}
    for unit, origin, uri, declared in sources:
        by_unit[unit].append((_PRECEDENCE[origin], uri, origin, declared))
    return {
        unit: [(origin, entry) for *_, origin, entry in sorted(of_unit, key=itemgetter(0, 1))]
        for unit, of_unit in by_unit.items()
    }


def _merge(declared: _Declared, unit_id: str) -> _Merged:
    """Merge declarations: the first name and kind, all aliases and metadata."""
    entries = [entry for _, entry in declared]
    kinds = [entry.kind for entry in entries if entry.kind is not None]
    name = next((entry.name for entry in entries if entry.name is not None), "") or unit_id
    # An update may replace what the others declare.
    updates = [entry for entry in entries if entry.replaces]
    metadata: dict[str, Any] = {}
    replacing = [entry for entry in updates if entry.metadata is not None][:1]
    for entry in reversed(replacing or entries):
        metadata.update(entry.metadata or {})
    aliases = _aliases(declared, updates)
    return _Merged(
        name=name,
        kind=(kinds[0] if kinds else "") or relations.ANY_KIND,
        aliases=[alias for alias in aliases if alias != name],
        metadata=metadata,
        match=False not in [entry.match for entry in entries],
    )


def _aliases(declared: _Declared, updates: Sequence[Declaration]) -> dict[str, None]:
    """Return the declared aliases and the names that other sources give the unit.

    Renaming a unit removes its old name, but not the names of what joined it.
    """
    replacing = [entry for entry in updates if entry.aliases is not None][:1]
    entries = replacing or [entry for _, entry in declared]
    aliases = {alias: None for entry in entries for alias in entry.aliases or ()}
    if not replacing:
        renamed = any(entry.name is not None for entry in updates)
        for origin, entry in declared:
            if entry.name and (origin == "join" or not renamed):
                aliases[entry.name] = None
    return aliases


def as_read(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as it is read again: lists for tuples, and so on."""
    fields = dict(metadata)
    try:
        stored: dict[str, Any] = orjson.loads(orjson.dumps(fields))
    except TypeError:  # an integer of more than 64 bits
        stored = json.loads(_encode(fields))
    return stored


def _encode(value: object) -> str:
    """Return JSON in which equal values are equal texts."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _keys(merged: _Merged) -> set[str]:
    """Return the keys of all names of a unit, aliases in its metadata included."""
    names = [merged.name, *merged.aliases]
    for field in _ALIAS_FIELDS & merged.metadata.keys():
        value = merged.metadata[field]
        values = value if isinstance(value, list) else [value]
        names += [name for name in values if isinstance(name, str)]
    return {key for key in map(name_key, names) if key}
