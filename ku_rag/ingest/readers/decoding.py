"""Decoding of text files, lines of bounded length, and one spelling of names."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ku_rag.errors import BadInput
from ku_rag.types import Source

MAX_TEXT_BYTES = 256 << 20
"""The largest document; a document is read whole, unlike a file of records."""

MAX_LINE = 64 << 20
"""Bytes of the longest JSON line and characters of the longest table line that is read."""

Line = TypeVar("Line", bytes, str)


@dataclass(frozen=True, slots=True)
class PartialSource(Source):
    """A source some of whose pictures could not be read; pictures stored before are kept."""


def read_text(path: Path) -> str:
    """Read a whole text file without changing a character, line ends included.

    Raises:
        BadInput: The file is empty, too large, unreadable, or not text; see `decode`.
    """
    try:
        size = path.stat().st_size
        if size > MAX_TEXT_BYTES:
            raise BadInput(
                f"the text has {size:,} bytes, at most {MAX_TEXT_BYTES:,} are read as one "
                "document: split it, or make it unit records (.jsonl)"
            )
        return decode(path.read_bytes())
    except OSError as error:
        raise BadInput(f"the file cannot be read ({error.strerror}): check its rights") from error


def decode(data: bytes) -> str:
    """Decode text: UTF-8 with or without a byte order mark, or UTF-16 with one.

    Raises:
        BadInput: The text is empty or blank, in another encoding, or holds NUL characters.
    """
    if not data:
        raise BadInput("the file is empty (0 bytes): write its text, or remove it")
    encoding = encoding_of(data[:4096])
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
            f"the text holds a NUL character (character {nul}): it is binary or damaged; "
            "save the file as UTF-8 text"
        )
    if not text.strip():
        raise BadInput("the file holds nothing but blanks: write its text, or remove it")
    return text


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text file, as the name of a Python codec.

    Args:
        start: The first bytes of the file, 4,096 at most.

    Raises:
        BadInput: The encoding is one that is not supported.
    """
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        raise BadInput("the text is UTF-32: expected UTF-8; save the file as UTF-8")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    nuls = start.count(b"\0")
    if nuls > len(start) // 4 and nuls in (start[::2].count(b"\0"), start[1::2].count(b"\0")):
        raise BadInput(
            "the text looks like UTF-16 without a byte order mark: expected UTF-8; "
            "save the file as UTF-8"
        )
    return "utf-8-sig" if start.startswith(b"\xef\xbb\xbf") else "utf-8"


def bounded_lines(readline: Callable[[int], Line], end: Line) -> Iterator[Line | None]:
    """Yield the lines of a file; None stands for a line longer than `MAX_LINE`, which is skipped.

    Args:
        readline: Method of an open file that reads at most so many characters of a line.
        end: The character that ends a line.
    """
    while line := readline(MAX_LINE + 1):
        if len(line) <= MAX_LINE or line.endswith(end):
            yield line
            continue
        del line
        while (rest := readline(1 << 20)) and not rest.endswith(end):
            pass
        yield None


def clean_name(name: str) -> str:
    """Return a name with composed characters and single spaces, none of them at its ends."""
    return " ".join(unicodedata.normalize("NFC", name).split())
