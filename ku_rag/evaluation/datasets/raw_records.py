"""The records of dataset files: JSON, JSON lines, CSV and workbooks.

A record that cannot be decoded is yielded as an error with its place; the rest is read. `OSError`,
`EOFError`, `zlib.error`, `csv.Error` and `UnicodeDecodeError` are raised if the rest of a file
cannot be read.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.readers.jsonl import read_objects
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.ingest.readers.records import describe_value

RawRecord = tuple[str, Mapping[str, Any] | BadInput]
"""The place of a record, "file:line" or "file[number or key]", and its fields or its error."""

MOST_BYTES = 1 << 30
"""Size of the largest file; a JSON document is read whole. That of WebQA has 0.6 GB."""


def read_records(path: Path) -> Iterator[RawRecord]:
    """Return the records of a file by its suffix: .json, .csv, .xlsx, else JSON lines."""
    readers = {".json": read_document, ".csv": _read_rows, ".xlsx": _read_workbook}
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    return readers.get(suffix, read_objects)(path)


def read_document(path: Path, key: str = "") -> Iterator[RawRecord]:
    """Yield the objects of a list in a JSON document, its field `key`, or of one by id."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        data = file.read(MOST_BYTES)
    try:
        value = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
        value = value[key] if key else value
        items = value.items() if isinstance(value, dict) else enumerate(value)
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput(
            f"{path} is not a JSON document of records ({error}): expected the official file, or "
            f"a list of at most {MOST_BYTES:,} bytes; a file of one record per line ends in .jsonl"
        ) from error
    for name, record in items:
        problem = BadInput(f"the record is {describe_value(record)}: expected an object")
        yield f"{path.as_posix()}[{name!r}]", record if isinstance(record, dict) else problem


def _read_rows(path: Path) -> Iterator[RawRecord]:
    """Yield the rows of a CSV file with named columns; an empty cell is a missing field."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        for row in rows:
            cells = {column: cell for column, cell in row.items() if column and cell}
            yield f"{path.as_posix()}:{rows.line_num}", cells


def _read_workbook(path: Path) -> Iterator[RawRecord]:
    """Yield the rows of the first sheet of a workbook, whose first row names the columns."""
    sheet = Parsing().rows("sheet:read_sheet", path)
    _, columns = next(sheet, (0, []))
    for number, cells in sheet:
        yield (
            f"{path.as_posix()}:{number}",
            {name: cell for name, cell in zip(columns, cells, strict=False) if cell},
        )


def read_okvqa(path: Path) -> Iterator[RawRecord]:
    """Yield the questions of OK-VQA, each joined with its annotation of a file in the folder."""
    name = path.name.removeprefix("OpenEnded_").replace("questions", "annotations")
    beside = arguments.regular_file(path.with_name(name), "the annotations", most=MOST_BYTES)
    listed = [row for _, row in read_document(beside, "annotations") if isinstance(row, dict)]
    annotations = {str(row.get("question_id")): row for row in listed}
    for where, record in read_document(path, "questions"):
        if isinstance(record, dict):
            record = annotations.get(str(record.get("question_id")), {}) | record
        yield where, record


def read_webqa(path: Path) -> Iterator[RawRecord]:
    """Yield the questions of WebQA that are not of the training split."""
    for where, record in read_records(path):
        if isinstance(record, BadInput) or record.get("split") != "train":
            yield where, record
