"""Parquet files of unit records: a row is what a line of a JSONL file is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ku_rag.errors import BadInput, MissingExtra
from ku_rag.ingest.readers.records import Item, is_storable, read_record
from ku_rag.plugins import extra
from ku_rag.types import Quarantined

_ROWS = 1024


def read_parquet(path: Path) -> Iterator[Item]:
    """Read unit records, one a row; columns without a value are absent.

    Args:
        path: Resolved; picture paths in the records are relative to its folder.

    Raises:
        BadInput: The file cannot be read, has no column "name", or pyarrow is not installed.
    """
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
            for batch in file.iter_batches(_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    where = f"{path.as_posix()}:{number}"
                    try:
                        if not is_storable(row):
                            raise BadInput("the row holds a NUL character: remove it")
                        found = {key: value for key, value in row.items() if value is not None}
                        yield from read_record(found, path, where)
                    except BadInput as error:
                        yield Quarantined(where, str(error))
    except (arrow.ArrowException, UnicodeDecodeError) as error:
        raise BadInput(
            f"the file is damaged after row {number} ({error}): copy or write it again"
        ) from error
