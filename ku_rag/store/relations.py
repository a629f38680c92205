"""Entities and relations: the rows of the graph.

An entity has a row while a relation mentions it. A relation's target is written as its author gave
it; its tail is looked up among the units and entities that there are, again whenever a unit comes,
goes or is renamed, so that the order of arrival makes no difference.

Everything here is called inside a change (`Database.change`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ku_rag.store.connection import Connection
from ku_rag.store.sql import SLICE, as_json, fields, next_row
from ku_rag.text.tokens import name_key
from ku_rag.types import Relation

Said = tuple[str, str, str | None, str | None, str | None]
"""A relation as a tuple: relation, target, target_kind, information, condition."""

_Meant = tuple[str, str | None]
"""What a relation aims at: the target as written and the kind that it declares, if any."""

_REBUILT = 20_000
"""From so many new relations on, if there are fewer old ones, indexes are sooner built anew."""
ANY_KIND = "entity"
"""The kind of what nobody says more of."""

_QUALIFIED = re.compile(r"[^>]*[^>\s\-=]>([^>\s].*)", re.DOTALL)
_WANTED = (
    "(SELECT json_extract(value, '$[0]') AS n, json_extract(value, '$[1]') AS target, "
    "json_extract(value, '$[2]') AS name, json_extract(value, '$[3]') AS key, "
    "json_extract(value, '$[4]') AS kind FROM json_each(?1)) w"
)

_COLUMNS = "source, head, relation, target, target_kind, information, condition, target_key, tail"


class Stated(NamedTuple):
    """What one source states about its unit.

    Args:
        source: row of the source.
        unit: row of its unit.
        relations: in their order.
    """

    source: int
    unit: int
    relations: Sequence[Said]


def said(relations: Iterable[Relation]) -> list[Said]:
    """Relations as tuples."""
    return [
        (one.relation, one.target, one.target_kind, one.information, one.condition)
        for one in relations
    ]


def add(connection: Connection, *, source: int, unit: int, stated: Sequence[Relation]) -> list[int]:
    """Store what a source states about its unit; returns the new rows."""
    return list(add_many(connection, [Stated(source, unit, said(stated))]))


def add_many(connection: Connection, stated: Sequence[Stated]) -> range:
    """Store what sources state, many relations to a statement; returns the new rows."""
    heads = _unit_entities(connection, {of.unit for of in stated if of.relations})
    ends = _tails(connection, {one[1:3] for of in stated for one in of.relations})
    count = sum(len(of.relations) for of in stated)
    first = next_row(connection, "relations")
    with _indexing(connection, count):
        connection.executemany(
            f"INSERT INTO relations (row, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((row, *one) for row, one in enumerate(_rows(stated, heads, ends), first)),
        )
    return range(first, first + count)


def _rows(
    stated: Iterable[Stated],
    heads: Mapping[int, int],
    ends: Mapping[_Meant, tuple[str, int | None]],
) -> Iterator[tuple[object, ...]]:
    """The rows of relations, in the order of `_COLUMNS`."""
    for source, unit, relations in stated:
        for word, target, kind, more, when in relations:
            yield source, heads[unit], word, target, kind, more, when, *ends[target, kind]


@contextmanager
def _indexing(connection: Connection, new: int) -> Iterator[None]:
    """Build the indexes of the table anew after this, where that is sooner done than adding."""
    # Few are the common case, and counting reads them all.
    if new < _REBUILT or new < _count(connection):
        yield
        return
    indexes = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'relations'"
    ).fetchall()
    for name, _ in indexes:
        connection.execute(f"DROP INDEX {name}")
    yield
    for _, made in indexes:
        connection.execute(made)


def _count(connection: Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM relations").fetchone()
    return int(count)


def digest(stated: Iterable[Said]) -> str:
    """A string that changes when one of these relations does; "" for none."""
    listed = list(stated)
    return str(zlib.crc32(as_json(listed).encode())) if listed else ""


def stored_digest(connection: Connection, source: int) -> str:
    """The digest of what is stored of the relations that a source states."""
    rows = connection.execute(
        "SELECT relation, target, target_kind, information, condition FROM relations "
        "WHERE source = ? ORDER BY row",
        (source,),
    )
    return digest(rows)


def sources_aiming_at(connection: Connection, unit: int) -> list[int]:
    """Rows of the sources of other units that state a relation to this one."""
    rows = connection.execute(
        "SELECT DISTINCT r.source FROM entities e JOIN relations r ON r.tail = e.row "
        "JOIN sources s ON s.row = r.source WHERE e.unit = ?1 AND s.unit IS NOT ?1",
        (unit,),
    )
    return [source for (source,) in rows]


def unqualified_name(target: str) -> str:
    """Return a name without its sub-graph: `Zinogre>Bite` is `Bite` in the sub-graph of Zinogre."""
    found = _QUALIFIED.fullmatch(target)
    return found[1] if found else target


def target_key(target: str) -> str:
    """Return the key under which the target of a relation is looked up."""
    return name_key(unqualified_name(target))


def resolve_names(connection: Connection, *, ids: Iterable[str], keys: Iterable[str]) -> None:
    """Look up again every relation that aims at one of these unit ids or name keys."""
    if connection.execute("SELECT 1 FROM relations LIMIT 1").fetchone() is None:
        return
    wanted = {*keys, *map(target_key, ids)}
    rows = connection.execute(
        "SELECT r.row FROM json_each(?) w CROSS JOIN relations r ON r.target_key = w.value",
        (as_json(wanted),),
    ).fetchall()
    for start in range(0, len(rows), SLICE):
        resolve(connection, [row for (row,) in rows[start : start + SLICE]])


def resolve(connection: Connection, rows: Sequence[int]) -> None:
    """Set the tails of relations from the units and declared entities as they are now."""
    aimed = connection.execute(
        "SELECT r.row, r.target, r.target_kind, r.tail FROM json_each(?) w "
        "CROSS JOIN relations r ON r.row = w.value",
        (as_json(rows),),
    ).fetchall()
    tails = _tails(connection, {(target, kind) for _, target, kind, _ in aimed})
    moved = [
        (row, found, tail)
        for row, target, kind, tail in aimed
        if (found := tails[target, kind][1]) != tail
    ]
    connection.execute(
        "UPDATE relations SET tail = n.tail FROM (SELECT json_extract(value, '$[0]') AS row, "
        "json_extract(value, '$[1]') AS tail FROM json_each(?)) n WHERE relations.row = n.row",
        (as_json(moved),),
    )
    _drop_unmentioned(connection, {tail for *_, tail in moved})


def sources_that_state(connection: Connection, sources: Iterable[int]) -> set[int]:
    """Those of some sources, by row, of which relations are stored."""
    rows = connection.execute(
        "SELECT w.value FROM json_each(?) w "
        "WHERE EXISTS (SELECT 1 FROM relations WHERE source = w.value)",
        (as_json(sources),),
    )
    return {source for (source,) in rows}


def waiting(connection: Connection, rows: Sequence[int]) -> list[tuple[str, str, str]]:
    """The relations among `rows` whose target nobody bears: (head's name, relation, target)."""
    if not rows:
        return []
    wanted = rows if isinstance(rows, range) else set(rows)
    return [
        (head, relation, target)
        for row, head, relation, target in connection.execute(
            "SELECT r.row, e.name, r.relation, r.target FROM relations r "
            "JOIN entities e ON e.row = r.head WHERE r.tail IS NULL AND r.row BETWEEN ? AND ? "
            "ORDER BY r.row",
            (min(rows), max(rows)),
        )
        if row in wanted
    ]


def rename_unit(connection: Connection, unit: int, name: str, kind: str) -> None:
    """Carry a unit's new name and kind into the graph."""
    connection.execute(
        "UPDATE entities SET name = ?, key = ?, kind = ? WHERE unit = ?",
        (name, name_key(name), kind, unit),
    )


def drop_of_source(connection: Connection, source: int) -> list[int]:
    """Delete what a source states; returns the rows."""
    return _drop(connection, "source = ?", source)


def let_go(connection: Connection, unit: int) -> list[int]:
    """Let the relations of others to a unit end nowhere for now; returns their rows."""
    rows = connection.execute(
        "UPDATE relations SET tail = NULL FROM entities e "
        "WHERE e.unit = ? AND relations.tail = e.row AND relations.head != e.row "
        "RETURNING relations.row",
        (unit,),
    ).fetchall()
    return [row for (row,) in rows]


def drop_of_unit(connection: Connection, unit: int) -> list[int]:
    """Delete every relation from or to a unit; returns the rows."""
    entity = connection.execute("SELECT row FROM entities WHERE unit = ?", (unit,)).fetchone()
    if not entity:
        return []
    rows = _drop(connection, "head = ?1 OR tail = ?1", entity[0])
    connection.execute("DELETE FROM entities WHERE unit = ?", (unit,))
    return rows


def drop(connection: Connection, rows: Sequence[int]) -> set[int]:
    """Delete relations by row; returns the rows of the sources that stated them."""
    sources = set()
    for row in rows:
        (source,) = connection.execute(
            "SELECT source FROM relations WHERE row = ?", (row,)
        ).fetchone()
        sources.add(source)
        _drop(connection, "row = ?", row)
    return sources


def _drop(connection: Connection, where: str, value: int) -> list[int]:
    gone = connection.execute(
        f"DELETE FROM relations WHERE {where} RETURNING row, head, tail", (value,)
    ).fetchall()
    _drop_unmentioned(connection, {end for _, *ends in gone for end in ends})
    return [row for row, *_ in gone]


def _drop_unmentioned(connection: Connection, entities: Iterable[int | None]) -> None:
    connection.executemany(
        "DELETE FROM entities WHERE row = ?1 AND NOT EXISTS "
        "(SELECT 1 FROM relations WHERE head = ?1 OR tail = ?1)",
        ((entity,) for entity in entities if entity is not None),
    )


def _tails(
    connection: Connection, meant: Collection[_Meant]
) -> dict[_Meant, tuple[str, int | None]]:
    """The key of each target and the entity that it means.

    That is a unit by id, one by name, a declared entity, or None. Entities that are meant for the
    first time are made.
    """
    wanted = [(target, target_key(target), kind) for target, kind in meant]
    units = _units_meant(connection, wanted)
    entities = _unit_entities(connection, set(units.values()))
    left = [
        (target, name_key(target), kind)
        for n, (target, _, kind) in enumerate(wanted)
        if n not in units and kind is not None
    ]
    declared = _declared(connection, left)
    return {
        (target, kind): (
            key,
            entities[units[n]] if n in units else declared.get((target, kind)),
        )
        for n, (target, key, kind) in enumerate(wanted)
    }


def _units_meant(
    connection: Connection, wanted: Sequence[tuple[str, str, str | None]]
) -> dict[int, int]:
    """The units that (target, key, kind) mean: place in `wanted` → row.

    That is the unit of that id, or else the one unit of exactly that name, or else the one unit
    that bears the name in another spelling or as an alias. What several bear means none of them.
    Where a kind is declared, only units of this kind count. A qualified name such as
    `Zinogre>Rathian` that is no id may also mean a unit outside of sub-graphs, `Rathian`.
    """
    named = [(n, target, unqualified_name(target), *one) for n, (target, *one) in enumerate(wanted)]
    found: dict[int, int] = dict(
        connection.execute(
            f"SELECT w.n, u.row FROM {_WANTED} CROSS JOIN units u "
            "ON u.id IN (w.target, w.name) ORDER BY u.id = w.target",
            (as_json(named),),
        )
    )
    left = [one for one in named if one[0] not in found]
    bearing = connection.execute(
        "SELECT n, iif(sum(exact), max(iif(exact, row, 0)), row), "
        "iif(sum(exact), sum(exact), count(*)) AS bearers FROM ("
        f"SELECT w.n, u.row, u.name = w.name AS exact FROM {_WANTED} "
        "CROSS JOIN names x ON x.key = w.key CROSS JOIN units u ON u.row = x.unit "
        "WHERE w.key != '' AND (w.kind IS NULL OR w.kind = ?2 OR u.kind = w.kind) "
        "AND (w.name = w.target OR instr(u.id, '>') = 0)) GROUP BY n HAVING bearers = 1",
        (as_json(left), ANY_KIND),
    )
    return found | {n: unit for n, unit, _ in bearing}


def _declared(
    connection: Connection, wanted: Sequence[tuple[str, str, str | None]]
) -> dict[_Meant, int]:
    """The entities that (name, key, kind) declare, made where they are new: (name, kind) → row."""
    select = (
        "SELECT e.name, e.kind, e.row FROM (SELECT json_extract(value, '$[0]') AS name, "
        "json_extract(value, '$[1]') AS key, json_extract(value, '$[2]') AS kind "
        "FROM json_each(?)) w CROSS JOIN entities e "
        "ON e.key = w.key AND e.name = w.name AND e.kind = w.kind AND e.unit IS NULL"
    )
    rows = connection.execute(select, (as_json(wanted),)).fetchall()
    known: dict[_Meant, int] = {(name, kind): row for name, kind, row in rows}
    first = next_row(connection, "entities")
    new = [one for one in wanted if (one[0], one[2]) not in known]
    connection.execute(
        "INSERT INTO entities (row, name, key, kind) "
        f"SELECT key + ?, {fields(3)} FROM json_each(?)",
        (first, as_json(new)),
    )
    return known | {(name, kind): first + n for n, (name, _, kind) in enumerate(new)}


def _unit_entities(connection: Connection, units: Collection[int]) -> dict[int, int]:
    """The entities that units are, made where they are new: row of the unit → row."""
    known: dict[int, int] = {}
    new = []
    for unit, name, kind, row in connection.execute(
        "SELECT u.row, u.name, u.kind, e.row FROM json_each(?) w "
        "CROSS JOIN units u ON u.row = w.value LEFT JOIN entities e ON e.unit = u.row",
        (as_json(sorted(units)),),
    ):
        if row is None:
            new.append((name, name_key(name), kind, unit))
        else:
            known[unit] = row
    first = next_row(connection, "entities")
    connection.execute(
        "INSERT INTO entities (row, name, key, kind, unit) "
        f"SELECT key + ?, {fields(4)} FROM json_each(?)",
        (first, as_json(new)),
    )
    return known | {unit: first + n for n, (*_, unit) in enumerate(new)}


# ---- for verify --------------------------------------------------------------------------------


def differences(connection: Connection) -> Iterator[str]:
    """Where relations and entities are not what sources, units and names say."""
    for row, target, key, kind, owner, head, *tail in connection.execute(
        "SELECT r.row, r.target, r.target_key, r.target_kind, s.unit, h.unit, "
        "t.unit, t.name, t.kind FROM relations r LEFT JOIN sources s ON s.row = r.source "
        "LEFT JOIN entities h ON h.row = r.head LEFT JOIN entities t ON t.row = r.tail"
    ):
        if head is None or head != owner:
            yield f"relation row {row} does not start at the unit of its source"
        if key != target_key(target):
            yield f"relation row {row} is not looked up under the name of its target"
        if tail != _end(connection, target, key, kind):
            yield f"relation row {row} does not end at what its target {target!r} means"
    for row, name, key, kind, unit, *of_unit in connection.execute(
        "SELECT e.row, e.name, e.key, e.kind, e.unit, u.name, u.kind FROM entities e "
        "LEFT JOIN units u ON u.row = e.unit"
    ):
        if key != name_key(name) or (unit is not None and [name, kind] != of_unit):
            yield f"entity row {row} is not named as its unit, or not looked up under its name"
    for (row,) in connection.execute(
        "SELECT row FROM entities e WHERE NOT EXISTS "
        "(SELECT 1 FROM relations WHERE head = e.row OR tail = e.row)"
    ):
        yield f"entity row {row} is in no relation"


def _end(connection: Connection, target: str, key: str, kind: str | None) -> list[int | str | None]:
    """Unit, name and kind of the entity that a target means, as stored when all is well."""
    unit = _units_meant(connection, [(target, key, kind)]).get(0)
    if unit is not None:
        name_and_kind = connection.execute("SELECT name, kind FROM units WHERE row = ?", (unit,))
        return [unit, *name_and_kind.fetchone()]
    return [None, target if kind is not None else None, kind]
