"""A graph as JSON lines: an entity or a relation each, in any order.

{"entity": "Zinogre", "kind": "monster", "topic": true, "images": ["zinogre.png"]}
{"head": "Zinogre", "relation": "attack of", "tail": "Bite", "condition": "when enraged"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.graph.records import (
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
    stated = part.statements
    with path.open("rb") as file:
        for number, line in enumerate(_lines(file), 1):
            if progress and not number % 4096:
                progress(number)
            try:
                data = _parse(line)
                if "head" in data:
                    stated.append(_statement(data, spelt))
                    continue
                if not data and line.isspace():
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


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; of one that is too long no more than is needed to see that it is."""
    start = file.read(3)
    file.seek(3 if start == b"\xef\xbb\xbf" else 0)
    while line := file.readline(_MOST_BYTES + 1):
        yield line
        while len(line) > _MOST_BYTES and not line.endswith(b"\n"):
            line = file.readline(_MOST_BYTES + 1)


def _parse(line: bytes) -> Mapping[str, Any]:
    """The object on a line; an empty one for an empty line."""
    if len(line) > _MOST_BYTES:
        raise BadInput(
            f"the line is longer than {_MOST_BYTES >> 20} MiB: expected one entity or relation a "
            "line; split it"
        )
    try:
        text = line.decode("utf-8").strip()
        data, end = _decode(text) if text else ({}, 0)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except UnicodeDecodeError as error:
        raise BadInput(
            f"the line is not UTF-8: byte 0x{line[error.start]:02x} at offset {error.start} of the "
            "line does not fit; save the file as UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise BadInput(
            f"the line is no JSON ({error.msg} at character {error.pos + 1}): {_EXPECTED} on one "
            "line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the line is no JSON that can be read ({error}): simplify it") from error
    if not isinstance(data, dict):
        raise BadInput(f"the line holds {shown(data)}: {_EXPECTED}")
    if b"\\u" in line and _ESCAPED_UNSTORABLE.search(line):
        # "\\ud83d\\ude00" is one character, half of it is none.
        arguments.json_object(data, "the line")
    return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# Made once: `json.loads` with an option makes a decoder for every line.
_decode = json.JSONDecoder(parse_constant=_no_constant).raw_decode


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
    return (
        head,
        relation,
        tail,
        optional(data, "information") or None,
        optional(data, "condition") or None,
        clean(optional(data, "tail_kind") or "") or None,
    )
