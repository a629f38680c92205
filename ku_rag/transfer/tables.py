"""The tables of an export: columns, types and checksums (docs/transfer.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag import plugins
from ku_rag.store.vectors import Kind

FORMAT = 1
MANIFEST = "manifest.json"
PICTURES = "images"
GROUP_ROWS = 8192

Row = Sequence[Any]
"""The values of a row as they are stored; then the bytes of its vector, or None."""

_STORED: Mapping[str, Callable[[Any], object]] = {"texts": json.loads, "flag": bool}
"""Conversion of stored values, by the type of the column."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One Parquet file of an export.

    Args:
        columns: Names in order; those that are not texts end in ":texts", ":count" or ":flag".
        required: Columns that a file of another program must have.
        key: Column that identifies a row; "" for none.
    """

    name: str
    columns: str
    required: str = ""
    key: str = ""
    vectors: Kind | None = None

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.parquet"

    def types(self) -> dict[str, Any]:
        """Return column name → pyarrow type, without the vector."""
        pa, _ = parquet()
        types = {"": pa.string(), "texts": pa.list_(pa.string())}
        types |= {"count": pa.int64(), "flag": pa.bool_()}
        split = (column.partition(":") for column in self.columns.split())
        return {name: types[kind] for name, _, kind in split}


UNITS = TableFile("units", "id name kind aliases:texts metadata match:flag", "id name", key="id")
SOURCES = TableFile(
    "sources", "uri unit origin hash declared chunks:count images:count", "uri unit", key="uri"
)
CHUNKS = TableFile("chunks", "unit source position:count document:count text", "text", "", "chunk")
IMAGES = TableFile(
    "images", "hash file width:count height:count bytes:count", "hash file", "hash", "image"
)
SHOWINGS = TableFile("showings", "unit source position:count image", "image")
RELATIONS = TableFile(
    "relations",
    "unit source position:count relation target target_kind information condition tail tail_unit",
    "relation target",
)
ENTITIES = TableFile("entities", "name kind unit")
TABLE_ROWS = TableFile(
    "table_rows",
    "unit source document:count place:count name number:count cells",
    "source document cells",
)
TEXT_PLACES = TableFile(
    "text_places", "unit source document:count section lines", "source document"
)
EXTRACTED = TableFile(
    "extracted_facts",
    "unit source position:count label value origin first:count last:count",
    "unit source position label value origin first last",
)
IMAGE_WORDS = TableFile("image_words", "image recogniser words", "image recogniser words", "image")
TABLES: tuple[TableFile, ...] = (UNITS, SOURCES, CHUNKS, IMAGES, SHOWINGS, RELATIONS, ENTITIES)
TABLES += (TABLE_ROWS, TEXT_PLACES, EXTRACTED, IMAGE_WORDS)


def parquet() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet; `MissingExtra` if they are not installed."""
    return plugins.extra("parquet", "pyarrow"), plugins.extra("parquet", "pyarrow.parquet")


def write_table(folder: Path, table: TableFile, rows: Iterable[Row], dim: int | None = None) -> int:
    """Write a table whose rows end with a vector of `dim`, if any; return its number of rows."""
    pa, pq = parquet()
    types = table.types()
    if dim:  # numbers that may be null take longer to read
        types["vector"] = pa.list_(pa.field("element", pa.float16(), nullable=False), dim)
    schema = pa.schema(list(types.items()))
    kinds = [column.partition(":")[2] for column in table.columns.split()]
    count, waiting = 0, iter(rows)
    with pq.ParquetWriter(
        folder / table.file,
        schema,
        # Vectors do not compress well, and compressing them takes longer than writing them.
        compression={**dict.fromkeys(types, "zstd"), "vector.list.element": "none"},
        use_dictionary=[c for c in ("unit", "source", "origin", "kind") if c in types],
        write_statistics=[c for c in ("id", "unit", "source", "uri") if c in types],
        write_page_checksum=True,
    ) as out:
        while group := list(islice(waiting, GROUP_ROWS)):
            columns: list[Sequence[Any]] = list(zip(*group, strict=True))
            blobs = columns.pop() if table.vectors else ()
            columns = [
                [_STORED[kind](value) for value in values] if kind in _STORED else values
                for kind, values in zip(kinds, columns, strict=True)
            ]
            if dim:
                columns.append([None if b is None else np.frombuffer(b, "<f2") for b in blobs])
            arrays = [pa.array(c, kind) for c, kind in zip(columns, schema.types, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            out.write_batch(batch, row_group_size=len(group))
            count += len(group)
    return count
