"""CSV and TSV files: one unit a row where a column is called "name", else one table."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, TextIO

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.readers import decoding
from ku_rag.ingest.readers.decoding import bounded_lines, encoding_of, file_name
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.records import is_storable, read_record
from ku_rag.types import Cell, Quarantined, Record, Source, Table, Unit

_DELIMITERS = ",;\t|"
_COLUMNS = {
    "id": "id",
    "name": "name",
    "kind": "kind",
    "alias": "aliases",
    "aliases": "aliases",
    "image": "image",
    "images": "images",
    "text": "text",
    "texts": "texts",
    "description": "text",
    "match": "match",
}
_NO = frozenset({"false", "no", "0"})


def read_table(path: Path, skip: int = 0) -> Iterator[tuple[int, Item]]:
    """Read CSV or TSV with named columns.

    Without a column that is called "name", the file is a unit with one table. With one, each row is
    a unit. Columns: name; id, kind, aliases, image, images, text, texts, description and match if
    there. Lists are separated by "|" (aliases and images also by ";"). Cells of other columns
    become metadata.
    """
    # The csv module has one limit for the whole process; nothing needs a lower one.
    csv.field_size_limit(max(csv.field_size_limit(), decoding.MAX_LINE))
    with path.open("rb") as file:
        encoding = encoding_of(file.read(4))
    with path.open(encoding=encoding, errors="surrogateescape", newline="") as text:
        lines = _Lines(text)
        first = next(lines, "")
        delimiter, of_units = _delimiter(first, path.suffix.lower())
        # Without `strict`, a quotation mark that is never closed makes the rest one cell, silently.
        rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        header = next(rows, [])
        names = (cell.strip() for cell in header)
        columns = [_COLUMNS.get(s.casefold(), s or f"column {n}") for n, s in enumerate(names, 1)]
        cells: list[list[str]] = []
        for number in count(1):
            where = f"{path.as_posix()}:{lines.number + 1}"
            try:
                if (row := next(rows, None)) is None:
                    break
                if number <= skip or not any(map(str.strip, row)):
                    continue
                if not of_units:
                    cells.append(list(arguments.texts(row, "cells")))
                else:
                    items = read_record(_to_object(columns, row), path, where)
                    yield from ((number, item) for item in items)
            except BadInput as error:
                yield number, Quarantined(where, str(error))
            except csv.Error as error:
                reason = f"the row cannot be read ({error}): check its quotation marks"
                yield number, Quarantined(where, reason)
            except UnicodeDecodeError as error:
                raise BadInput(
                    f"the table is not {error.encoding.upper()} throughout: save it as UTF-8"
                ) from error
    if not of_units and skip:
        raise BadInput("the table is left out: it is read as a whole")
    if not of_units:
        yield 0, _table(path, header, cells)


def _table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Record:
    if len(header) < 2 or not rows:
        line = ", ".join(header)[:200]
        raise BadInput(
            f'no column is called "name" (the first line is {line!r}): expected named columns '
            "such as name, kind, aliases, images, text, or a table of two columns or more; add a "
            "line that names them"
        )
    name = file_name(path.stem)
    table = Table(tuple(header), tuple(tuple(map(Cell, row)) for row in rows), name)
    return Record(Unit(name, id=name), (Source(path.as_posix(), tables=(table,)),))


class _Lines(Iterator[str]):
    """The lines of a file; `number` of them have been read. A line that is too long is an error."""

    def __init__(self, text: TextIO) -> None:
        self.number = 0
        self._lines = bounded_lines(text.readline, "\n")

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        if line is None:
            most = decoding.MAX_LINE >> 20
            raise BadInput(f"the row cannot be read (longer than {most} MiB): split its texts")
        return line


def _delimiter(header: str, suffix: str) -> tuple[str, bool]:
    """Return the delimiter with a column "name", else with the most columns, and if it has one."""
    usual = "\t" if suffix == ".tsv" else ","
    ranks = {usual: (False, 0, True)}
    for delimiter in _DELIMITERS:
        try:
            cells = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:
            continue
        named = "name" in [cell.strip().casefold() for cell in cells]
        ranks[delimiter] = named, len(cells), delimiter == usual
    best = max(ranks, key=ranks.__getitem__)
    return best, ranks[best][0]


def _to_object(columns: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """Return a row as the object that a JSON record would be."""
    if any(cell.strip() for cell in row[len(columns) :]):
        raise BadInput(
            f"the row has {len(row)} cells, the header {len(columns)}: put cells that hold the "
            "delimiter into quotation marks"
        )
    data: dict[str, Any] = {}
    for column, cell in zip(columns, row, strict=False):
        if not is_storable(cell):
            raise BadInput(
                f"column {column!r} holds bytes that are not UTF-8, or NUL: save it as UTF-8"
            )
        if cell.strip():
            _put(data, column, cell)
    return data


def _put(data: dict[str, Any], column: str, cell: str) -> None:
    match column:
        case "id" | "name" | "kind":
            data.setdefault(column, cell)
        case "aliases" | "images":
            data.setdefault(column, []).extend(_split(cell, "|" if "|" in cell else ";"))
        case "image":
            data.setdefault("images", []).append(cell.strip())
        case "text":
            data.setdefault("texts", []).append(cell)
        case "texts":
            data.setdefault("texts", []).extend(_split(cell, "|"))
        case "match":
            data["match"] = cell.strip().casefold() not in _NO
        case _:
            metadata = data.setdefault("metadata", {})
            before = metadata.get(column, [])
            several = [*(before if isinstance(before, list) else [before]), cell]
            metadata[column] = several if len(several) > 1 else cell


def _split(cell: str, mark: str) -> list[str]:
    return [part.strip() for part in cell.split(mark) if part.strip()]
