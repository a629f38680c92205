"""Assembly (KU-RAG, section 3.2.2): what the sources of a unit say of it, together, is the unit.

A unit has no truth of its own: its name, kind, aliases and metadata follow from the declarations of
its sources, in an order that does not depend on when they came. So a source that goes takes with it
what only it said, and joining is undone by deleting the source that joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.store import content_rows, relations
from ku_rag.store.connection import Connection
from ku_rag.text.tokens import name_key
from ku_rag.types import Relation, Unit

_ALIAS_FIELDS = ("aliases", "alias", "also_known_as", "synonyms")
_FIRST_WORD = {"update": 0, "ingest": 1, "add": 1, "join": 2}
"""Who is heard first: what an update named, then the unit's own sources, then what joined it."""

# Made once: `json.dumps` with an option makes an encoder for every object.
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one source says of its unit; None where it says nothing.

    Args:
        replaces: whether aliases and metadata replace what others say (an update) or add to it.
    """

    name: str | None = None
    kind: str | None = None
    aliases: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    match: bool = True
    relations: str = ""
    replaces: bool = False

    def to_json(self) -> str:
        """The form that is stored and compared."""
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
        """Read the stored form."""
        fields = json.loads(text)
        if fields["aliases"] is not None:
            fields["aliases"] = tuple(fields["aliases"])
        return cls(**fields)

    @classmethod
    def from_unit(cls, unit: Unit, stated: Sequence[Relation]) -> Declaration:
        """What a described unit declares; the relations stated of it are kept as a digest."""
        return cls(
            name=unit.name,
            kind=unit.kind,
            aliases=unit.aliases,
            metadata=dict(unit.metadata),
            match=unit.match,
            relations=relations.digest(relations.said(stated)),
        )


@dataclass(frozen=True, slots=True)
class Born:
    """A unit that is new, with sources that are new.

    Args:
        place: which record of its batch it is.
        unit_id: its id.
        origin: of its sources.
        said: (uri, digest, declaration) of each source.
    """

    place: int
    unit_id: str
    origin: str
    said: list[tuple[str, str, Declaration]]


def settle_new(
    connection: Connection, born: Sequence[Born], inverted: InvertedIndex
) -> list[tuple[int, list[int]]]:
    """Write new units with their sources as `settle` would, all at once.

    Returns:
        For each, the row of the unit and the rows of its sources.
    """
    merged = [
        _merge(_heard((b.origin, uri, said) for uri, _, said in b.said), b.unit_id) for b in born
    ]
    first = content_rows.add_units(
        connection,
        [
            (
                one.unit_id,
                of.name or one.unit_id,
                of.kind or relations.ANY_KIND,
                of.aliases or (),
                _encode(of.metadata),
                of.match,
            )
            for one, of in zip(born, merged, strict=True)
        ],
    )
    source = content_rows.add_sources(
        connection,
        [
            (uri, first + n, one.origin, digest, declared.to_json())
            for n, one in enumerate(born)
            for uri, digest, declared in one.said
        ],
    )
    keys = {first + n: _keys(of) for n, of in enumerate(merged)}
    connection.executemany(
        "INSERT INTO names (key, unit) VALUES (?, ?)",
        ((key, row) for row, of in keys.items() for key in sorted(of)),
    )
    inverted.introduce({first + n: keys[first + n] for n, of in enumerate(merged) if of.match})
    relations.resolve_names(
        connection, ids=[one.unit_id for one in born], keys=set().union(*keys.values())
    )
    settled = []
    for n, one in enumerate(born):
        settled.append((first + n, list(range(source, source + len(one.said)))))
        source += len(one.said)
    return settled


def settle(connection: Connection, unit_id: str, inverted: InvertedIndex, *, row: int) -> None:
    """Write a unit's row from its sources' declarations and let lists and relations follow.

    Args:
        connection: inside a change.
        unit_id: the unit's id.
        inverted: the lists to keep right.
        row: its row.
    """
    before_name, before_kind, before_match = connection.execute(
        "SELECT name, kind, match FROM units WHERE row = ?", (row,)
    ).fetchone()
    before = {key for (key,) in connection.execute("SELECT key FROM names WHERE unit = ?", (row,))}
    merged = _merge(_declared(connection, row), unit_id)
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
    if before != after:
        _replace_names(connection, row, before, after)
    looked_up = before if before_match else set()
    look_up = after if merged.match else set()
    if looked_up != look_up:
        inverted.rename(row, before=looked_up, after=look_up)
    if before != after or (before_name, before_kind) != (merged.name, merged.kind):
        relations.rename_unit(
            connection, row, merged.name or unit_id, merged.kind or relations.ANY_KIND
        )
        relations.resolve_names(connection, ids=[unit_id], keys=before | after)


def differences(connection: Connection) -> Iterator[str]:
    """Where units and relations are not what the declarations of their sources say."""
    for row, unit_id, *stored in connection.execute(
        "SELECT row, id, name, kind, aliases, metadata, match FROM units"
    ):
        merged = _merge(_declared(connection, row), unit_id)
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


def restate(connection: Connection, source: int) -> None:
    """Let a source declare the relations that are left of it.

    So it counts as changed at the next ingest, which brings back what was deleted with others.
    """
    uri, unit, origin, digest, declared = connection.execute(
        "SELECT uri, unit, origin, hash, declared FROM sources WHERE row = ?", (source,)
    ).fetchone()
    left = relations.stored_digest(connection, source)
    content_rows.put_source(
        connection,
        uri=uri,
        unit=unit,
        origin=origin,
        digest=digest,
        declared=replace(Declaration.from_json(declared), relations=left).to_json(),
    )


def _declared(connection: Connection, row: int) -> list[tuple[str, Declaration]]:
    """(origin, declaration) of a unit's sources, in the order in which they are heard."""
    return _heard(
        (origin, uri, Declaration.from_json(declared))
        for origin, uri, declared in connection.execute(
            "SELECT origin, uri, declared FROM sources WHERE unit = ?", (row,)
        )
    )


