"""Entities and relations: the rows of the graph.

An entity has a row while a relation mentions it. The target of a relation is stored as written. Its
tail is the entity that the target means: a unit, or else an entity that has only this name and the
kind that the relation declares. Tails are updated whenever a unit is added, deleted or renamed, so
that the order of insertion makes no difference.

Functions that write are called inside a change (`Database.change`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import orjson

from ku_rag.store.connection import SLICE, Connection, as_json, fetch_rows, fields, last_row
from ku_rag.text.tokens import name_key
from ku_rag.types import Relation

ANY_KIND = "entity"
"""Kind of an entity for which no kind is declared."""

_Target = tuple[str, str, int | None]
"""The target of a relation as written, the kind that it declares, and the row of the unit that it
meant until that unit was renamed."""

_QUALIFIED = re.compile(r"[^>]*[^>\s\-=]>([^>\s].*)", re.DOTALL)
_WANTED = (
    "(SELECT json_extract(value, '$[0]') AS n, json_extract(value, '$[1]') AS target, "
    "json_extract(value, '$[2]') AS name, json_extract(value, '$[3]') AS key, "
    "json_extract(value, '$[4]') AS kind FROM json_each(?1)) w"
)
_FIELDS = "relation, target, target_kind, information, condition"
"""The fields of `Relation`, in its order."""


class Stated(NamedTuple):
    """The relations of one source, in order, with the rows of the source and of its unit."""

    source: int
    unit: int
    relations: Sequence[Relation]


def add_many(connection: Connection, stated: Sequence[Stated]) -> int:
    """Insert the relations of sources; return their number."""
    heads = _unit_entities(connection, {of.unit for of in stated})
    new = [
        (of, relation, (relation.target, relation.target_kind or ANY_KIND, None))
        for of in stated
        for relation in of.relations
    ]
    tails = _tails(connection, {target for *_, target in new})
    keys = {target: target_key(target[0]) for target in tails}
    rows = [
        (of.source, heads[of.unit], *_fields(relation), keys[target], tails[target])
        for of, relation, target in new
    ]
    connection.executemany(
        f"INSERT INTO relations (source, head, {_FIELDS}, target_key, tail) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )
    return len(rows)


def digest(relations: Iterable[Relation]) -> str:
    """Return a checksum of relations as a string; "" for none."""
    return _checksum(map(_fields, relations))


def stored_digest(connection: Connection, source: int) -> str:
    """Return the checksum of the stored relations of a source."""
    return _checksum(
        connection.execute(
            f"SELECT {_FIELDS} FROM relations WHERE source = ? ORDER BY row", (source,)
        )
    )


def _checksum(rows: Iterable[Sequence[str | None]]) -> str:
    listed = list(rows)
    return str(zlib.crc32(orjson.dumps(listed))) if listed else ""


def _fields(row: Relation) -> tuple[str, str, str | None, str | None, str | None]:
    return row.relation, row.target, row.target_kind, row.information, row.condition


def sources_aiming_at(connection: Connection, unit: int) -> list[int]:
    """Return the rows of the sources of other units with a relation to this one."""
    return connection.column(
        "SELECT DISTINCT r.source FROM entities e JOIN relations r ON r.tail = e.row "
        "JOIN sources s ON s.row = r.source WHERE e.unit = ?1 AND s.unit IS NOT ?1",
        (unit,),
    )


def unqualified_name(target: str) -> str:
    """Return a name without its sub-graph: `Zinogre>Bite` is `Bite` in the sub-graph of Zinogre."""
    match = _QUALIFIED.fullmatch(target)
    return match[1] if match else target


def target_key(target: str) -> str:
    """Return the key under which the target of a relation is looked up."""
    return name_key(unqualified_name(target))


def resolve_names(connection: Connection, *, ids: Iterable[str], keys: Iterable[str]) -> None:
    """Update the tails of all relations whose target has one of these unit ids or name keys."""
    if connection.execute("SELECT 1 FROM relations LIMIT 1").fetchone() is None:
        return
    wanted = {*keys, *map(target_key, ids)}
    # In the order of their rows, for neighbours are in one page.
    rows = fetch_rows(
        connection,
        "SELECT r.row FROM json_each(?) w CROSS JOIN relations r ON r.target_key = w.value",
        as_json(wanted),
    )
    for start in range(0, len(rows), SLICE):
        resolve(connection, rows[start : start + SLICE].tolist())


def resolve(connection: Connection, rows: Sequence[int]) -> None:
    """Set the tails of relations from the units as they are now."""
    aimed = connection.execute(
        "SELECT r.row, r.tail, r.target, coalesce(r.target_kind, ?), r.renamed "
        "FROM json_each(?) w CROSS JOIN relations r ON r.row = w.value",
        (ANY_KIND, as_json(rows)),
    ).fetchall()
    tails = _tails(connection, {(target, kind, unit) for *_, target, kind, unit in aimed})
    moved = [
        (row, entity, tail)
        for row, tail, *target in aimed
        if (entity := tails[tuple(target)]) != tail
    ]
    connection.executemany(
        "UPDATE relations SET tail = ? WHERE row = ?", ((entity, row) for row, entity, _ in moved)
    )
    _drop_unmentioned(connection, {tail for *_, tail in moved})


def rename_unit(connection: Connection, unit: int, name: str, kind: str) -> None:
    """Update the name and kind of a unit's entity; relations that end at its old name stay."""
    connection.execute(
        "UPDATE relations SET renamed = e.unit FROM entities e WHERE e.unit = ? "
        "AND relations.tail = e.row AND relations.target_key = e.key AND e.name != ?",
        (unit, name),
    )
    connection.execute(
        "UPDATE entities SET name = ?, key = ?, kind = ? WHERE unit = ?",
        (name, name_key(name), kind, unit),
    )


