"""Unit records: one JSON object a line, or one row of a table with named columns.

Both stream: what is held is one record. A broken record, picture path or relation is left out with
its line number, and the rest goes on.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.documents import PartialSource, clean_name, encoding_of
from ku_rag.pictures import locate_picture
from ku_rag.types import Quarantined, Record, Relation, Source, Unit

RECORD_SUFFIXES = frozenset({".jsonl", ".ndjson"})
TABLE_SUFFIXES = frozenset({".csv", ".tsv"})
"""Suffixes, in lower case, of the files that hold unit records."""

MAX_LINE = 64 << 20
"""Bytes of the longest JSON line (characters of the longest table line) that is read."""

_LONGEST_NAME = 1_000
_FIELDS = frozenset(
    {"id", "name", "kind", "aliases", "images", "text", "texts", "metadata", "relations", "match"}
)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ESCAPED_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")

Item = Record | Quarantined
Line = TypeVar("Line", bytes, str)
Given = TypeVar("Given")
Made = TypeVar("Made")


# ---- JSON lines --------------------------------------------------------------------------------


def read_jsonl(path: Path) -> Iterator[Item]:
    """Read unit records, one JSON object a line (DESIGN, section 7).

    Args:
        path: resolved; picture paths in the records are relative to its folder.

    Raises:
        BadInput: the file is not in UTF-8.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        encoding = encoding_of(file.read(4096))
        if encoding == "utf-16":
            raise BadInput("the records are in UTF-16: expected UTF-8; save the file as UTF-8")
        file.seek(3 if encoding == "utf-8-sig" else 0)
        for number, line in enumerate(_lines(file.readline, b"\n"), 1):
            where = f"{path.as_posix()}:{number}"
            try:
                if line is None:
                    _too_long()
                if line.strip():
                    yield from _items(_parse(line), path, where)
            except BadInput as error:
                yield Quarantined(where, str(error))


def _lines(readline: Callable[[int], Line], end: Line) -> Iterator[Line | None]:
    """The lines of a file; None for one that is too long, which is skipped and never held."""
    while line := readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE or line.endswith(end):
            yield line
            continue
        del line
        while (rest := readline(1 << 20)) and not rest.endswith(end):
            pass
        yield None


def _too_long() -> NoReturn:
    raise BadInput(
        f"the line is longer than {MAX_LINE >> 20} MiB: expected one record a line; "
        "split it, or give long texts as files of a folder"
    )


def _parse(line: bytes) -> Mapping[str, Any]:
    if b"\0" in line:
        raise BadInput(f"the line holds a NUL byte (at {line.index(0)}): it is damaged; repair it")
    value = arguments.json_line(line, 'expected one object on one line, such as {"name": "Oslo"}')
    if not isinstance(value, dict):
        raise BadInput(f'the line holds {_kind(value)}: expected an object, such as {{"name": …}}')
    if _ESCAPED_UNSTORABLE.search(line) and any(map(_UNSTORABLE.search, _strings(value))):
        raise BadInput(
            "the record holds a NUL character or half a surrogate pair (\\u0000, \\ud800 …), which "
            "is no text: remove it"
        )
    return value


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


# ---- from an object to a record ----------------------------------------------------------------


def _items(data: Mapping[str, Any], path: Path, where: str) -> Iterator[Item]:
    """What is wrong with parts of a record, then the record without them.

    Raises:
        BadInput: the whole record is wrong.
    """
    name = _name(data)
    given = _text(data, "id")
    identity = clean_name(given) if given is not None else name
    if not identity:
        raise BadInput('the "id" is empty: give one, or leave it out to use the name')
    texts = ([text] if (text := _text(data, "text")) else []) + _texts(data, "texts")
    metadata = {key: value for key, value in data.items() if key not in _FIELDS}
    metadata |= _object(data, "metadata")
    match = data.get("match")
    if not isinstance(match, bool | None):
        raise BadInput(f'"match" is {_kind(match)}: expected true or false')
    problems: list[str] = []
    relations = tuple(_sound(_list(data, "relations"), "relations", _relation, problems))
    shown = _texts(data, "images")
    images = _sound(shown, "images", lambda p: locate_picture(path.parent, p), problems)
    unit = Unit(
        name=name,
        id=identity,
        kind=(_text(data, "kind") or "").strip() or None,
        aliases=tuple(dict.fromkeys(filter(None, map(clean_name, _texts(data, "aliases"))))),
        metadata=metadata,
        relations=relations,
        match=match is not False,
    )
    source = (Source if len(images) == len(shown) else PartialSource)(
        f"{path.as_posix()}#{identity}",
        tuple(text for text in texts if text.strip()),
        tuple(dict.fromkeys(images)),
    )
    for problem in problems:
        yield Quarantined(where, f"{problem}; the rest of the record is kept")
    yield Record(unit, (source,))


def _name(data: Mapping[str, Any]) -> str:
    name = clean_name(_text(data, "name") or "")
    if not name:
        seen = "is empty" if data.get("name") is not None else "is missing"
        graph = "; `ku graph import` takes in graphs" if data.keys() & {"entity", "head"} else ""
        raise BadInput(f'"name" {seen}: every record needs a name; it has {_keys(data)}{graph}')
    if len(name) > _LONGEST_NAME:
        raise BadInput(
            f'"name" has {len(name):,} characters, at most {_LONGEST_NAME:,} are read: long texts '
            'belong into "text"'
        )
    return name


def _keys(data: Mapping[str, Any]) -> str:
    keys = ", ".join(repr(key[:40]) for key in list(data)[:8])
    return keys or "no fields"


