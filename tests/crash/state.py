"""The content of a base without row numbers: equal states have equal dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

from ku_rag import KnowledgeBase
from ku_rag.store.connection import Connection

# Created anew by every base, or counting its writes.
_VOLATILE_META = {"id", "changes_pruned", "commits", "state", "texts_replaced"}
_VOLATILE_TABLES = {"changes", "sqlite_sequence"}
_ACCIDENTS = {"row", "checksum", "at"}  # the last is the time of an edit
_ITEMS = {"chunk": "chunks", "image": "images"}
_PICTURE = Image.new("RGB", (32, 32), (200, 30, 60))
_QUESTIONS = ("Stone 2 weight", "the Mill flour", "bridge arches river")


def dump(kb: KnowledgeBase) -> dict[str, Any]:
    """The content of all tables and the output of the public API.

    Args:
        kb: an open base.
    """
    return {"tables": tables(kb._database.connection), "public": public(kb)}


def tables(connection: Connection) -> dict[str, list[str]]:
    """The rows of each table, sorted; references to rows are replaced by their content."""
    result: dict[str, list[str]] = {}
    reader = _Reader(connection)
    for name, sql in connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name"
    ).fetchall():
        inside_fts = any(name.startswith(f"{table}_") for table in reader.virtual)
        if name in _VOLATILE_TABLES or name.startswith("sqlite_stat") or inside_fts:
            continue
        if sql.startswith("CREATE VIRTUAL"):
            row_of = "doc" if "fts5vocab" in sql else "rowid"
            columns = "term, col, offset" if "fts5vocab" in sql else "*"
            rows = connection.execute(f"SELECT {row_of}, {columns} FROM {name}").fetchall()
            result[name] = sorted(
                json.dumps([reader.row("chunks", row), *rest], default=_hex) for row, *rest in rows
            )
        else:
            result[name] = sorted(reader.all(name))
    return result


class _Reader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tables: dict[str, dict[Any, list[Any]]] = {}
        self.virtual = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'"
            )
        ]

    def row(self, table: str, row: int | None) -> list[Any] | None:
        """The content of a row; a missing row is represented by its number."""
        if row is None:
            return None
        return self._load(table).get(row, [f"no row {row}"])

    def all(self, table: str) -> list[str]:
        rows = self._load(table).values()
        if table == "meta":
            rows = [row for row in rows if row[0][1] not in _VOLATILE_META]
        return [json.dumps(row, default=_hex) for row in rows]

    def _load(self, table: str) -> dict[Any, list[Any]]:
        if table in self._tables:
            return self._tables[table]
        columns = [c[1] for c in self._connection.execute(f"PRAGMA table_xinfo({table})")]
        links = {
            link[3]: link[2]
            for link in self._connection.execute(f"PRAGMA foreign_key_list({table})")
        }
        result: dict[Any, list[Any]] = {}
        rows = self._connection.execute(f"SELECT * FROM {table}").fetchall()
        for number, values in enumerate(rows):
            fields = dict(zip(columns, values, strict=True))
            content = []
            for column, value in fields.items():
                if column in _ACCIDENTS:
                    continue
                if column in links:
                    value = self.row(links[column], value)
                elif column == "encoder":
                    value = self.row("encoders", value)
                elif column == "item":
                    value = self.row(_ITEMS[fields["kind"]], value)
                content.append([column, value])
            result[fields.get("row", f"#{number}")] = content
        self._tables[table] = result
        return result


def public(kb: KnowledgeBase) -> dict[str, Any]:
    """The output of `list`, `show` and `search`, without paths and row numbers."""
    listed = [unit.to_dict() for unit in kb.list()]
    results = {text: kb.search(text=text, k=100).to_dict() for text in _QUESTIONS}
    results["a picture"] = kb.search(image=_PICTURE, k=100).to_dict()
    return {
        "list": listed,
        "show": [_unit_details(kb, unit["id"]) for unit in listed],
        "search": [[query, *hit] for query, hits in results.items() for hit in _sorted_hits(hits)],
    }


def _unit_details(kb: KnowledgeBase, unit_id: str) -> dict[str, Any]:
    unit = kb.show(unit_id).to_dict()
    unit["images"] = sorted(Path(image).name for image in unit["images"])
    unit["named_in"] = sorted([mention["source"], mention["text"]] for mention in unit["named_in"])
    unit["texts"].sort()
    unit["sources"].sort(key=lambda source: source["uri"])
    unit["relations"].sort(key=str)
    return unit


def _sorted_hits(hits: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str, float]]:
    units = [("unit", hit["id"], round(hit["score"], 4)) for hit in hits["units"]]
    chunks = [("chunk", hit["text"], round(hit["score"], 4)) for hit in hits["chunks"]]
    return sorted(units) + sorted(chunks)


def _hex(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"a value of a table is {value!r}: expected text, a number or bytes")


def differences(actual: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """The differences between two dumps, for a message."""
    lines = []
    for table in actual["tables"].keys() | expected["tables"].keys():
        here, there = (set(d["tables"].get(table, ())) for d in (actual, expected))
        lines += [f"{table}: too much: {row[:200]}" for row in sorted(here - there)[:3]]
        lines += [f"{table}: missing: {row[:200]}" for row in sorted(there - here)[:3]]
    for key, value in actual["public"].items():
        if value != expected["public"][key]:
            lines.append(
                f"{key}: {str(value)[:300]} instead of {str(expected['public'][key])[:300]}"
            )
    return lines
