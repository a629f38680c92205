"""Outlines of documents: text, headings, pictures and tables; the headings name units."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from ku_rag.arguments import LONGEST_NAME, regular_file
from ku_rag.errors import BadInput, MissingExtra
from ku_rag.ingest.readers.decoding import MAX_TEXT_BYTES, PartialSource, file_name
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.registry import READERS, load_reader
from ku_rag.picture_paths import locate_picture
from ku_rag.types import Cell, Quarantined, Record, Source, Table, Unit


class _Heading(NamedTuple):
    """A heading and its place in the text."""

    level: int
    name: str
    start: int
    end: int


@dataclass(slots=True)
class Outline:
    """The text of a document, and the places of its headings, pictures and tables.

    Args:
        path: Of the document, resolved.
        text: The whole text.
        headings: In order.
        images: Place in the text, number of the line or 0, and address of each picture, in order.
        tables: Start and end in the text, title, and rows of each table, the header first.
        quarantined: What is left out; `source` adds pictures that cannot be used.
        is_archive: Whether pictures are members of the file.
    """

    path: Path
    text: str = ""
    headings: list[_Heading] = field(default_factory=list)
    images: list[tuple[int, int, str]] = field(default_factory=list)
    tables: list[tuple[int, int, str, list[list[str]]]] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    is_archive: bool = False

    def add_heading(self, level: int, name: str, start: int, end: int) -> None:
        """Add a heading, unless it is empty or too long to be a name."""
        if name and len(name) <= LONGEST_NAME:
            self.headings.append(_Heading(level, name, start, end))

    def add_table(self, start: int, end: int, caption: str, rows: list[list[str]]) -> None:
        """Add a table; without a caption it has the title of the heading above it."""
        above = self.headings[-1].name if self.headings else ""
        self.tables.append((start, end, caption or above, rows))

    def units(self) -> Iterator[Record | Quarantined]:
        """Yield the units that the headings name, and what is left out.

        These are the headings of the highest level that occurs twice, or of the highest level.
        Deeper headings stay in their unit's text; a higher heading is a unit if text of its own
        follows it. Text before the first heading belongs to no unit. A document without headings
        is one unit with the file's name.
        """
        uri, end = self.path.as_posix(), len(self.text)
        counts = Counter(heading.level for heading in self.headings)
        level = min((n for n in counts if counts[n] > 1), default=min(counts, default=1))
        headings = [heading for heading in self.headings if heading.level <= level]
        if not headings:
            name = file_name(self.path.stem)
            yield Record(Unit(name, id=name), (self.source(uri, 0, end),))
        elif headings[0].start:
            for line, address in self._between(0, headings[0].start):
                self.quarantine(
                    line, f"the picture {address!r} is before the first heading: put it below one"
                )
            self.images = [image for image in self.images if image[0] >= headings[0].start]
            preamble = self.source(uri, 0, headings[0].start)
            if preamble.texts or preamble.tables:
                yield Record(None, (preamble,))
        yield from self._named_units(uri, level, headings)
        yield from self.quarantined

    def _named_units(self, uri: str, level: int, headings: Sequence[_Heading]) -> Iterator[Record]:
        """Yield one record for each name; a repeated heading is another part of the same unit."""
        ends = [*(heading.start for heading in headings[1:]), len(self.text)]
        parts: dict[str, list[tuple[_Heading, int]]] = {}
        for heading, end in zip(headings, ends, strict=False):
            if heading.level == level or self.text[heading.end : end].strip():
                slug = re.sub(r"[\W_]+", "-", heading.name.casefold()).strip("-") or heading.name
                parts.setdefault(slug, []).append((heading, end))
        taken = set(parts)
        for slug, sections in parts.items():
            sources, name = [], sections[0][0].name
            for number, (heading, end) in enumerate(sections, 1):
                fragments = (f"{slug}-{n}" for n in count(number))
                first = number == 1
                fragment = slug if first else next(f for f in fragments if f not in taken)
                taken.add(fragment)
                sources.append(self.source(f"{uri}#{fragment}", heading.end, end, heading))
            yield Record(Unit(name, id=name), tuple(sources))

    def source(self, uri: str, start: int, end: int, heading: _Heading | None = None) -> Source:
        """Return a part of the document as a source, with its tables and its pictures, each once.

        The pictures of its heading count; a table of the same title has no title.
        """
        first, last = (bisect_left(self.tables, at, key=itemgetter(0)) for at in (start, end))
        inside = self.tables[first:last]
        tables = [
            Table(tuple(header), tuple(tuple(map(Cell, row)) for row in rows), title)
            for *_, caption, (header, *rows) in inside
            for title in ["" if heading and caption == heading.name else caption]
        ]
        marks = [start, *(at for first, last, *_ in inside for at in (first, last)), end]
        text = "".join(self.text[a:b] for a, b in zip(marks[::2], marks[1::2], strict=True))
        images: dict[Path, None] = {}
        kind = Source
        for line, address in self._between(heading.start if heading else start, end):
            try:
                images[self._locate(address)] = None
            except BadInput as error:
                kind = PartialSource
                self.quarantine(line, f"{error}; the text goes on without it")
        return kind(uri, (text,) if text.strip() else (), tuple(images), tuple(tables))

    def _between(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        first, last = (bisect_right(self.images, (at, -1)) for at in (start, end))
        yield from ((line, address) for _, line, address in self.images[first:last])

    def _locate(self, address: str) -> Path:
        if self.is_archive:
            return self.path / address
        try:
            return locate_picture(self.path.parent, address)
        except BadInput:
            if (plain := unquote(address)) == address:
                raise
        return locate_picture(self.path.parent, plain)

    def quarantine(self, line: int, reason: str) -> None:
        """Report what is left out of a line; 0 where lines have no numbers."""
        where = f"{self.path.as_posix()}:{line}" if line else self.path.as_posix()
        self.quarantined.append(Quarantined(where, reason))


def read_units(path: Path, *, whole: bool) -> Iterator[tuple[int, Item]]:
    """Yield 0 and each item of a text or document: one source without a unit, or units by headings.

    Raises:
        BadInput: The file is encrypted, damaged, too large, or holds no text; or the library for
            that kind of file is not installed.
    """
    outline = _read_outline(regular_file(path, "a document", most=MAX_TEXT_BYTES))
    if whole:
        yield 0, Record(None, (outline.source(path.as_posix(), 0, len(outline.text)),))
        yield from ((0, item) for item in outline.quarantined)
    else:
        yield from ((0, item) for item in outline.units())


def _read_outline(path: Path) -> Outline:
    try:
        outline: Outline = load_reader(READERS[path.suffix.lower()].function)(path)
    except MissingExtra as error:
        raise BadInput(str(error)) from error
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # the libraries raise errors of many kinds for such files
        reason = " ".join(str(error).split())[:200] or type(error.__context__ or error).__name__
        raise BadInput(
            f"the document is damaged or encrypted ({reason}): save it again, without a password"
        ) from error
    if not (outline.text.strip() or outline.images or outline.tables):
        reason = "the document holds no text: if it is a scan, recognise its text first"
        raise BadInput(next((left_out.reason for left_out in outline.quarantined), reason))
    return outline
