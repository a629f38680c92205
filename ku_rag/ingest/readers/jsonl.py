"""JSON lines: one object a line, read as a stream. One line is held at a time.

Broken lines are reported with their number; the rest is read.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

import orjson

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.readers import decoding
from ku_rag.ingest.readers.decoding import bounded_lines, encoding_of
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.ingest.readers.records import describe_value, is_storable, read_record
from ku_rag.types import Quarantined

_LONG_INTEGER = re.compile(rb"\d{19}")
"""orjson makes integers of more than 64 bits floats."""
_MOST_OWN = 1 << 20
"""Bytes of a line that is parsed in this process. In memory, JSON takes up to 30 times as much."""
_MOST_OBJECT = 8 << 20
"""Bytes of the longest line where all lines are parsed in this process: graphs, questions."""
_EXPECTED = 'expected one object on one line, such as {"name": "Oslo"}'


def read_jsonl(path: Path, parsing: Parsing) -> Iterator[Item]:
    """Read unit records, one JSON object a line; long ones in a parser process."""
    with path.open("rb") as file:
        for number, offset, line in _numbered_lines(file, decoding.MAX_LINE):
            where = f"{path.as_posix()}:{number}"
            try:
                if line is not None and len(line) > _MOST_OWN:
                    yield from parsing.items(
                        "jsonl:read_line", path, offset=offset, size=len(line), where=where
                    )
                else:
                    data = parse_object(line)
                    yield from read_record(data, path, where)
            except BadInput as error:
                yield Quarantined(where, str(error))


def read_line(path: Path, offset: int, size: int, where: str) -> Iterator[tuple[int, Item]]:
    """Yield 0 and each item of the record on one line of a file; reports call it `where`."""
    with path.open("rb") as file:
        file.seek(offset)
        line = file.read(size)
    for item in read_record(parse_object(line), path, where):
        yield 0, item


def read_objects(
    path: Path, expected: str = _EXPECTED
) -> Iterator[tuple[str, Mapping[str, Any] | BadInput]]:
    """Yield "file:line" and the object of each line, or its error; a file may be gzipped."""
    name = path.as_posix()
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        most = min(decoding.MAX_LINE, _MOST_OBJECT)
        for number, _, line in _numbered_lines(file, most):
            try:
                item: Mapping[str, Any] | BadInput = parse_object(line, expected, most)
            except BadInput as error:
                item = error
            yield f"{name}:{number}", item


def _numbered_lines(
    file: gzip.GzipFile | BufferedReader, most: int
) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield number, offset and bytes of the lines that are not blank; None for a longer line."""
    encoding = encoding_of(file.read(4))
    if encoding == "utf-16":
        raise BadInput("the records are in UTF-16: expected UTF-8; save the file as UTF-8")
    file.seek(3 if encoding == "utf-8-sig" else 0)
    offset = file.tell()
    for number, line in enumerate(bounded_lines(file.readline, b"\n", most), 1):
        if line is None or line.strip():
            yield number, offset, line
        offset = offset + len(line) if line is not None else file.tell()


def parse_object(
    line: bytes | None, expected: str = _EXPECTED, most: int | None = None
) -> Mapping[str, Any]:
    """Return the object on a line; a line of more than `most` bytes is None."""
    if line is None:
        raise BadInput(
            f"the line is longer than {(most or decoding.MAX_LINE) >> 20} MiB: expected one record "
            "a line; "
            "split it, or give long texts as files of a folder"
        )
    if b"\0" in line:
        raise BadInput(f"the line holds a NUL byte (at {line.index(0)}): it is damaged; repair it")
    value = _decode(line, expected)
    if not isinstance(value, dict):
        raise BadInput(
            f'the line holds {describe_value(value)}: expected an object, such as {{"name": …}}'
        )
    if b"\\u" in line and not is_storable(value):
        raise BadInput(
            "the record holds a NUL character or half a surrogate pair (\\u0000, \\ud800 …), which "
            "is no text: remove it"
        )
    return value


def _decode(line: bytes, expected: str) -> Any:  # noqa: ANN401 - any JSON value
    with suppress(orjson.JSONDecodeError):
        # orjson does not return when memory is refused, which a long line may cause in a parser.
        value = orjson.loads(line if len(line) <= _MOST_OWN else b"")
        # A key is followed by a colon: if there are no more of them, no key is repeated.
        colons = len(value) if isinstance(value, dict) else -1
        if line.count(b":") == colons and not _LONG_INTEGER.search(line):
            return value
    try:
        return arguments.STRICT_JSON.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the line is not UTF-8: byte 0x{line[error.start]:02x} at offset {error.start} of the "
            "line does not fit; save the file as UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise BadInput(
            f"the line is no JSON ({error.msg} at character {error.pos + 1}): {expected}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the line is no JSON that can be read ({error}): simplify it") from error
