"""JSON lines: one object a line, read as a stream. One line is held at a time.

Broken lines are reported with their number; the rest is read.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.readers import decoding
from ku_rag.ingest.readers.decoding import bounded_lines, encoding_of
from ku_rag.ingest.readers.records import Item, describe_value, is_storable, read_record
from ku_rag.types import Quarantined

RECORD_SUFFIXES = frozenset({".jsonl", ".ndjson"})
"""Suffixes, in lower case, of the files that hold one object a line."""

_LONG_INTEGER = re.compile(rb"\d{19}")
"""orjson makes integers of more than 64 bits floats."""
_EXPECTED = 'expected one object on one line, such as {"name": "Oslo"}'


def read_jsonl(path: Path) -> Iterator[Item]:
    """Read unit records, one JSON object a line (DESIGN, section 7).

    Args:
        path: Resolved; picture paths in the records are relative to its folder.

    Raises:
        BadInput: The file is not in UTF-8.
        OSError: The file cannot be read.
    """
    for where, data in read_objects(path):
        try:
            if isinstance(data, BadInput):
                raise data
            yield from read_record(data, path, where)
        except BadInput as error:
            yield Quarantined(where, str(error))


def read_objects(
    path: Path, expected: str = _EXPECTED
) -> Iterator[tuple[str, Mapping[str, Any] | BadInput]]:
    """Read the objects of a file, one a line. Blank lines are skipped.

    Args:
        path: The file; one that ends in .gz is decompressed.
        expected: What a message says that a line should hold, "expected …".

    Yields:
        "file:line" and the object, or the error of a line that holds none.

    Raises:
        BadInput: The file is not in UTF-8.
        OSError, EOFError, zlib.error: The file cannot be read or decompressed.
    """
    name = path.as_posix()
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        encoding = encoding_of(file.read(4))
        if encoding == "utf-16":
            raise BadInput("the records are in UTF-16: expected UTF-8; save the file as UTF-8")
        file.seek(3 if encoding == "utf-8-sig" else 0)
        for number, line in enumerate(bounded_lines(file.readline, b"\n"), 1):
            if line is None or line.strip():
                try:
                    found: Mapping[str, Any] | BadInput = parse_object(line, expected)
                except BadInput as error:
                    found = error
                yield f"{name}:{number}", found


def parse_object(line: bytes | None, expected: str = _EXPECTED) -> Mapping[str, Any]:
    """Return the object on a line, whose texts can be stored; None is a line that is too long.

    Raises:
        BadInput: The line holds no such object; `expected` is part of the message.
    """
    if line is None:
        raise BadInput(
            f"the line is longer than {decoding.MAX_LINE >> 20} MiB: expected one record a line; "
            "split it, or give long texts as files of a folder"
        )
    if b"\0" in line:
        raise BadInput(f"the line holds a NUL byte (at {line.index(0)}): it is damaged; repair it")
    value = _decoded(line, expected)
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


def _decoded(line: bytes, expected: str) -> Any:  # noqa: ANN401 - any JSON value
    with suppress(orjson.JSONDecodeError):
        value = orjson.loads(line)
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