def merge_entities(connection: Connection, unit: int, other: int) -> None:
    """Let the relations from and to a unit, `other`, start and end at another one."""
    entity = connection.execute("SELECT row FROM entities WHERE unit = ?", (other,)).fetchone()
    if entity:
        ends = _unit_entities(connection, {unit})[unit], entity[0]
        connection.execute("UPDATE relations SET head = ? WHERE head = ?", ends)
        # "renamed": targets still have the id or the name of the other unit.
        connection.execute(
            "UPDATE relations SET tail = ?, renamed = ? WHERE tail = ?", (ends[0], unit, ends[1])
        )
        connection.execute("DELETE FROM entities WHERE row = ?", entity)


def drop_of_sources(connection: Connection, sources: Iterable[int]) -> list[int]:
    """Delete the relations of sources; return their rows."""
    gone = _drop(connection, "source IN (SELECT value FROM json_each(?))", as_json(sources))
    return [row for row, _ in gone]


def release(connection: Connection, unit: int) -> list[int]:
    """Clear the tails of other units' relations to a unit; return their rows, for `resolve`."""
    return connection.column(
        "UPDATE relations SET tail = NULL FROM entities e "
        "WHERE e.unit = ? AND relations.tail = e.row AND relations.head != e.row "
        "RETURNING relations.row",
        (unit,),
    )


def drop_of_unit(connection: Connection, unit: int) -> list[int]:
    """Delete all relations from and to a unit; return their rows."""
    entity = connection.execute("SELECT row FROM entities WHERE unit = ?", (unit,)).fetchone()
    if not entity:
        return []
    gone = _drop(connection, "head = ?1 OR tail = ?1", entity[0])
    connection.execute("DELETE FROM entities WHERE unit = ?", (unit,))
    return [row for row, _ in gone]


def drop(connection: Connection, rows: Sequence[int]) -> set[int]:
    """Delete relations by row; return the rows of their sources."""
    gone = _drop(connection, "row IN (SELECT value FROM json_each(?))", as_json(rows))
    return {source for _, source in gone}


def _drop(connection: Connection, where: str, value: int | str) -> list[tuple[int, int]]:
    """Delete relations; return row and source of each."""
    gone = connection.execute(
        f"DELETE FROM relations WHERE {where} RETURNING row, source, head, tail", (value,)
    ).fetchall()
    _drop_unmentioned(connection, {end for _, _, *ends in gone for end in ends})
    return [(row, source) for row, source, *_ in gone]


def _drop_unmentioned(connection: Connection, entities: Iterable[int | None]) -> None:
    connection.executemany(
        "DELETE FROM entities WHERE row = ?1 AND NOT EXISTS "
        "(SELECT 1 FROM relations WHERE head = ?1 OR tail = ?1)",
        ((entity,) for entity in entities if entity is not None),
    )


def _tails(connection: Connection, targets: Collection[_Target]) -> dict[_Target, int]:
    """Return the row of the entity that each target means; new entities are inserted."""
    units = _units_meant(connection, list(targets))
    rows = _unit_entities(connection, set(units.values()))
    tails = {target: rows[unit] for target, unit in units.items()}
    left = [target for target in targets if target not in units]
    undescribed = {(name, name_key(name), kind) for name, kind, _ in left}
    # "+": by the index of keys, not by that of units, in which all of these are equal.
    select = (
        "SELECT e.name, e.kind, e.row FROM (SELECT json_extract(value, '$[0]') AS name, "
        "json_extract(value, '$[1]') AS key, json_extract(value, '$[2]') AS kind "
        "FROM json_each(?)) w CROSS JOIN entities e "
        "ON e.key = w.key AND e.name = w.name AND e.kind = w.kind AND +e.unit IS NULL"
    )
    entities = {
        (name, kind): row for name, kind, row in connection.execute(select, (as_json(undescribed),))
    }
    new = [(*item, None) for item in undescribed if (item[0], item[2]) not in entities]
    inserted = _insert_entities(connection, new)
    entities |= {(name, kind): row for row, (name, _, kind, _) in zip(inserted, new, strict=True)}
    return tails | {(name, kind, unit): entities[name, kind] for name, kind, unit in left}


