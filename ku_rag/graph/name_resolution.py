"""Which units a graph in a file is about.

A name in a file means, in this order: the entity of that id, the one entity of that name, the one
of that alias, a unit of the knowledge base by id, the one entity of the file that is called so in
another spelling, the one unit of the base that bears the name. What it means then is written as an
id; what several are called is refused.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ku_rag.errors import BadInput
from ku_rag.graph.graph_records import Described, Part, Statement
from ku_rag.graph.model import CAPTION, TOPIC
from ku_rag.store.connection import Connection
from ku_rag.store.relations import ANY_KIND, Said
from ku_rag.store.sql import as_json
from ku_rag.text.tokens import name_key
from ku_rag.types import Quarantined, Unit

ONLY_NAMED = ANY_KIND
"""The kind of entities that relations end at and nobody describes."""


class Known(NamedTuple):
    """A unit that the base knows from elsewhere."""

    id: str
    name: str


class Entry(NamedTuple):
    """One unit with what one place says of it.

    Args:
        unit: its declaration, without relations.
        uri: of the source.
        relations: what it states.
        texts: documents.
        images: picture files.
        partial: some of its pictures could not be found.
        videos: of which frames may be taken.
    """

    unit: Unit
    uri: str
    relations: list[Said]
    texts: tuple[str, ...]
    images: tuple[Path, ...]
    partial: bool
    videos: tuple[str, ...] = ()


Lookup = Callable[[Iterable[str]], Mapping[str, Known | None]]
"""From ids and names to the units that the base knows from elsewhere; None where it knows several.
"""


def known_units(
    connection: Connection, names: Iterable[str], within: Sequence[tuple[str, str]]
) -> dict[str, Known | None]:
    """The units of some ids, or of names that one unit alone bears; None where several do.

    Args:
        connection: the store.
        names: ids and names.
        within: ranges of uris (from, up to): units that only these speak of are left out.
    """
    wanted = [(name, name_key(name)) for name in dict.fromkeys(names)]
    elsewhere = "".join(" AND NOT (s.uri >= ? AND s.uri < ?)" for _ in within)
    other = f"EXISTS (SELECT 1 FROM sources s WHERE s.unit = u.row{elsewhere})"
    ranges = [end for one in within for end in one]
    found: dict[str, Known | None] = {}
    for key, unit, name in connection.execute(
        "SELECT w.key, u.id, u.name FROM json_each(?) w CROSS JOIN units u "
        f"ON u.id = w.value WHERE {other}",
        (as_json(name for name, _ in wanted), *ranges),
    ):
        found[wanted[key][0]] = Known(unit, name)
    bearing: dict[str, dict[str, Known]] = {}
    for key, unit, name, declared in connection.execute(
        "SELECT w.key, u.id, u.name, s.declared FROM json_each(?) w "
        "CROSS JOIN names n ON n.key = w.value CROSS JOIN units u ON u.row = n.unit "
        f"CROSS JOIN sources s ON s.unit = u.row WHERE w.value != ''{elsewhere}",
        (as_json(key for _, key in wanted), *ranges),
    ):
        asked, spelt = wanted[key]
        # What only these call it so may be what is about to change.
        if not within or spelt in _called(declared):
            bearing.setdefault(asked, {})[unit] = Known(unit, name)
    for asked, units in bearing.items():
        exact = [one for one in units.values() if one.name == asked] or list(units.values())
        found.setdefault(asked, exact[0] if len(exact) == 1 else None)
    return found


def _called(declared: str) -> set[str]:
    """The keys of all that a source may call its unit."""
    said = json.loads(declared)
    given = [said["name"], *(said["aliases"] or ())]
    for value in (said["metadata"] or {}).values():
        given += value if isinstance(value, list) else [value]
    return {name_key(one) for one in given if isinstance(one, str)}


# ---- a file ------------------------------------------------------------------------------------


class Linked:
    """What a file says, as what is stored of each unit.

    Args:
        parts: of the file.
        lookup: asks the base.

    Attributes:
        problems: what was left out so far.
        only_named: names at which relations end and that nobody describes; complete after
            `entries`.
    """

    def __init__(self, parts: Sequence[Part], lookup: Lookup) -> None:
        self.problems = [problem for part in parts for problem in part.problems]
        self.only_named: set[str] = set()
        self._parts = parts
        self._meant: dict[str, str | None] = {}
        self._aims: dict[str, tuple[str | None, str | None]] = {}
        self._ids: dict[str, str | None] = {}
        for part in parts:
            for entity in part.entities.values():
                first = self._ids.setdefault(entity.name, entity.id)
                self._ids[entity.name] = entity.id if first == entity.id else None
        names = frozenset(self._ids)
        for part in parts:
            for entity in part.entities.values():
                for alias in entity.aliases:
                    if alias not in names:
                        first = self._ids.setdefault(alias, entity.id)
                        self._ids[alias] = entity.id if first == entity.id else None
        self._units = {of: of for part in parts for of in part.entities}
        self._known = lookup(self._asked())
        self._names = {known.id: known.name for known in self._known.values() if known}
        self._join()
        for part in parts:
            for entity in part.entities.values():
                self._names.setdefault(self._units[entity.id], entity.name)
        self._described = frozenset(self._names)
        self._stated = [self._by_head(part) for part in parts]

    def uris(self) -> Iterator[str]:
        """The uris of the sources that `entries` speaks of."""
        for part, stated in zip(self._parts, self._stated, strict=True):
            here = set()
            for of in part.entities:
                here.add(self._units[of])
                yield f"{part.uri}#{of}"
            for head in stated.keys() - here:
                yield f"{part.stated}#{head}"

    def entries(self) -> Iterator[Entry | Quarantined]:
        """What has to be stored, unit by unit; and what of it cannot be."""
        for part, stated in zip(self._parts, self._stated, strict=True):
            left = dict(stated)
            for entity in part.entities.values():
                yield from self._entry(part, entity, left.pop(self._units[entity.id], ()))
            for head, statements in left.items():
                yield from self._head(part, head, statements)

    def _asked(self) -> dict[str, None]:
        """What the base may know: links, ids, and names that mean no entity of the file."""
        asked: dict[str, None] = {}
        for part in self._parts:
            for entity in part.entities.values():
                asked[entity.unit or entity.id] = None
        meant = {one[0] for part in self._parts for one in part.statements}
        meant |= {one[2] for part in self._parts for one in part.statements}
        return asked | dict.fromkeys(sorted(meant - self._units.keys()))

    def _join(self) -> None:
        """Let entities be the units that they are said to be."""
        for part in self._parts:
            for entity in part.entities.values():
                if entity.unit is None:
                    continue
                if known := self._known.get(entity.unit):
                    self._units[entity.id] = known.id
                else:
                    self.problems.append(
                        Quarantined(
                            f"{part.uri}#{entity.id}",
                            f"there is no unit {entity.unit!r}, or several are called so: name "
                            "one by its id; the entity is kept as a unit of its own",
                        )
                    )

    def _by_head(self, part: Part) -> dict[str, list[Statement]]:
        stated: dict[str, list[Statement]] = {}
        named: dict[str, list[Statement]] = {}
        for one in part.statements:
            if one[0] in named:
                named[one[0]].append(one)
            else:
                named[one[0]] = [one]
        for name, statements in named.items():
            head = self._unit(name)
            if head is None:
                self.problems += [_ambiguous(part, name, one) for one in statements]
            elif head in stated:
                stated[head] += statements
            else:
                stated[head] = statements
                self._names.setdefault(head, part.names.get(head, head))
        return stated

    def _unit(self, name: str) -> str | None:
        """The unit that a name of the file means, the name itself if it is new; None: unclear."""
        if name in self._meant:
            return self._meant[name]
        found: str | None
        if name in self._units:
            found = self._units[name]
        elif name in self._ids:
            one = self._ids[name]
            found = one and self._units[one]
        else:
            known = self._known.get(name)
            spelt = name_key(name)
            if spelt in self._spelt and not (known and known.id == name):
                one = self._spelt[spelt]
                found = one and self._units[one]
            elif name in self._known:
                found = known and known.id
            else:
                found = name
        self._meant[name] = found
        return found

    @cached_property
    def _spelt(self) -> dict[str, str | None]:
        """The entity of the file that is called so in any spelling; None: several are."""
        spelt: dict[str, str | None] = {}
        for name, of in self._ids.items():
            if key := name_key(name):
                first = spelt.setdefault(key, of)
                spelt[key] = of if first == of else None
        return spelt

    def _entry(
        self, part: Part, entity: Described, statements: Iterable[Statement]
    ) -> Iterator[Entry | Quarantined]:
        uri = f"{part.uri}#{entity.id}"
        unit = self._units[entity.id]
        known = self._known.get(entity.unit or entity.id)
        joins = known is not None and known.id == unit
        problems: list[Quarantined] = []
        metadata: dict[str, Any] = dict(entity.metadata)
        metadata |= {TOPIC: True} if entity.topic else {}
        metadata |= {CAPTION: entity.caption} if entity.caption else {}
        said = entity.texts, entity.images, entity.partial, entity.videos
        match = (entity.topic or joins) if entity.match is None else entity.match
        known_as: dict[str, Any] = {
            "id": unit,
            "kind": entity.kind,
            "aliases": entity.aliases,
            "match": match,
        }
        try:
            described = Unit(entity.name, metadata=metadata, **known_as)
        except BadInput as error:
            yield Quarantined(uri, f"{error}; the rest of the entity is kept")
            described = Unit(entity.name, **known_as)
        yield Entry(described, uri, self._relations(part, statements, problems), *said)
        yield from problems

    def _head(
        self, part: Part, head: str, statements: Iterable[Statement]
    ) -> Iterator[Entry | Quarantined]:
        """What is stated of an entity that this part does not describe."""
        problems: list[Quarantined] = []
        relations = self._relations(part, statements, problems)
        # Of its names nothing is said here: who describes it says whether they are looked up.
        match = head in self._described
        unit = Unit(self._names[head], id=head, match=match)
        yield Entry(unit, f"{part.stated}#{head}", relations, (), (), partial=False)
        yield from problems

    def _relations(
        self, part: Part, statements: Iterable[Statement], problems: list[Quarantined]
    ) -> list[Said]:
        """What an entity states, each thing once."""
        made = []
        aims = self._aims
        for one in dict.fromkeys(statements):
            _, relation, tail, information, condition, kind = one
            if kind:
                aim: tuple[str | None, str | None] = (tail, kind)
                self.only_named.add(tail)
            else:
                aim = aims[tail] if tail in aims else self._aim(tail)
            if aim[0] is None:
                problems.append(_ambiguous(part, tail, one))
            else:
                made.append((relation, aim[0], aim[1], information, condition))
        return made

    def _aim(self, tail: str) -> tuple[str | None, str | None]:
        """The target that a name means, and the kind that it declares where nobody describes it."""
        target = self._unit(tail)
        kind = None
        if target is not None and target not in self._names:
            self.only_named.add(tail)
            kind = ONLY_NAMED
        self._aims[tail] = target, kind
        return target, kind


def split(
    entries: Iterable[Entry | Quarantined], connection: Connection
) -> tuple[list[Entry], list[Entry | Quarantined]]:
    """Units that are new and bring but relations, and the rest.

    Args:
        entries: as `Linked.entries` makes them.
        connection: to the store.
    """
    listed = list(entries)
    met = Counter(one.unit.id for one in listed if isinstance(one, Entry))
    bare = {
        one.uri: one
        for one in listed
        if isinstance(one, Entry)
        and met[one.unit.id] == 1
        and not (one.texts or one.images or one.partial)
    }
    stored = connection.execute(
        "SELECT w.key FROM json_each(?) w WHERE EXISTS (SELECT 1 FROM sources WHERE uri = w.key) "
        "OR EXISTS (SELECT 1 FROM units WHERE id = w.value)",
        (json.dumps({uri: one.unit.id for uri, one in bare.items()}),),
    ).fetchall()
    for (uri,) in stored:
        del bare[uri]
    rest = [one for one in listed if not (isinstance(one, Entry) and one.uri in bare)]
    return list(bare.values()), rest


def _ambiguous(part: Part, name: str, one: Statement) -> Quarantined:
    return Quarantined(
        _place(part, one),
        f"several entities are called {name!r}: name the one that is meant by its id",
    )


def _place(part: Part, one: Statement) -> str:
    head, relation, tail, *_ = one
    return f"{part.stated}: {head} —{relation}→ {tail}"
