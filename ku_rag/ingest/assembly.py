"""Assembly (KU-RAG, section 3.2.2): a unit is what its sources declare, merged.

The name, kind, aliases and metadata of a unit follow from the declarations of its sources, in an
order that does not depend on when they arrived. Deleting a source removes what only it declared;
deleting the source that joined a unit undoes the joining.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.store import content_rows, relations
from ku_rag.store.connection import Connection
from ku_rag.text.tokens import name_key
from ku_rag.types import Unit

_ALIAS_FIELDS = ("aliases", "alias", "also_known_as", "synonyms")
_PRECEDENCE = {"update": 0, "ingest": 1, "add": 1, "join": 2}
"""Order of declarations: updates, then the unit's own sources, then those that joined it."""

# `json.dumps` with an option makes an encoder at each call.
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one source declares of its unit; None where it declares nothing.

    Args:
        name: Of the unit.
        kind: Likewise.
        aliases: Likewise.
        metadata: Likewise.
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
        return _encode(
            {
                "name": self.name,
                "kind": self.kind,
                "aliases": self.aliases,
                "metadata": self.metadata,
                "match": self.match,
                "relations": self.relations,
                "replaces": self.replaces,
            }
        )

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
        """Return the declaration of a described unit.

        Args:
            unit: As a reader or a caller describes it.
            stated: `relations.digest` of the relations that the source states.
        """
        return cls(
            name=unit.name,
            kind=unit.kind,
            aliases=unit.aliases,
            metadata=dict(unit.metadata),
            match=unit.match,
            relations=stated,
        )

    @property
    def describes_unit(self) -> bool:
        """Whether anything but the name is declared."""
        return bool(self.kind or self.aliases or self.metadata or self.relations)


class DeclaredSource(NamedTuple):
    """A source row that is to be written.

    Args:
        uri: Its place.
        origin: "ingest", "add", "join" or "update".
        digest: Of its content.
        declared: What it declares of its unit; None for text that belongs to no unit.
    """

    uri: str
    origin: str
    digest: str
    declared: Declaration | None


class UnitRows(NamedTuple):
    """Row of a unit, None for text that belongs to no unit, and rows of its sources."""

    unit: int | None
    sources: Sequence[int]


def insert_units(
    connection: Connection,
    units: Mapping[str, Sequence[DeclaredSource]],
    inverted: InvertedIndex,
) -> list[UnitRows]:
    """Insert new units with their sources, with a few statements for all of them.

    Args:
        connection: Inside a change.
        units: Id and sources of each. Neither is stored.
        inverted: The lists to update.

    Returns:
        The rows of each unit, in order.
    """
    merged = [
        _merge(_ordered((s.origin, s.uri, s.declared) for s in sources if s.declared), unit_id)
        for unit_id, sources in units.items()
    ]
    first = content_rows.add_units(
        connection,
        [
            (
                unit_id,
                one.name or unit_id,
                one.kind or relations.ANY_KIND,
                one.aliases or (),
                _encode(one.metadata),
                one.match,
            )
            for unit_id, one in zip(units, merged, strict=True)
        ],
    )
    source = content_rows.add_sources(
        connection,
        [
            (one.uri, row, one.origin, one.digest, one.declared.to_json())
            for row, sources in enumerate(units.values(), first)
            for one in sources
            if one.declared
        ],
    )
    keys = {row: _keys(one) for row, one in enumerate(merged, first)}
    connection.executemany(
        "INSERT INTO names (key, unit) VALUES (?, ?)",
        ((key, row) for row, of_unit in keys.items() for key in sorted(of_unit)),
    )
    inverted.introduce({row: keys[row] for row, one in enumerate(merged, first) if one.match})
    relations.resolve_names(connection, ids=list(units), keys=set().union(*keys.values()))
    rows = []
    for row, sources in enumerate(units.values(), first):
        rows.append(UnitRows(row, range(source, source + len(sources))))
        source += len(sources)
    return rows


def update_unit(connection: Connection, unit_id: str, inverted: InvertedIndex, *, row: int) -> None:
    """Write the row of a unit from the declarations of its sources; update lists and relations.

    Args:
        connection: Inside a change.
        unit_id: The unit's id.
        inverted: The lists to update.
        row: The unit's row.
    """
    before_name, before_kind, before_match = connection.execute(
        "SELECT name, kind, match FROM units WHERE row = ?", (row,)
    ).fetchone()
    before = {key for (key,) in connection.execute("SELECT key FROM names WHERE unit = ?", (row,))}
    merged = _merge(_declarations(connection, row), unit_id)
    content_rows.put_unit(
        connection,
        unit_id=unit_id,
        name=merged.name or unit_id,
        kind=merged.kind or relations.ANY_KIND,
        aliases=merged.aliases or (),
        metadata=_encode(merged.metadata),
        match=merged.match,
    )
    after = _keys(merged)
    connection.executemany(
        "DELETE FROM names WHERE key = ? AND unit = ?", ((key, row) for key in before - after)
    )
    connection.executemany(
        "INSERT INTO names (key, unit) VALUES (?, ?)",
        ((key, row) for key in sorted(after - before)),
    )
    matched_before, matched = before if before_match else set(), after if merged.match else set()
    if matched_before != matched:
        inverted.rename(row, before=matched_before, after=matched)
    if before != after or (before_name, before_kind) != (merged.name, merged.kind):
        relations.rename_unit(
            connection, row, merged.name or unit_id, merged.kind or relations.ANY_KIND
        )
        relations.resolve_names(connection, ids=[unit_id], keys=before | after)


