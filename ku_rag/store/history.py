"""The history of units: changes by hand, for undo. Compaction deletes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ku_rag.store import table_rows
from ku_rag.store.connection import Connection
from ku_rag.store.layout import Layout
from ku_rag.store.unit_records import known_row, read_unit
from ku_rag.types import Relation, Serializable


@dataclass(frozen=True, slots=True)
class UnitChange(Serializable):
    """A change of a unit by hand.

    Args:
        number: number of the change.
        at: UTC time in ISO 8601.
        by: who made it, as stated.
        fields: field → values before and after; pictures by their paths.
    """

    number: int
    at: str
    by: str
    fields: Mapping[str, tuple[Any, Any]]

    def before(self) -> dict[str, Any]:
        """Return the values before it, for `KnowledgeBase.update`."""
        values = {name: before for name, (before, _) in self.fields.items()}
        if "relations" in values:
            values["relations"] = [Relation(**fields) for fields in values["relations"]]
        return values


def fields_of(connection: Connection, layout: Layout, unit_id: str) -> dict[str, Any]:
    """Return the fields of a unit that can be changed, as JSON, texts without rows of tables."""
    unit = read_unit(connection, layout, unit_id)
    tables = table_rows.of_unit(connection, known_row(connection, unit_id))
    values = {name: getattr(unit, name) for name in ("name", "kind", "aliases", "metadata")}
    values["texts"] = table_rows.without_rows(unit.texts, tables)
    values["relations"] = [replace(relation, target_kind=None) for relation in unit.relations]
    values["images"] = [image.removeprefix(f"{layout.images}/") for image in unit.images]
    fields: dict[str, Any] = json.loads(json.dumps(values, default=asdict))
    return fields


def add(
    connection: Connection, unit_id: str, fields: Mapping[str, Any], *, by: str, most: int
) -> None:
    """Add a change to the history of a unit, and keep the last `most`. Called inside a change."""
    unit = known_row(connection, unit_id)
    if fields and most:
        connection.execute(
            "INSERT INTO history (unit, by, fields) VALUES (?, ?, ?)",
            (unit, by, json.dumps(fields)),
        )
    connection.execute(
        "DELETE FROM history WHERE unit = ?1 AND row NOT IN "
        "(SELECT row FROM history WHERE unit = ?1 ORDER BY row DESC LIMIT ?2)",
        (unit, most),
    )


def of_unit(connection: Connection, layout: Layout, unit: int) -> list[UnitChange]:
    """Return the changes of a unit, the last first."""
    changes = []
    for number, at, by, text in connection.execute(
        "SELECT row, at, by, fields FROM history WHERE unit = ? ORDER BY row DESC", (unit,)
    ):
        fields = json.loads(text)
        if "images" in fields:
            fields["images"] = [[str(layout.image(f)) for f in files] for files in fields["images"]]
        changes.append(UnitChange(number, at, by, fields))
    return changes