def _units_meant(connection: Connection, targets: Sequence[_Target]) -> dict[_Target, int]:
    """Return the rows of the units that targets mean.

    That is the unit that a target meant until it was renamed, or else the unit of that id, or else
    the only unit of exactly that name, or else the only unit with the name in another spelling or
    as an alias. A name shared by several units is ambiguous.
    If a kind is declared, only units of this kind count. A qualified name such as
    `Zinogre>Rathian` that is not an id may also mean a unit outside of sub-graphs, `Rathian`.
    """
    wanted = [
        (n, target, unqualified_name(target), target_key(target), kind)
        for n, (target, kind, _) in enumerate(targets)
    ]
    units: dict[int, int] = dict(
        connection.execute(
            f"SELECT w.n, u.row FROM {_WANTED} CROSS JOIN units u "
            "ON u.id IN (w.target, w.name) ORDER BY u.id = w.target",
            (as_json(wanted),),
        )
    )
    renamed = [(n, unit) for n, (*_, unit) in enumerate(targets) if unit]
    units |= connection.execute(
        "SELECT w.value ->> 0, u.row FROM json_each(?) w "
        "CROSS JOIN units u ON u.row = w.value ->> 1",
        (as_json(renamed),),
    )
    left = [row for row in wanted if row[0] not in units]
    bearing = connection.execute(
        "SELECT n, iif(sum(exact), max(iif(exact, row, 0)), row), "
        "iif(sum(exact), sum(exact), count(*)) AS bearers FROM ("
        f"SELECT w.n, u.row, u.name = w.name AS exact FROM {_WANTED} "
        "CROSS JOIN names x ON x.key = w.key CROSS JOIN units u ON u.row = x.unit "
        "WHERE w.key != '' AND w.kind IN (?2, u.kind) "
        "AND (w.name = w.target OR instr(u.id, '>') = 0)) GROUP BY n HAVING bearers = 1",
        (as_json(left), ANY_KIND),
    )
    units |= {n: unit for n, unit, _ in bearing}
    return {targets[n]: unit for n, unit in units.items()}


def _unit_entities(connection: Connection, units: Collection[int]) -> dict[int, int]:
    """Return the rows of the entities of units; new ones are inserted."""
    rows: dict[int, int] = {}
    new = []
    for unit, name, kind, row in connection.execute(
        "SELECT u.row, u.name, u.kind, e.row FROM json_each(?) w "
        "CROSS JOIN units u ON u.row = w.value LEFT JOIN entities e ON e.unit = u.row",
        (as_json(sorted(units)),),
    ):
        if row is None:
            new.append((name, name_key(name), kind, unit))
        else:
            rows[unit] = row
    inserted = _insert_entities(connection, new)
    return rows | {unit: row for row, (*_, unit) in zip(inserted, new, strict=True)}


def _insert_entities(
    connection: Connection, new: Sequence[tuple[str, str, str, int | None]]
) -> range:
    """Insert entities given as (name, key, kind, unit); return their rows."""
    first = last_row(connection, "entities") + 1
    connection.execute(
        "INSERT INTO entities (row, name, key, kind, unit) "
        f"SELECT key + ?, {fields(4)} FROM json_each(?)",
        (first, as_json(new)),
    )
    return range(first, first + len(new))


# ---- for verify --------------------------------------------------------------------------------


def differences(connection: Connection) -> Iterator[str]:
    """Yield a sentence for each relation or entity that is inconsistent with sources and units."""
    for row, target, key, kind, renamed, owner, head, *tail in connection.execute(
        "SELECT r.row, r.target, r.target_key, r.target_kind, r.renamed, s.unit, h.unit, "
        "t.unit, t.name, t.kind FROM relations r LEFT JOIN sources s ON s.row = r.source "
        "LEFT JOIN entities h ON h.row = r.head LEFT JOIN entities t ON t.row = r.tail"
    ):
        if head is None or head != owner:
            yield f"relation row {row} does not start at the unit of its source"
        if key != target_key(target):
            yield f"relation row {row} is not looked up under the name of its target"
        if tail != _end(connection, (target, kind or ANY_KIND, renamed)):
            yield f"relation row {row} does not end at what its target {target!r} means"
    for row, name, key, kind, unit, *of_unit in connection.execute(
        "SELECT e.row, e.name, e.key, e.kind, e.unit, u.name, u.kind FROM entities e "
        "LEFT JOIN units u ON u.row = e.unit"
    ):
        if key != name_key(name) or (unit is not None and [name, kind] != of_unit):
            yield f"entity row {row} is not named as its unit, or not looked up under its name"


def _end(connection: Connection, target: _Target) -> list[int | str | None]:
    """Return unit, name and kind of the entity that a target should mean."""
    units = _units_meant(connection, [target])
    for unit in units.values():
        (named,) = connection.execute("SELECT row, name, kind FROM units WHERE row = ?", (unit,))
        return list(named)
    return [None, *target[:2]]
