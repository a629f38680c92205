"""The first sheet of a workbook, as rows of texts."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

from ku_rag.errors import BadInput
from ku_rag.plugins import extra

_MOST_ROWS = 1 << 20
"""The most rows that a sheet of Office Open XML has."""
_MOST_CELLS = 1 << 24
"""Empty cells between others count, too."""
_MAX_BYTES = 1 << 30
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
"""How Office Open XML writes a character that a cell cannot hold."""
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, ParseError, OSError, EOFError),
    *(KeyError, IndexError, ValueError, TypeError, AttributeError),
)
"""What openpyxl raises for damaged workbooks."""


def read_sheet(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield number and cells of the rows of the first sheet that hold something."""
    load_workbook = extra("graph", "openpyxl").load_workbook
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(member.file_size for member in packed.infolist())
        if size > _MAX_BYTES:
            raise BadInput(
                f"{path.name} unpacks to {size:,} bytes, at most {_MAX_BYTES:,} are read: split it"
            )
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            count = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                count += len(cells)
                if number > _MOST_ROWS or count > _MOST_CELLS:
                    raise BadInput(
                        f"{path.name} has more than {_MOST_ROWS:,} rows or {_MOST_CELLS:,} cells: "
                        "the rest is left out; split it"
                    )
                if any(texts := [_cell_text(value) for value in cells]):
                    yield number, texts
    except _DAMAGED as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"{path.name} is no workbook that can be read ({reason}): save it as .xlsx again"
        ) from error


def _cell_text(value: Any) -> str:  # noqa: ANN401 - a text, number, boolean or date
    if value is None or (isinstance(value, str) and not value.strip()):
        return ""
    if isinstance(value, str):
        return _ESCAPED.sub(_unescape, value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).upper() if isinstance(value, bool) else str(value)


def _unescape(escaped: re.Match[str]) -> str:
    """Return a carriage return or an underscore; other characters stay as they are written."""
    character = chr(int(escaped[1], 16))
    return character if character in "\r_" else escaped[0]
