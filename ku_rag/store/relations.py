"""Entities and relations: the rows of the graph.

An entity has a row while a relation mentions it. The target of a relation is stored as written. Its
tail, the entity that the target means, is updated whenever a unit is added, deleted or renamed, so
that the order of insertion makes no difference.

Functions that write are called inside a change (`Database.change`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ku_rag.store.connection import SLICE, Connection, as_json, fields, next_row
from ku_rag.text.tokens import name_key
from ku_rag.types import Relation

Said = tuple[str, str, str | None, str | None, str | None]
"""A relation as a tuple: relation, target, target_kind, information, condition."""

_Meant = tuple[str, str | None]
"""The target of a relation as written, and the kind that it declares, or None."""

_REBUILT = 20_000
"""Least number of new relations for which the indexes are rebuilt, if there are fewer old ones."""
ANY_KIND = "entity"
"""Default kind of an undeclared entity."""

_QUALIFIED = re.compile(r"[^>]*[^>\s\-=]>([^>\s].*)", re.DOTALL)
_WANTED = (
    "(SELECT json_extract(value, '$[0]') AS n, json_extract(value, '$[1]') AS target, "
    "json_extract(value, '$[2]') AS name, json_extract(value, '$[3]') AS key, "
    "json_extract(value, '$[4]') AS kind FROM json_each(?1)) w"
)

_COLUMNS = "source, head, relation, target, target_kind, information, condition, target_key, tail"


class Stated(NamedTuple):
    """The relations of one source.

    Args:
        source: Row of the source.
        unit: Row of its unit.
        relations: The relations, in order.
    """

    source: int
    unit: int
    relations: Sequence[Said]


def said(relations: Iterable[Relation]) -> list[Said]:
    """Return relations as tuples."""
    return [
        (one.relation, one.target, one.target_kind, one.information, one.condition)
        for one in relations
    ]


def add_many(connection: Connection, stated: Sequence[Stated]) -> range:
    """Insert the relations of sources; return the new rows."""
    heads = _unit_entities(connection, {of.unit for of in stated if of.relations})
    ends = _tails(connection, {one[1:3] for of in stated for one in of.relations})
    count = sum(len(of.relations) for of in stated)
    first = next_row(connection, "relations")
    with _indexing(connection, count):
        connection.executemany(
            f"INSERT INTO relations (row, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (row, of.source, heads[of.unit], *one, *ends[one[1:3]])
                for row, (of, one) in enumerate(
                    ((of, one) for of in stated for one in of.relations), first
                )
            ),
        )
    return range(first, first + count)


@contextmanager
def _indexing(connection: Connection, new: int) -> Iterator[None]:
    """Rebuild the indexes afterwards if that is faster than updating them."""
    # The short test first: counting reads the whole table.
    count = "SELECT count(*) FROM relations"
    if new < _REBUILT or new < connection.execute(count).fetchone()[0]:
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


def digest(stated: Iterable[Said]) -> str:
    """Return a checksum of relations as a string; "" for none."""
    listed = list(stated)
    return str(zlib.crc32(as_json(listed).encode())) if listed else ""


def stored_digest(connection: Connection, source: int) -> str:
    """Return the checksum of the stored relations of a source."""
    rows = connection.execute(
        "SELECT relation, target, target_kind, information, condition FROM relations "
        "WHERE source = ? ORDER BY row",
        (source,),
    )
    return digest(rows)


def sources_aiming_at(connection: Connection, unit: int) -> list[int]:
    """Return the rows of the sources of other units with a relation to this one."""
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
    """Update the tails of all relations whose target has one of these unit ids or name keys."""
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
    """Return the sources, by row, that have relations."""
    rows = connection.execute(
        "SELECT w.value FROM json_each(?) w "
        "WHERE EXISTS (SELECT 1 FROM relations WHERE source = w.value)",
        (as_json(sources),),
    )
    return {source for (source,) in rows}


def waiting(connection: Connection, rows: Sequence[int]) -> list[tuple[str, str, str]]:
    """Return the unresolved relations among `rows` as (name of the head, relation, target)."""
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
    """Update the name and kind of a unit's entity."""
    connection.execute(
        "UPDATE entities SET name = ?, key = ?, kind = ? WHERE unit = ?",
        (name, name_key(name), kind, unit),
    )


def drop_of_source(connection: Connection, source: int) -> list[int]:
    """Delete the relations of a source; return their rows."""
    return _drop(connection, "source = ?", source)


def let_go(connection: Connection, unit: int) -> list[int]:
    """Set the tails of other units' relations to a unit to NULL; return their rows."""
    rows = connection.execute(
        "UPDATE relations SET tail = NULL FROM entities e "
        "WHERE e.unit = ? AND relations.tail = e.row AND relations.head != e.row "
        "RETURNING relations.row",
        (unit,),
    ).fetchall()
    return [row for (row,) in rows]


def drop_of_unit(connection: Connection, unit: int) -> list[int]:
    """Delete all relations from and to a unit; return their rows."""
    entity = connection.execute("SELECT row FROM entities WHERE unit = ?", (unit,)).fetchone()
    if not entity:
        return []
    rows = _drop(connection, "head = ?1 OR tail = ?1", entity[0])
    connection.execute("DELETE FROM entities WHERE unit = ?", (unit,))
    return rows


def drop(connection: Connection, rows: Sequence[int]) -> set[int]:
    """Delete relations by row; return the rows of their sources."""
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
    """Return the key of each target, and the row of the entity that it means.

    That is a unit by id, a unit by name, an entity of a declared kind, or None. New entities are
    inserted.
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
    """Return the units that (target, key, kind) mean, as {place in `wanted`: row}.

    That is the unit of that id, or else the only unit of exactly that name, or else the only unit
    with the name in another spelling or as an alias. A name of several units means none of them.
    If a kind is declared, only units of this kind count. A qualified name such as
    `Zinogre>Rathian` that is not an id may also mean a unit outside of sub-graphs, `Rathian`.
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
    """Return the rows of declared entities by (name, kind); new ones are inserted."""
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
    """Return the rows of the entities of units; new ones are inserted."""
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
    """Yield a sentence for each relation or entity that is inconsistent with sources and units."""
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
    """Return unit, name and kind of the entity that a target should mean."""
    unit = _units_meant(connection, [(target, key, kind)]).get(0)
    if unit is not None:
        name_and_kind = connection.execute("SELECT name, kind FROM units WHERE row = ?", (unit,))
        return [unit, *name_and_kind.fetchone()]
    return [None, target if kind is not None else None, kind]
