"""Decoding of text files, lines of bounded length, and one spelling of names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ku_rag.arguments import is_visible, regular_file
from ku_rag.errors import BadInput, NotFound
from ku_rag.types import Source

MAX_TEXT_BYTES = 256 << 20
"""The largest document; a document is read whole, unlike a file of records."""

MAX_PICTURE_BYTES = 64 << 20
"""What a picture in a DOCX file may unpack to."""

MAX_LINE = 64 << 20
"""Bytes of the longest JSON line and characters of the longest table line that is read."""

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]+")

Line = TypeVar("Line", bytes, str)


@dataclass(frozen=True, slots=True)
class PartialSource(Source):
    """A source some of whose pictures could not be read; pictures stored before are kept."""


def read_text(path: Path) -> str:
    """Read a text file, UTF-8 or UTF-16 with a byte order mark, without changing a character."""
    try:
        data = regular_file(path, "a text file", most=MAX_TEXT_BYTES).read_bytes()
    except (OSError, NotFound) as error:
        raise BadInput(f"the file cannot be read ({error}): check its rights") from error
    return decode_text(data)


def decode_text(data: bytes) -> str:
    """Return a text in UTF-8, or in UTF-16 with a byte order mark."""
    encoding = encoding_of(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        kind = encoding.upper().removesuffix("-SIG")
        offset = len(data) - len(error.object) + error.start  # a byte order mark may be cut off
        raise BadInput(
            f"the text is not {kind}: byte 0x{data[offset]:02x} at offset {offset} does not fit; "
            "save the file as UTF-8"
        ) from error
    if (nul := text.find("\0")) >= 0:
        raise BadInput(
            f"the text holds a NUL character (character {nul}): it is binary, damaged, or in "
            "another encoding; save the file as UTF-8 text"
        )
    if not text.strip():
        raise BadInput("the file is empty or blank: write its text, or remove it")
    return text


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text file by its first bytes, as the name of a Python codec."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    return "utf-8-sig" if start.startswith(b"\xef\xbb\xbf") else "utf-8"


def bounded_lines(
    readline: Callable[[int], Line], end: Line, most: int | None = None
) -> Iterator[Line | None]:
    """Yield the lines of a file; None stands for a longer line, which is skipped."""
    most = MAX_LINE if most is None else most
    while line := readline(most + 1):
        if len(line) <= most or line.endswith(end):
            yield line
            continue
        del line
        while (rest := readline(1 << 20)) and not rest.endswith(end):
            pass
        yield None


def clean_name(name: str) -> str:
    """Return a name in NFC with single spaces, without control characters; "" if not visible."""
    if name.isascii() and name.isprintable() and "  " not in name:
        return name.strip()
    clean = " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", name)).split())
    return clean if is_visible(clean) else ""


def file_name(stem: str) -> str:
    """Return the name of the unit that a file or folder of this name describes."""
    if name := clean_name(stem):
        return name
    raise BadInput(f"its name {stem!a} has no visible character: rename it")
