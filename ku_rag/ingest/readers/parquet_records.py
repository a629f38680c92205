"""Parquet files of unit records: a row is what a line of a JSONL file is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ku_rag.errors import BadInput, MissingExtra
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.records import is_storable, read_record
from ku_rag.plugins import extra
from ku_rag.types import Quarantined

_ROWS = 1024
_BATCH_BYTES = 16 << 20
"""About the most that is decoded at once."""


def read_parquet(path: Path, skip: int = 0) -> Iterator[tuple[int, Item]]:
    """Read unit records, one a row; columns without a value are absent."""
    try:
        arrow, parquet = extra("parquet", "pyarrow"), extra("parquet", "pyarrow.parquet")
    except MissingExtra as error:
        raise BadInput(str(error)) from error
    number = 0
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            if "name" not in file.schema_arrow.names:
                listed = ", ".join(file.schema_arrow.names[:8])
                raise BadInput(f'the file has no column "name", only {listed}: rename one')
            # After a row that takes too much memory, no two rows are decoded together.
            size = 1 if skip else _batch_size(file.metadata)
            for batch in file.iter_batches(size, use_threads=False):
                if number < skip:
                    number += 1
                    continue
                for row in batch.to_pylist():
                    number += 1
                    where = f"{path.as_posix()}:{number}"
                    try:
                        if not is_storable(row):
                            raise BadInput("the row holds a NUL character: remove it")
                        fields = {key: value for key, value in row.items() if value is not None}
                        yield from ((number, item) for item in read_record(fields, path, where))
                    except BadInput as error:
                        yield number, Quarantined(where, str(error))
    except MemoryError:  # of Arrow's errors, one is of both kinds
        raise
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise BadInput(
            f"the file is damaged after row {number} ({error}): copy or write it again"
        ) from error


def _batch_size(metadata: Any) -> int:  # noqa: ANN401 - of pyarrow, which has no types
    """Return how many rows are decoded at once."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    row = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(_ROWS, _BATCH_BYTES // max(row, 1)))