def _heard(said: Iterable[tuple[str, str, Declaration]]) -> list[tuple[str, Declaration]]:
    """(origin, declaration) of (origin, uri, declaration), in the order in which they are heard."""
    ordered = sorted(said, key=lambda source: (_FIRST_WORD[source[0]], source[1]))
    return [(origin, declared) for origin, _, declared in ordered]


def _merge(declared: list[tuple[str, Declaration]], unit_id: str) -> Declaration:
    """All declarations as one: first come first heard, aliases and metadata together."""
    spoken = [one for _, one in declared]
    if len(spoken) == 1:  # as below, for most units
        (one,) = spoken
        name = unit_id if one.name is None else one.name
        aliases = tuple(a for a in dict.fromkeys(one.aliases or ()) if a != name)
        kind = relations.ANY_KIND if one.kind is None else one.kind
        return Declaration(name, kind, aliases, dict(one.metadata or {}), one.match)
    name = next((one.name for one in spoken if one.name is not None), unit_id)
    metadata: dict[str, Any] = {}
    for one in reversed(_replacing(spoken, "metadata") or spoken):
        metadata.update(one.metadata or {})
    return Declaration(
        name=name,
        kind=next((one.kind for one in spoken if one.kind is not None), relations.ANY_KIND),
        aliases=tuple(a for a in _aliases(declared) if a != name),
        metadata=metadata,
        match=all(one.match for one in spoken),
    )


def _aliases(declared: list[tuple[str, Declaration]]) -> dict[str, None]:
    """Declared aliases, and the names that other sources give the unit.

    Who renames a unit takes its old name away, but not the names of what joined it.
    """
    spoken = [one for _, one in declared]
    replacing = _replacing(spoken, "aliases")
    aliases = {alias: None for one in replacing or spoken for alias in one.aliases or ()}
    if not replacing:
        renamed = bool(_replacing(spoken, "name"))
        for origin, one in declared:
            if one.name and (origin == "join" or not renamed):
                aliases[one.name] = None
    return aliases


def _replacing(spoken: list[Declaration], field: str) -> list[Declaration]:
    """The declaration that replaces what all others say of a field, if there is one."""
    return [one for one in spoken if one.replaces and getattr(one, field) is not None][:1]


def _keys(merged: Declaration) -> set[str]:
    names = [merged.name or "", *(merged.aliases or ()), *_named_in(merged.metadata or {})]
    return {key for key in map(name_key, names) if key}


def _named_in(metadata: Mapping[str, Any]) -> Iterable[str]:
    for field in _ALIAS_FIELDS:
        value = metadata.get(field)
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str):
                yield name


def _replace_names(connection: Connection, row: int, before: set[str], after: set[str]) -> None:
    connection.executemany(
        "DELETE FROM names WHERE key = ? AND unit = ?", ((key, row) for key in before - after)
    )
    connection.executemany(
        "INSERT INTO names (key, unit) VALUES (?, ?)",
        ((key, row) for key in sorted(after - before)),
    )
