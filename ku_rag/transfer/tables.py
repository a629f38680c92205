"""The tables of an export: columns, types and checksums (docs/transfer.md)."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag import plugins
from ku_rag.store.database import checksum

FORMAT = 1
MANIFEST = "manifest.json"
PICTURES = "images"

_GROUP_ROWS = 8192
_GROUP_BYTES = 32 << 20

Row = Sequence[Any]
"""The values of a row under its checksum, in order; then the bytes of its vector, or None."""


@dataclass(frozen=True, slots=True)
class Table:
    """One Parquet file of an export.

    Args:
        name: Of the file, without its suffix.
        columns: Name → type, in order: text, texts (a list), count or flag.
        required: Columns that a file of another program must have.
        has_vectors: Whether a vector and its checksum follow.
    """

    name: str
    columns: Mapping[str, str]
    required: tuple[str, ...]
    has_vectors: bool = False

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"{self.name}.parquet"

    def types(self, dim: int | None) -> dict[str, Any]:
        """Return column name → pyarrow type, checksums included.

        Args:
            dim: Length of the vectors; None for a file without vectors.
        """
        pa, _ = parquet()
        made = {"text": pa.string(), "texts": pa.list_(pa.string())}
        made |= {"count": pa.int64(), "flag": pa.bool_()}
        types = {name: made[kind] for name, kind in self.columns.items()}
        types["checksum"] = pa.int64()
        if dim:
            types |= {"vector": pa.list_(pa.float16(), dim), "vector_checksum": pa.int64()}
        return types


def _table(name: str, columns: str, required: str, *, has_vectors: bool = False) -> Table:
    typed = (column.partition(":") for column in columns.split())
    return Table(
        name,
        {name: kind or "text" for name, _, kind in typed},
        tuple(required.split()),
        has_vectors,
    )


UNITS = _table("units", "id name kind aliases:texts metadata match:flag", "id name")
SOURCES = _table(
    "sources",
    "uri unit origin hash declared chunks:count images:count text_order:count relation_order:count",
    "uri unit",
)
CHUNKS = _table(
    "chunks",
    "unit source position:count document:count hash text",
    "text",
    has_vectors=True,
)
IMAGES = _table(
    "images",
    "hash file width:count height:count bytes:count order:count",
    "hash file",
    has_vectors=True,
)
SHOWINGS = _table("showings", "unit source position:count image", "image")
RELATIONS = _table(
    "relations",
    "unit source position:count relation target target_kind information condition tail tail_unit",
    "relation target",
)
ENTITIES = _table("entities", "name kind unit", "")
TABLES = (UNITS, SOURCES, CHUNKS, IMAGES, SHOWINGS, RELATIONS, ENTITIES)


def row_checksum(values: Iterable[Any]) -> int:
    """Return the CRC-32 of the values of a row, in order; lists as JSON."""
    return checksum(*(_plain(v) if isinstance(v, list | bool) else v for v in values))


def _plain(value: list[object] | bool) -> str | int:
    return int(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def parquet() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet.

    Raises:
        MissingExtra: They are not installed.
    """
    return plugins.extra("parquet", "pyarrow"), plugins.extra("parquet", "pyarrow.parquet")


def write_table(folder: Path, table: Table, rows: Iterable[Row], dim: int | None = None) -> int:
    """Write one table of an export and return its number of rows.

    At most one row group is held: 8,192 rows, or about 32 MiB.

    Args:
        folder: Of the export.
        table: Which table.
        rows: Its rows.
        dim: Length of the vectors at the end of each row, float16[dim]; None for none.
    """
    pa, pq = parquet()
    schema = pa.schema(list(table.types(dim).items()))
    count = 0
    with pq.ParquetWriter(
        folder / table.file,
        schema,
        # Vectors do not compress well, and compressing them takes longer than writing them.
        compression={**dict.fromkeys(schema.names, "zstd"), "vector.list.element": "none"},
        use_dictionary=[c for c in ("unit", "source", "origin", "kind") if c in table.columns],
        write_statistics=[c for c in ("id", "unit", "source", "uri") if c in table.columns],
        write_page_checksum=True,
    ) as out:
        for group in _groups(rows):
            out.write_batch(_batch(group, schema, dim), row_group_size=len(group))
            count += len(group)
    return count


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(group) >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _batch(group: list[Row], schema: Any, dim: int | None) -> Any:  # noqa: ANN401 - of pyarrow
    pa, _ = parquet()
    columns = list(zip(*group, strict=True))
    blobs = columns.pop() if dim else ()
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=False)]
    arrays.append(pa.array([row_checksum(row[: len(columns)]) for row in group], pa.int64()))
    if dim:
        none = np.array([blob is None for blob in blobs])
        halves = np.frombuffer(b"".join(blob or bytes(2 * dim) for blob in blobs), "<f2")
        kind = schema.field("vector").type
        vectors = pa.FixedSizeListArray.from_arrays(
            pa.array(halves), type=kind, mask=pa.array(none)
        )
        sums = [None if blob is None else zlib.crc32(blob) for blob in blobs]
        arrays += [vectors, pa.array(sums, pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
