"""Sheets of workbooks as rows of named texts: read safely, and written as what they are."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from ku_rag.errors import BadInput
from ku_rag.graph.formats import cells
from ku_rag.plugins import extra

_MOST_BYTES = 1 << 30
_MOST_CELL = 32_767
_LOOKED_AT = 1 << 16
_RETURN = "_x000D_"
"""What stands in a cell for a carriage return, which XML takes for a line feed."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""So any character may be written."""
_ALIKE = re.compile("_(?=x[0-9A-Fa-f]{4}[_\r])")
"""Where a text looks like that by itself, its first character is written so."""
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    ParseError,
    KeyError,
    ValueError,
    TypeError,
    EOFError,
    AttributeError,
)


def rows(
    books: Any,  # noqa: ANN401 - openpyxl, which has no types
    path: Path,
    titles: Mapping[str, Sequence[str]],
    places: Sequence[str],
    needed: Sequence[str],
) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and fields of every row of the first sheet that holds something.

    Args:
        books: openpyxl.
        path: the workbook.
        titles: what a column may be called, folded, by field; other titles are fields themselves.
        places: the fields of the columns of a sheet whose titles say nothing.
        needed: fields that must be there.

    Raises:
        BadInput: it is damaged, or lacks a column.
    """
    try:
        _check(path)
        with closing(books.load_workbook(path, read_only=True, data_only=True)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            columns: list[str] = []
            for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
                texts = [_text(value) for value in row]
                if not any(texts):
                    continue
                if not columns:
                    columns = _columns(texts, titles, places, needed)
                    continue
                yield number, _fields(columns, texts)
    except BadInput:
        raise
    except (*_DAMAGED, OSError, IndexError) as error:
        raise BadInput(
            f"{path.name} is no workbook that can be read ({error}): save it as .xlsx again"
        ) from error


def _fields(columns: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    data: dict[str, str] = {}
    for column, text in zip(columns, texts, strict=False):
        if column and text:
            data.setdefault(column, text)
    return data


def _columns(
    given: Sequence[str],
    titles: Mapping[str, Sequence[str]],
    places: Sequence[str],
    needed: Sequence[str],
) -> list[str]:
    """The field of each column; other titles are fields of their own."""
    known = {title: key for key, all_titles in titles.items() for title in all_titles}
    found = [known.get(" ".join(title.casefold().replace("_", " ").split()), "") for title in given]
    missing = [key for key in needed if key not in found]
    width = max((n for n, title in enumerate(given, 1) if title), default=0)
    fits = all(key in ("", place) for key, place in zip(found, places, strict=False))
    if missing and width == len(places) and fits:
        return list(places)
    if missing:
        lacking = " and ".join(
            f"{titles[key][0].title()} (or {', '.join(one.title() for one in titles[key][1:])})"
            for key in missing
        )
        seen = ", ".join(repr(title[:40]) for title in given if title)
        raise BadInput(f"no column is called {lacking}; there are {seen}: name the columns so")
    return [key or title.strip() for key, title in zip(found, given, strict=True)]


def _text(value: object) -> str:
    """A cell as text: whole numbers without a fraction."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        return _ESCAPED.sub(_character, value) if value.strip() else ""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value)


def _character(escaped: re.Match[str]) -> str:
    made = chr(int(escaped[1], 16))
    return made if made in "\r_" else escaped[0]


def _check(path: Path) -> None:
    """Refuse what would fill the memory: huge parts, document types.

    Raises:
        BadInput: it holds such things.
    """
    with zipfile.ZipFile(path) as packed:
        size = sum(one.file_size for one in packed.infolist())
        if size > _MOST_BYTES:
            raise BadInput(
                f"{path.name} unpacks to {size:,} bytes, at most {_MOST_BYTES:,} are read: split it"
            )
        for one in packed.infolist():
            if one.filename.lower().endswith((".xml", ".rels")):
                with packed.open(one) as file:
                    start = file.read(_LOOKED_AT).replace(b"\0", b"")
                if b"<!doctype" in start.lower():
                    raise BadInput(
                        f"{path.name} has a document type in {one.filename}, whose entities are "
                        "not read: save it anew with a spreadsheet program"
                    )


def write(path: Path, titles: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a workbook of one sheet, every cell a text.

    Args:
        path: the file.
        titles: of the columns, by field.
        rows: fields of each.

    Raises:
        BadInput: a text is longer than a cell.
        MissingExtra: openpyxl is not installed.
    """
    # All of them before the book is begun: it leaves files behind when it is not finished.
    lines = [[_cell(said.get(key, "")) for key in titles] for said in map(cells.fields, rows)]
    book = extra("graph", "openpyxl").Workbook(write_only=True)
    sheet = book.create_sheet(path.stem)
    cell_of = extra("graph", "openpyxl.cell").WriteOnlyCell
    sheet.append(list(titles.values()))
    for line in lines:
        made = [cell_of(sheet, value=text or None) for text in line]
        for cell in made:
            cell.data_type = "s"  # never a formula, whatever it begins with
        sheet.append(made)
    book.save(path)


def _cell(text: str) -> str:
    """A text as a cell holds it.

    Raises:
        BadInput: it is too long for one.
    """
    if len(text) > _MOST_CELL:
        raise BadInput(
            f"a text of {len(text):,} characters begins with {text[:40]!r}, a cell holds "
            f"{_MOST_CELL:,}: export as .jsonl or .graphml"
        )
    return _ALIKE.sub("_x005F_", text).replace("\r", _RETURN)
