"""What an export holds: its tables, their columns and types, and the sum of each row.

docs/transfer.md is the description for people.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ku_rag import plugins
from ku_rag.store.database import checksum

FORMAT = 1
MANIFEST = "manifest.json"
PICTURES = "images"


@dataclass(frozen=True, slots=True)
class Table:
    """One Parquet file of an export.

    Args:
        name: of the file, without its ending.
        columns: name → type, in order: text, texts (a list), count, flag or vector.
        summed: columns under the sum of a row; the vector has a sum of its own.
    """

    name: str
    columns: Mapping[str, str]

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.parquet"

    @property
    def summed(self) -> tuple[str, ...]:
        """The columns that a row's checksum covers."""
        return tuple(c for c in self.columns if c not in _SUMS and c != "vector")


_SUMS = ("checksum", "vector_checksum")
_VECTOR = {"vector": "vector", "vector_checksum": "count"}

UNITS = Table(
    "units",
    {
        "id": "text",
        "name": "text",
        "kind": "text",
        "aliases": "texts",
        "metadata": "text",
        "match": "flag",
        "checksum": "count",
    },
)
SOURCES = Table(
    "sources",
    {
        "uri": "text",
        "unit": "text",
        "origin": "text",
        "hash": "text",
        "declared": "text",
        "chunks": "count",
        "images": "count",
        "text_order": "count",
        "relation_order": "count",
        "checksum": "count",
    },
)
CHUNKS = Table(
    "chunks",
    {
        "unit": "text",
        "source": "text",
        "position": "count",
        "document": "count",
        "hash": "text",
        "text": "text",
        "checksum": "count",
        **_VECTOR,
    },
)
IMAGES = Table(
    "images",
    {
        "hash": "text",
        "file": "text",
        "width": "count",
        "height": "count",
        "bytes": "count",
        "order": "count",
        "checksum": "count",
        **_VECTOR,
    },
)
SHOWINGS = Table(
    "showings",
    {
        "unit": "text",
        "source": "text",
        "position": "count",
        "image": "text",
        "checksum": "count",
    },
)
RELATIONS = Table(
    "relations",
    {
        "unit": "text",
        "source": "text",
        "position": "count",
        "relation": "text",
        "target": "text",
        "target_kind": "text",
        "information": "text",
        "condition": "text",
        "tail": "text",
        "tail_unit": "text",
        "checksum": "count",
    },
)
ENTITIES = Table("entities", {"name": "text", "kind": "text", "unit": "text", "checksum": "count"})
TABLES = (UNITS, SOURCES, CHUNKS, IMAGES, SHOWINGS, RELATIONS, ENTITIES)


def row_sum(values: Iterable[Any]) -> int:
    """CRC-32 of the summed columns of a row, in order; lists as JSON."""
    return checksum(*(_plain(v) if isinstance(v, list | bool) else v for v in values))


def _plain(value: list[object] | bool) -> str | int:
    return int(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def parquet() -> tuple[Any, Any]:
    """The modules pyarrow and pyarrow.parquet.

    Raises:
        MissingExtra: they are not installed.
    """
    return plugins.extra("parquet", "pyarrow"), plugins.extra("parquet", "pyarrow.parquet")


def schema(table: Table, dim: int | None) -> Any:  # noqa: ANN401 - a pyarrow.Schema
    """The Parquet schema of a table.

    Args:
        table: which.
        dim: length of its vectors; None where there are none.
    """
    pa, _ = parquet()
    types = {
        "text": pa.string(),
        "texts": pa.list_(pa.string()),
        "count": pa.int64(),
        "flag": pa.bool_(),
        "vector": pa.list_(pa.float16(), dim or 1),
    }
    return pa.schema([(name, types[kind]) for name, kind in _present(table, dim)])


def _present(table: Table, dim: int | None) -> Iterable[tuple[str, str]]:
    return ((n, kind) for n, kind in table.columns.items() if dim or n not in _VECTOR)
