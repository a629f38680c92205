"""One entity as it is printed: what it brings, and the relations that leave it and reach it."""

from __future__ import annotations

import json
from typing import Any

from ku_rag.graph.graph_records import VIDEOS, is_texts
from ku_rag.graph.model import CAPTION, MACHINE_CAPTION, TOPIC, Entity, Graph
from ku_rag.store.connection import Connection
from ku_rag.store.database import check, snapshot

_ENDS = {"out": ("head", "tail"), "in": ("tail", "head")}


def show(connection: Connection, graph: Graph, entity: Entity, *, most: int) -> dict[str, Any]:
    """What is known of an entity, one state of it.

    Args:
        connection: to the store.
        graph: of it.
        entity: of it.
        most: relations that are listed of each direction; "counts" has the number of all.

    Raises:
        Corrupt: a row fails its checksum.
    """
    with snapshot(connection):
        brings = graph.attributes(entity)
        aliases, metadata = [], {}
        if entity.unit is not None:
            *fields, stored = connection.execute(
                "SELECT id, name, kind, aliases, metadata, match, checksum FROM units WHERE id = ?",
                (entity.unit,),
            ).fetchone()
            check(stored, *fields, what=f"the row of unit {entity.unit!r}")
            aliases, metadata = json.loads(fields[3]), json.loads(fields[4])
        videos = metadata.pop(VIDEOS) if is_texts(metadata.get(VIDEOS)) else []
        counts = {
            way: connection.execute(
                f"SELECT count(*) FROM relations WHERE {here} = ?", (entity.row,)
            ).fetchone()[0]
            for way, (here, _) in _ENDS.items()
        }
        return {
            "id": entity.unit,
            "name": entity.name,
            "kind": entity.kind,
            "topic": brings.topic,
            "aliases": aliases,
            "caption": brings.caption,
            "machine_captions": dict(brings.captions),
            "text": brings.text,
            "images": [str(one) for one in brings.images],
            "videos": videos,
            "metadata": {key: value for key, value in metadata.items() if not _is_shown(key)},
            "counts": counts,
            **{way: _relations(connection, entity, way, most) for way in _ENDS},
        }


def _is_shown(key: str) -> bool:
    return key in (TOPIC, CAPTION) or key.startswith(MACHINE_CAPTION)


def _relations(connection: Connection, entity: Entity, way: str, most: int) -> list[dict[str, Any]]:
    here, there = _ENDS[way]
    listed = []
    for row, stored, name, kind, unit, *fields in connection.execute(
        "SELECT r.row, r.checksum, o.name, o.kind, u.id, r.source, r.relation, r.target, "
        "r.target_kind, r.information, r.condition FROM relations r "
        f"LEFT JOIN entities o ON o.row = r.{there} LEFT JOIN units u ON u.row = o.unit "
        f"WHERE r.{here} = ? ORDER BY r.row LIMIT ?",
        (entity.row, most),
    ):
        check(stored, *fields, what=f"relation {row}")
        _, relation, target, _, information, condition = fields
        other = {"id": unit, "name": target if name is None else name, "kind": kind}
        notes = {"information": information, "condition": condition}
        said = {key: value for key, value in notes.items() if value is not None}
        listed.append({"relation": relation, there: other, **said})
    return listed
