"""Entities and relations: the rows of the graph.

An entity has a row while a relation mentions it. A relation's target is written as its author gave
it; its tail is looked up among the units and entities that there are, again whenever a unit comes,
goes or is renamed, so that the order of arrival makes no difference.

Everything here is called inside a change (`Database.change`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple

from ku_rag.language.tokens import name_key
from ku_rag.store.database import checksum
from ku_rag.store.rows import batched, marks
from ku_rag.types import Relation


def add(
    connection: sqlite3.Connection, *, source: int, unit: int, stated: Sequence[Relation]
) -> list[int]:
    """Store what a source states about its unit; returns the new rows."""
    if not stated:
        return []
    head = _unit_entity(connection, unit)
    rows = []
    for one in stated:
        fields = (one.relation, one.target, one.target_kind, one.information, one.condition)
        (row,) = connection.execute(
            "INSERT INTO relations (source, head, relation, target, target_kind, information, "
            "condition, target_key, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING row",
            (source, head, *fields, name_key(one.target), checksum(source, *fields)),
        ).fetchone()
        rows.append(int(row))
    resolve(connection, rows)
    return rows


def digest(stated: Iterable[Relation]) -> str:
    """Changes when one of these relations does; "" for none."""
    return _digest(astuple(one) for one in stated)


def stored_digest(connection: sqlite3.Connection, source: int) -> str:
    """The digest of what is stored of the relations that a source states."""
    return _digest(
        connection.execute(
            "SELECT relation, target, target_kind, information, condition FROM relations "
            "WHERE source = ? ORDER BY row",
            (source,),
        )
    )


def _digest(rows: Iterable[tuple[str | None, ...]]) -> str:
    fields = [field for row in rows for field in row]
    return str(checksum(*fields)) if fields else ""


def sources_aiming_at(connection: sqlite3.Connection, unit: int) -> list[int]:
    """Rows of the sources of other units that state a relation to this one."""
    rows = connection.execute(
        "SELECT DISTINCT r.source FROM entities e JOIN relations r ON r.tail = e.row "
        "JOIN sources s ON s.row = r.source WHERE e.unit = ?1 AND s.unit IS NOT ?1",
        (unit,),
    )
    return [source for (source,) in rows]


def resolve_names(
    connection: sqlite3.Connection, *, ids: Iterable[str], keys: Iterable[str]
) -> None:
    """Look up again every relation that aims at one of these unit ids or name keys."""
    if connection.execute("SELECT 1 FROM relations LIMIT 1").fetchone() is None:
        return
    rows: set[int] = set()
    for column, values in (("target", ids), ("target_key", keys)):
        for value in values:
            found = connection.execute(f"SELECT row FROM relations WHERE {column} = ?", (value,))
            rows.update(row for (row,) in found)
    resolve(connection, sorted(rows))


def resolve(connection: sqlite3.Connection, rows: Sequence[int]) -> None:
    """Set the tails of relations from the units and declared entities as they are now."""
    left: set[int] = set()
    for row in rows:
        target, key, kind, tail = connection.execute(
            "SELECT target, target_key, target_kind, tail FROM relations WHERE row = ?", (row,)
        ).fetchone()
        found = _find(connection, target, key, kind)
        if found != tail:
            connection.execute("UPDATE relations SET tail = ? WHERE row = ?", (found, row))
            left.add(tail)
    _drop_unmentioned(connection, left)


def waiting(connection: sqlite3.Connection, rows: Sequence[int]) -> list[tuple[str, str, str]]:
    """The relations among `rows` whose target nobody bears: (head's name, relation, target)."""
    found = []
    for some in batched(rows):
        found += connection.execute(
            "SELECT e.name, r.relation, r.target FROM relations r "
            "JOIN entities e ON e.row = r.head "
            f"WHERE r.tail IS NULL AND r.row IN ({marks(some)}) ORDER BY r.row",
            some,
        ).fetchall()
    return found


def rename_unit(connection: sqlite3.Connection, unit: int, name: str, kind: str) -> None:
    """Carry a unit's new name and kind into the graph."""
    connection.execute(
        "UPDATE entities SET name = ?, key = ?, kind = ? WHERE unit = ?",
        (name, name_key(name), kind, unit),
    )


def drop_of_source(connection: sqlite3.Connection, source: int) -> list[int]:
    """Delete what a source states; returns the rows."""
    return _drop(connection, "source = ?", source)


def drop_of_unit(connection: sqlite3.Connection, unit: int) -> list[int]:
    """Delete every relation from or to a unit; returns the rows."""
    entity = connection.execute("SELECT row FROM entities WHERE unit = ?", (unit,)).fetchone()
    if not entity:
        return []
    rows = _drop(connection, "head = ?1 OR tail = ?1", entity[0])
    connection.execute("DELETE FROM entities WHERE unit = ?", (unit,))
    return rows


def _drop(connection: sqlite3.Connection, where: str, value: int) -> list[int]:
    gone = connection.execute(
        f"DELETE FROM relations WHERE {where} RETURNING row, head, tail", (value,)
    ).fetchall()
    _drop_unmentioned(connection, {end for _, *ends in gone for end in ends})
    return [row for row, *_ in gone]


def _drop_unmentioned(connection: sqlite3.Connection, entities: Iterable[int | None]) -> None:
    connection.executemany(
        "DELETE FROM entities WHERE row = ?1 AND NOT EXISTS "
        "(SELECT 1 FROM relations WHERE head = ?1 OR tail = ?1)",
        ((entity,) for entity in entities if entity is not None),
    )


def _find(connection: sqlite3.Connection, target: str, key: str, kind: str | None) -> int | None:
    """The entity that a target means: a unit by id, a unit by name, a declared entity, or None."""
    unit = _unit_meant(connection, target, key, kind)
    if unit is not None:
        return _unit_entity(connection, unit)
    if kind is None:
        return None
    found = connection.execute(
        "SELECT row FROM entities WHERE unit IS NULL AND name = ? AND kind = ?", (target, kind)
    ).fetchone()
    if found:
        return int(found[0])
    made = connection.execute(
        "INSERT INTO entities (name, key, kind) VALUES (?, ?, ?) RETURNING row",
        (target, key, kind),
    ).fetchone()
    return int(made[0])


def _unit_meant(
    connection: sqlite3.Connection, target: str, key: str, kind: str | None
) -> int | None:
    unit = connection.execute("SELECT row FROM units WHERE id = ?", (target,)).fetchone()
    if not unit and key:
        unit = connection.execute(
            "SELECT u.row FROM names n JOIN units u ON u.row = n.unit "
            "WHERE n.key = ? AND (?2 IS NULL OR u.kind = ?2) ORDER BY u.id LIMIT 1",
            (key, kind),
        ).fetchone()
    return unit and int(unit[0])


def _unit_entity(connection: sqlite3.Connection, unit: int) -> int:
    found = connection.execute("SELECT row FROM entities WHERE unit = ?", (unit,)).fetchone()
    if found:
        return int(found[0])
    name, kind = connection.execute(
        "SELECT name, kind FROM units WHERE row = ?", (unit,)
    ).fetchone()
    made = connection.execute(
        "INSERT INTO entities (name, key, kind, unit) VALUES (?, ?, ?, ?) RETURNING row",
        (name, name_key(name), kind, unit),
    ).fetchone()
    return int(made[0])


# ---- for verify --------------------------------------------------------------------------------


def differences(connection: sqlite3.Connection) -> Iterator[str]:
    """Where relations and entities are not what sources, units and names say."""
    for row, target, key, kind, owner, head, *tail in connection.execute(
        "SELECT r.row, r.target, r.target_key, r.target_kind, s.unit, h.unit, "
        "t.unit, t.name, t.kind FROM relations r LEFT JOIN sources s ON s.row = r.source "
        "LEFT JOIN entities h ON h.row = r.head LEFT JOIN entities t ON t.row = r.tail"
    ):
        if head is None or head != owner:
            yield f"relation row {row} does not start at the unit of its source"
        if key != name_key(target):
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


def _end(
    connection: sqlite3.Connection, target: str, key: str, kind: str | None
) -> list[int | str | None]:
    """Unit, name and kind of the entity that a target means, as stored when all is well."""
    unit = _unit_meant(connection, target, key, kind)
    if unit is not None:
        name_and_kind = connection.execute("SELECT name, kind FROM units WHERE row = ?", (unit,))
        return [unit, *name_and_kind.fetchone()]
    return [None, target if kind is not None else None, kind]