def _relation(data: object) -> Relation:
    if not isinstance(data, dict):
        raise BadInput(f'is {_kind(data)}: expected {{"relation": …, "target": …}}')
    for key in ("relation", "target"):
        if not (_text(data, key) or "").strip():
            raise BadInput(f'has no "{key}": expected {{"relation": …, "target": …}}; name it')
    return Relation(
        relation=clean_name(data["relation"]),
        target=clean_name(data["target"]),
        target_kind=(_text(data, "target_kind") or "").strip() or None,
        information=_text(data, "information") or None,
        condition=_text(data, "condition") or None,
    )


def _sound(
    given: Sequence[Given], field: str, make: Callable[[Given], Made], problems: list[str]
) -> list[Made]:
    """What can be made of the items of a field; the problems of the others are noted."""
    made = []
    for number, item in enumerate(given):
        try:
            made.append(make(item))
        except BadInput as error:
            problems.append(f"{field}[{number}] {error}")
    return made


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    if not isinstance(value, str | None):
        raise BadInput(f'"{key}" is {_kind(value)}: expected a text in quotation marks')
    return value


def _texts(data: Mapping[str, Any], key: str) -> list[str]:
    values = _list(data, key)
    for value in values:
        if not isinstance(value, str):
            raise BadInput(f'"{key}" holds {_kind(value)}: expected a list of texts')
    return values


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list | None):
        raise BadInput(f'"{key}" is {_kind(value)}: expected a list in square brackets')
    return value or []


def _object(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if not isinstance(value, dict | None):
        raise BadInput(f'"{key}" is {_kind(value)}: expected an object in curly brackets')
    return value or {}


def _kind(value: object) -> str:
    """What a value is, in JSON's words, with a glimpse of it."""
    kinds = {bool: "", int: "the number ", float: "the number ", str: "the text "}
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    shown = json.dumps(value, ensure_ascii=False)
    return kinds.get(type(value), "") + (shown if len(shown) <= 60 else shown[:60] + "…")


# ---- tables ------------------------------------------------------------------------------------

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


def read_table(path: Path) -> Iterator[Item]:
    """Read CSV or TSV with named columns, one unit a row.

    Columns: name; id, kind, aliases, image, images, text, texts, description and match if there.
    Lists are separated by "|" (aliases and images also by ";"). Cells of other columns become
    metadata.

    Args:
        path: resolved; picture paths are relative to its folder.

    Raises:
        BadInput: no column is called "name", or the file is in an encoding that is not read.
        OSError: it cannot be read.
    """
    # The module keeps one limit for the whole process; nobody needs it lower.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    with path.open("rb") as file:
        encoding = encoding_of(file.read(4096))
    with path.open(encoding=encoding, errors="surrogateescape", newline="") as text:
        skipped: list[int] = []
        lines = _held(_lines(text.readline, "\n"), skipped)
        first = next(lines, "")
        delimiter = _delimiter(first, path.suffix.lower())
        # Without `strict`, a quotation mark that is never closed makes the rest one cell, silently.
        rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        columns = _columns(next(rows, []))
        for where, row in _rows(rows, path, skipped):
            try:
                if isinstance(row, Exception):
                    raise BadInput(f"the row cannot be read ({row}): check its quotation marks")
                if any(map(str.strip, row)):
                    yield from _items(_named(columns, row), path, where)
            except BadInput as error:
                yield Quarantined(where, str(error))


def _held(lines: Iterable[str | None], skipped: list[int]) -> Iterator[str]:
    """The lines that are not too long; the numbers of the others are noted."""
    for number, line in enumerate(lines, 1):
        if line is None:
            skipped.append(number)
        else:
            yield line


def _rows(
    rows: Any,  # noqa: ANN401  the type of csv.reader has no public name before Python 3.14
    path: Path,
    skipped: list[int],
) -> Iterator[tuple[str, list[str] | Exception]]:
    """The rows with the line that each starts at, or why one cannot be read."""
    left_out = 0
    while True:
        before = rows.line_num + left_out
        row: list[str] | Exception | None
        try:
            row = next(rows, None)
        except csv.Error as error:
            row = error
        except UnicodeDecodeError as error:
            raise BadInput(
                f"the table is not {error.encoding.upper()} throughout: save it as UTF-8"
            ) from error
        for number in skipped:
            yield f"{path.as_posix()}:{number}", ValueError(f"longer than {MAX_LINE >> 20} MiB")
        if row is None:
            return
        yield f"{path.as_posix()}:{before + len(skipped) + 1}", row
        left_out += len(skipped)
        skipped.clear()


def _delimiter(header: str, suffix: str) -> str:
    """The delimiter under which the first line names the most columns, "name" among them."""
    found = {}
    for delimiter in _DELIMITERS:
        try:
            cells = next(csv.reader([header], delimiter=delimiter), [])
        except csv.Error:
            continue
        if "name" in [cell.strip().casefold() for cell in cells]:
            found[delimiter] = len(cells)
    if not found:
        shown = header.strip()[:200]
        raise BadInput(
            f'no column is called "name" (the first line is {shown!r}): expected named columns '
            "such as name, kind, aliases, images, text; add a line that names them"
        )
    usual = "\t" if suffix == ".tsv" else ","
    return max(found, key=lambda delimiter: (found[delimiter], delimiter == usual))


def _columns(header: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in header]
    return [_COLUMNS.get(name.casefold(), name or f"column {n}") for n, name in enumerate(names, 1)]


def _named(columns: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """A row as the object that a JSON record would be."""
    if any(cell.strip() for cell in row[len(columns) :]):
        raise BadInput(
            f"the row has {len(row)} cells, the header {len(columns)}: put cells that hold the "
            "delimiter into quotation marks"
        )
    data: dict[str, Any] = {}
    for column, cell in zip(columns, row, strict=False):
        if _UNSTORABLE.search(cell):
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
