"""A graph as JSON lines: an entity or a relation each, in any order.

{"entity": "Zinogre", "kind": "monster", "topic": true, "images": ["zinogre.png"]}
{"head": "Zinogre", "relation": "attack of", "tail": "Bite", "condition": "when enraged"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.graph.graph_records import (
    STATED,
    Part,
    Statement,
    clean,
    described,
    identity,
    optional,
    picture_in,
    shown,
    video_in,
)

SUFFIXES = frozenset({".jsonl", ".ndjson"})

_BLOCK = 1 << 20
_MOST_BYTES = 64 << 20
"""Of the longest line that is read."""
_ESCAPED_UNSTORABLE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_EXPECTED = 'expected {"entity": …} or {"head": …, "relation": …, "tail": …}'


def read(path: Path, progress: Callable[[int], None] | None = None) -> list[Part]:
    """Read a graph; broken lines are left out with their numbers.

    Args:
        path: resolved; pictures and videos are relative to its folder.
        progress: called with the number of lines read so far, now and then.

    Raises:
        OSError: it cannot be read.
    """
    part = Part(path.as_posix(), path.as_posix())
    locate, locate_video = picture_in(path.parent), video_in(path.parent)
    spelt: dict[str, str] = {}
    known = set(STATED)
    stated = part.statements
    with path.open("rb") as file:
        for number, read in _objects(file):
            if progress and not number % 4096:
                progress(number)
            try:
                data = read if isinstance(read, dict) else _parse(read)
                if "head" in data:
                    stated.append(_statement(data, spelt))
                    if len(data) > 3 and (strange := data.keys() - known):
                        part.leave_out(f"{part.uri}:{number}", _unknown(min(strange)))
                        known |= strange
                    continue
                if read == b"":
                    continue
                problems: list[str] = []
                entity = described(data, locate, locate_video, problems)
            except BadInput as error:
                part.leave_out(f"{part.uri}:{number}", str(error), unread=True)
                continue
            where = f"{part.uri}:{number}"
            part.describe(entity, where)
            for problem in problems:
                part.leave_out(where, f"{problem}; the rest of the entity is kept")
    return [part]


def write(
    path: Path, entities: Iterable[Mapping[str, Any]], statements: Iterable[Statement]
) -> None:
    """Write a graph.

    Args:
        path: the file.
        entities: fields of each, pictures relative to the file's folder.
        statements: between ids of entities, and names.
    """
    with path.open("w", encoding="utf-8") as file:
        for entity in entities:
            file.write(_line(entity))
        for one in statements:
            said = {key: value for key, value in zip(STATED, one, strict=True) if value is not None}
            file.write(_line(said))


def _line(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n"


def _objects(file: BinaryIO) -> Iterator[tuple[int, dict[str, Any] | bytes]]:
    """The number and the relation on each line; the line itself, stripped, if it is another."""
    number = 0
    loads, broken = orjson.loads, orjson.JSONDecodeError
    for block in _blocks(file):
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            try:
                data = loads(line) if len(line) <= _MOST_BYTES else None
            except broken:
                data = None
            # Long numbers of others would lose digits; what is escaped may be no text.
            if isinstance(data, dict) and "head" in data and b"\\u" not in line:
                yield number, data
            else:
                yield number, line.strip()


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines, many at a time; of one that is too long no more than shows that it is."""
    start = file.read(3)
    file.seek(3 if start == b"\xef\xbb\xbf" else 0)
    while block := file.read(_BLOCK):
        rest = b"" if block.endswith(b"\n") else file.readline(_MOST_BYTES)
        yield block + rest
        while len(rest) == _MOST_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(_MOST_BYTES)


def _parse(line: bytes) -> Mapping[str, Any]:
    """The object on a line; an empty one for an empty line."""
    if len(line) > _MOST_BYTES:
        raise BadInput(
            f"the line is longer than {_MOST_BYTES >> 20} MiB: expected one entity or relation a "
            "line; split it"
        )
    data = arguments.json_line(line, f"{_EXPECTED} on one line") if line else {}
    if not isinstance(data, dict):
        raise BadInput(f"the line holds {shown(data)}: {_EXPECTED}")
    if _ESCAPED_UNSTORABLE.search(line):
        # "\\ud83d\\ude00" is one character, half of it is none.
        arguments.json_object(data, "the line")
    return data


def _unknown(field: str) -> str:
    return (
        f"a relation has no field {field[:40]!r}, only {', '.join(STATED)}: it is left out here "
        "and further on, the rest is kept"
    )


def _statement(data: Mapping[str, Any], spelt: dict[str, str]) -> Statement:
    """A relation; `spelt` keeps what names were cleaned to, and one copy of each."""
    try:
        head, relation, tail = spelt[data["head"]], spelt[data["relation"]], spelt[data["tail"]]
    except (KeyError, TypeError):
        head, relation, tail = (identity(data, key) for key in ("head", "relation", "tail"))
        spelt[data["head"]] = spelt.setdefault(head, head)
        spelt[data["relation"]] = spelt.setdefault(relation, relation)
        spelt[data["tail"]] = spelt.setdefault(tail, tail)
    if len(data) == 3:
        return head, relation, tail, None, None, None
    notes = optional(data, "information") or None, optional(data, "condition") or None
    kind = "tail_kind" in data and clean(optional(data, "tail_kind") or "")
    return head, relation, tail, *notes, kind or None