def differences(connection: Connection) -> Iterator[str]:
    """Yield where units and relations differ from the declarations of their sources."""
    for row, unit_id, *stored in connection.execute(
        "SELECT row, id, name, kind, aliases, metadata, match FROM units"
    ):
        merged = _merge(_declarations(connection, row), unit_id)
        expected = [
            merged.name or unit_id,
            merged.kind or relations.ANY_KIND,
            list(merged.aliases or ()),
            dict(merged.metadata or {}),
            int(merged.match),
        ]
        name, kind, aliases, metadata, match = stored
        if [name, kind, json.loads(aliases), json.loads(metadata), match] != expected:
            yield f"unit {unit_id!r} is not what its sources declare"
        names = connection.execute("SELECT key FROM names WHERE unit = ?", (row,))
        if {key for (key,) in names} != _keys(merged):
            yield f"the names of unit {unit_id!r} are not those that its sources declare"
    for row, uri, declared in connection.execute(
        "SELECT row, uri, declared FROM sources WHERE unit IS NOT NULL"
    ):
        if Declaration.from_json(declared).relations != relations.stored_digest(connection, row):
            yield f"the relations stored of {uri} are not those that it states"


def update_relation_digest(connection: Connection, source: int) -> None:
    """Let a source declare the relations that are stored of it.

    The source then counts as changed at the next ingest, which restores relations that were deleted
    with other units.
    """
    uri, unit, origin, digest, declared = connection.execute(
        "SELECT uri, unit, origin, hash, declared FROM sources WHERE row = ?", (source,)
    ).fetchone()
    stored = relations.stored_digest(connection, source)
    content_rows.put_source(
        connection,
        uri=uri,
        unit=unit,
        origin=origin,
        digest=digest,
        declared=replace(Declaration.from_json(declared), relations=stored).to_json(),
    )


def _declarations(connection: Connection, row: int) -> list[tuple[str, Declaration]]:
    """Return (origin, declaration) of a unit's sources, in order of precedence."""
    return _ordered(
        (origin, uri, Declaration.from_json(declared))
        for origin, uri, declared in connection.execute(
            "SELECT origin, uri, declared FROM sources WHERE unit = ?", (row,)
        )
    )


def _ordered(declared: Iterable[tuple[str, str, Declaration]]) -> list[tuple[str, Declaration]]:
    """Return (origin, declaration) of (origin, uri, declaration), in order of precedence."""
    found = list(declared)
    if len(found) > 1:
        found.sort(key=lambda one: (_PRECEDENCE[one[0]], one[1]))
    return [(origin, one) for origin, _, one in found]


def _merge(declared: list[tuple[str, Declaration]], unit_id: str) -> Declaration:
    """Merge declarations: the first name and kind, all aliases and metadata."""
    found = [one for _, one in declared]
    if len(found) == 1:  # the common case, with the same result as below
        (one,) = found
        name = unit_id if one.name is None else one.name
        aliases = tuple(a for a in dict.fromkeys(one.aliases or ()) if a != name)
        kind = relations.ANY_KIND if one.kind is None else one.kind
        return Declaration(name, kind, aliases, dict(one.metadata or {}), one.match)
    name = next((one.name for one in found if one.name is not None), unit_id)
    metadata: dict[str, Any] = {}
    for one in reversed(_replacing(found, "metadata") or found):
        metadata.update(one.metadata or {})
    return Declaration(
        name=name,
        kind=next((one.kind for one in found if one.kind is not None), relations.ANY_KIND),
        aliases=tuple(a for a in _aliases(declared) if a != name),
        metadata=metadata,
        match=all(one.match for one in found),
    )


def _aliases(declared: list[tuple[str, Declaration]]) -> dict[str, None]:
    """Return the declared aliases and the names that other sources give the unit.

    Renaming a unit removes its old name, but not the names of what joined it.
    """
    found = [one for _, one in declared]
    replacing = _replacing(found, "aliases")
    aliases = {alias: None for one in replacing or found for alias in one.aliases or ()}
    if not replacing:
        renamed = bool(_replacing(found, "name"))
        for origin, one in declared:
            if one.name and (origin == "join" or not renamed):
                aliases[one.name] = None
    return aliases


def _replacing(declared: list[Declaration], field: str) -> list[Declaration]:
    """Return the declaration that replaces all others of a field, if there is one."""
    return [one for one in declared if one.replaces and getattr(one, field) is not None][:1]


def _keys(merged: Declaration) -> set[str]:
    """Return the keys of all names of a unit, aliases in its metadata included."""
    names = [merged.name or "", *(merged.aliases or ())]
    for field in _ALIAS_FIELDS:
        value = (merged.metadata or {}).get(field)
        names += [
            one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)
        ]
    return {key for key in map(name_key, names) if key}
