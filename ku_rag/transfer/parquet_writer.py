"""Rows into Parquet files, a row group at a time."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag.transfer.tables import Table, parquet, row_sum, schema

_GROUP_ROWS = 8192
_GROUP_BYTES = 32 << 20

Row = Sequence[Any]
"""The summed columns of a row in their order, then the bytes of its vector, or None."""


def write_table(folder: Path, table: Table, rows: Iterable[Row], dim: int | None = None) -> int:
    """Write one table of an export; returns its number of rows.

    No more than one row group is held: 8,192 rows, or about 32 MiB of them.

    Args:
        folder: of the export.
        table: what is written.
        rows: its rows.
        dim: length of the vectors at the end of each row, float16[dim]; None: there are none.
    """
    _, pq = parquet()
    layout = schema(table, dim)
    count = 0
    with pq.ParquetWriter(
        folder / table.file,
        layout,
        # Numbers that look random take longer to compress than to write.
        compression={**dict.fromkeys(table.columns, "zstd"), "vector.list.element": "none"},
        use_dictionary=[c for c in ("unit", "source", "origin", "kind") if c in table.columns],
        write_statistics=[c for c in ("id", "unit", "source", "uri") if c in table.columns],
        write_page_checksum=True,
    ) as out:
        for group in _groups(rows):
            out.write_batch(_batch(table, group, dim, layout), row_group_size=len(group))
            count += len(group)
    return count


def file_sum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


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


def _batch(table: Table, group: list[Row], dim: int | None, layout: Any) -> Any:  # noqa: ANN401
    pa, _ = parquet()
    names = table.summed
    columns = list(zip(*group, strict=True))
    sums = [row_sum(row[: len(names)]) for row in group]
    arrays = [pa.array(columns[n], layout.field(name).type) for n, name in enumerate(names)]
    arrays.append(pa.array(sums, pa.int64()))
    if dim:
        blobs = columns[len(names)]
        none = np.array([blob is None for blob in blobs])
        blank = bytes(2 * dim)
        halves = np.frombuffer(b"".join(blob or blank for blob in blobs), "<f2")
        arrays.append(
            pa.FixedSizeListArray.from_arrays(
                pa.array(halves), type=layout.field("vector").type, mask=pa.array(none)
            )
        )
        found = [None if blob is None else zlib.crc32(blob) for blob in blobs]
        arrays.append(pa.array(found, pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, schema=layout)
