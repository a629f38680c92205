"""Outlines of documents: text, headings, pictures and tables, and the units that they describe."""

from __future__ import annotations

import base64
import os
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

from ku_rag.arguments import LONGEST_NAME, file_hash, regular_file
from ku_rag.errors import BadInput, MissingExtra
from ku_rag.ingest.readers.decoding import MAX_TEXT_BYTES, PartialSource, file_name
from ku_rag.ingest.readers.item_codec import EmbeddedPath, Item, ScannedPage
from ku_rag.ingest.readers.registry import READERS, load_reader
from ku_rag.picture_paths import locate_picture
from ku_rag.text.statements import CODE
from ku_rag.text.tokens import words
from ku_rag.types import (
    SECTION_MARK,
    Cell,
    Line,
    Quarantined,
    Record,
    Relation,
    Source,
    Table,
    TextPlace,
    Unit,
)

Mode = Literal["auto", "file", "heading", "folder", "whole"]
"""What is a unit: see `read_units`."""
_MOST_EMBEDDED = 48 << 20
"""Characters of the pictures of a document, in base 64."""
_FIRST_CHARACTERS = 200
_FEW = 3
"""Sections that have something in common; two may have it by chance."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_NUMBERED = re.compile(r"\d|[^\W\d_]+ \d+(?:\.\d+)*[.:)]")
"""The beginning of "1 Purpose" and "Chapter 1. Purpose"."""
_PARENTHESES = re.compile(r"\s*\(.*\)")
_LABEL = re.compile(
    r"^[ \t]*(?:[-*•+][ \t]+)?[*_]*([^\W\d_][^:：.!?|\n]{0,40}?)[*_]*[ \t]*[:：]", re.MULTILINE
)

T = TypeVar("T", bound=tuple[Any, ...])


class _Heading(NamedTuple):
    """A heading and its place in the text."""

    start: int
    end: int
    level: int
    name: str


@dataclass(slots=True)
class Outline:
    """The text of a document, and the places of its headings, pictures and tables.

    Args:
        title: Of a document whose first heading is not its title, or "".
        images: Place in the text, number of the line or 0, and address of each picture, in order.
        tables: Start and end in the text, title, and rows of each table, the header first.
        lines: Of a document with pages: place in the text, page and box of each line and table,
            see `TextPlace`.
        hidden: Start and end of parts of the text that no source has: contents, navigation.
        is_document: Whether the format is one for documents with a title, such as slides.
        embedded: Address → file of pictures that are part of the document, in base 64.
        scans: Address of the picture of a page → number and `tilt` of the page.
        is_full: Whether a picture was left out because they are too large together.
    """

    path: Path
    text: str = ""
    title: str = ""
    modified: str = ""
    file_hash: str = ""
    file_path: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    headings: list[_Heading] = field(default_factory=list)
    images: list[tuple[int, int, str]] = field(default_factory=list)
    tables: list[tuple[int, int, str, list[list[str]]]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    hidden: list[tuple[int, int]] = field(default_factory=list)
    is_document: bool = False
    is_archive: bool = False
    embedded: dict[str, str] = field(default_factory=dict)
    scans: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_full: bool = False

    def add_heading(self, level: int, name: str, start: int, end: int) -> None:
        """Add a heading, unless it is empty or too long to be a name."""
        if name and len(name) <= LONGEST_NAME:
            self.headings.append(_Heading(start, end, level, name))

    def embed(self, name: str, content: bytes) -> str:
        """Add the file of a picture; return its address, which equal files share, or ""."""
        data = base64.b64encode(content).decode()
        for address, stored in self.embedded.items():
            if stored == data:
                return address
        if sum(map(len, self.embedded.values())) + len(data) > _MOST_EMBEDDED:
            self.is_full = True
            self.quarantine(0, f"the pictures from {name} on are left out: split the file")
            return ""
        self.embedded[name] = data
        return name

    def add_table(self, start: int, end: int, caption: str, rows: list[list[str]]) -> None:
        """Add a table; without a caption it has the title of the heading above it."""
        above = self.headings[-1].name if self.headings else ""
        self.tables.append((start, end, caption or above, rows))

    def units(self, mode: Mode) -> Iterator[Record | Quarantined]:
        """Yield the units of the document, and what is left out.

        The sections are those of the highest level that occurs twice, or of the highest level.
        "heading" makes units of them, "file" of the document, "folder" likewise with the id of its
        folder, and "auto" of sections that describe things. A higher heading is a unit if text of
        its own follows it; text before the first heading belongs to none.
        """
        uri = self.path.as_posix()
        counts = Counter(heading.level for heading in self.headings)
        level = min((n for n in counts if counts[n] > 1), default=min(counts, default=1))
        headings = [heading for heading in self.headings if heading.level <= level]
        is_one = not headings or mode in ("file", "folder")
        if is_one or (mode == "auto" and not self._describe_things(level)):
            yield self._document(uri, mode)
            yield from self.quarantined
            return
        if headings[0].start:
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

    def _document(self, uri: str, mode: Mode) -> Record:
        """Return the unit of the document; a name of its file of several words is an alias."""
        identity = os.path.splitext(self.file_path)[0]
        if mode == "folder":
            identity = unicodedata.normalize("NFC", identity.rpartition("/")[0])
        file = file_name(identity.rpartition("/")[2])
        declared = self.title if len(self.title) <= LONGEST_NAME else ""
        name = self.headings[0].name if self._has_title() else declared or file
        name = (self.is_document and declared) or name
        aliases = (file,) if len(words(file)) > 1 and words(file) != words(name) else ()
        # The title of a document with sections, such as "Overview", is not looked up in texts.
        unit = Unit(
            name,
            id=identity,
            aliases=aliases,
            metadata={
                "file_format": self.path.suffix.lower()[1:],
                "file_modified": self.modified,
                "file_path": self.file_path,
                **self.metadata,
            },
            relations=tuple(Relation("links to", target) for target in self._linked(identity)),
            match=len(self.headings) < 2,
        )
        start, title = 0, None
        if self._has_title() and not self._text(0, self.headings[0].start)[0].strip():
            title = self.headings[0]
            start = title.end
        source = self.source(uri, start, len(self.text), title)
        return Record(unit, (source,), is_document=True)

    def _linked(self, identity: str) -> list[str]:
        root = self.path.parents[self.file_path.count("/")]
        targets: dict[str, None] = {}
        for address in self.links:
            for folder in (self.path.parent, root):
                file = Path(os.path.normpath(folder / unquote(re.split("[?#]", address)[0])))
                reader = READERS.get(file.suffix.lower())
                is_document = reader is not None and reader.returns == "outline"
                if is_document and file.is_relative_to(root) and file.is_file():
                    targets[file.relative_to(root).with_suffix("").as_posix()] = None
                    break
        return [target for target in targets if target != identity]

    def _has_title(self) -> bool:
        """Return whether the first heading is above all others."""
        levels = [heading.level for heading in self.headings]
        return bool(levels) and min(levels[1:], default=7) > levels[0]

    def _describe_things(self, level: int) -> bool:
        """Return whether the sections of a level describe one thing each; see docs/decisions/0070.

        Two in five have a picture, or two labels, columns or deeper headings in common; three in
        four have one in common, or begin with their name. Or the document has no title, and words
        of most of its headings are written with capitals everywhere, like names. Most headings must
        not be numbered.
        """
        if self.is_document:
            return False
        headings = [heading for heading in self.headings if heading.level <= level]
        ends = [*(heading.start for heading in headings[1:]), len(self.text)]
        counts = Counter(_WORD.findall(self.text))
        sections = pictured = named = common_nouns = numbered = 0
        labels = Counter[str]()
        for heading, end in zip(headings, ends, strict=True):
            if heading.level < level:
                continue
            sections += 1
            text = CODE.sub("", self.text[heading.end : end])
            pictured += any("://" not in file for _, file in self._between(heading.start, end))
            name = set(words(_PARENTHESES.sub("", heading.name)))
            beginning = name.intersection(words(text.lstrip()[:_FIRST_CHARACTERS]))
            named += 2 * len(beginning) > len(name)
            numbered += _NUMBERED.match(heading.name) is not None
            own = Counter(_WORD.findall(heading.name))
            common_nouns += any(counts[word.lower()] > own[word.lower()] for word in own)
            inner = [match[1] for match in _LABEL.finditer(text)]
            inner += (below.name for below in _between(self.headings, heading.end, end))
            tables = _between(self.tables, heading.start, end)
            inner += (column for *_, rows in tables for column in rows[0])
            labels.update({label.casefold() for label in inner})
        if sections < 2 or 2 * numbered > sections:
            return False
        first, second = sorted([0, 0, *labels.values()])[-1:-3:-1]
        in_common = 5 * max(pictured, second) >= 2 * sections or 4 * first >= 3 * sections
        if sections >= _FEW and (in_common or 4 * named >= 3 * sections):
            return True
        return not self._has_title() and 2 * common_nouns < sections

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
        """Return a part of the document as a source: texts by heading, tables and pictures."""
        inside = _between(self.tables, start, end)
        tables = [
            Table(tuple(header), tuple(tuple(map(Cell, row)) for row in rows), title)
            for *_, caption, (header, *rows) in inside
            for title in ["" if heading and caption == heading.name else caption]
        ]
        texts = [
            (text, TextPlace(section, lines))
            for section, *part in self._sections(start, end)
            for text, lines in [self._text(*part)]
            if text.strip()
        ]
        table_places = [
            TextPlace(self._section(first, title), self._lines(first, last))
            for first, last, title, _ in inside
        ]
        places = (*(place for _, place in texts), *table_places)
        images: dict[Path, None] = {}
        kind = Source
        # Pictures of a document without text are at its end.
        for line, address in self._between(heading.start if heading else start, max(end, 1)):
            try:
                images[self._locate(address)] = None
            except BadInput as error:
                kind = PartialSource
                self.quarantine(line, f"{error}; the text goes on without it")
        has_places = any(place.section or place.lines for place in places)
        return kind(
            uri,
            tuple(text for text, _ in texts),
            tuple(images),
            tuple(tables),
            places if has_places else (),
            self.file_hash,
        )

    def _sections(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Yield the headings above, start and end of each section that has text."""
        begin, body, path = start, start, list[_Heading]()
        for heading in _between(self.headings, start, end):
            if self.text[body : heading.start].strip():
                yield _joined(path), begin, heading.start
                begin = heading.start
            body = heading.end
            path = [*(above for above in path if above.level < heading.level), heading]
        yield _joined(path), begin, end

    def _section(self, place: int, title: str) -> str:
        """Return the headings above a table, and its title if it is not one of them."""
        path: list[str] = []
        level = 7
        for heading in reversed(_between(self.headings, 0, place)):
            if heading.level < level:
                level = heading.level
                path.insert(0, heading.name)
        return SECTION_MARK.join([*path, *[title] * (title not in ("", *path))])

    def _text(self, start: int, end: int) -> tuple[str, tuple[Line, ...]]:
        """Return a part of the text without its tables, and the lines of it."""
        spans = [table[:2] for table in _between(self.tables, start, end)]
        spans += _between(self.hidden, start, end)
        parts, lines, length = list[str](), list[Line](), 0
        for begin, finish in [*sorted(spans), (end, end)]:
            lines += self._lines(start, begin, length)
            parts.append(self.text[start:begin])
            length += len(parts[-1])
            start = max(start, finish)
        return "".join(parts), tuple(lines)

    def _lines(self, start: int, end: int, offset: int = 0) -> tuple[Line, ...]:
        """Return the lines that begin in a part of the text, with places from an offset on."""
        inside, moved = _between(self.lines, start, end), offset - start
        return tuple((line[0] + moved, *line[1:]) for line in inside)

    def _between(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        first, last = (bisect_right(self.images, (at, -1)) for at in (start, end))
        yield from ((line, address) for _, line, address in self.images[first:last])

    def _locate(self, address: str) -> Path:
        if self.is_archive and "://" not in address and not address.startswith("data:"):
            return Path(f"{self.path}/{address}")  # "/" would let an absolute address leave it
        if address in self.embedded:
            path, content = str(self.path / address), self.embedded[address]
            if scan := self.scans.get(address):
                return ScannedPage.numbered(path, content, *scan)
            return EmbeddedPath.of(path, content)
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


def _between(items: list[T], start: int, end: int) -> list[T]:
    """Return the headings, tables or lines that begin in a part of the text."""
    first, last = (bisect_left(items, at, key=itemgetter(0)) for at in (start, end))
    return items[first:last]


def _joined(path: Sequence[_Heading]) -> str:
    return SECTION_MARK.join(heading.name for heading in path)


def read_units(path: Path, *, mode: Mode, file_path: str) -> Iterator[tuple[int, Item]]:
    """Yield 0 and each item of a document; in mode "whole" one source without a unit."""
    outline = _read_outline(regular_file(path, "a document", most=MAX_TEXT_BYTES))
    outline.file_path = file_path
    if mode == "whole":
        yield 0, Record(None, (outline.source(path.as_posix(), 0, len(outline.text)),))
        yield from ((0, item) for item in outline.quarantined)
    else:
        yield from ((0, item) for item in outline.units(mode))


def _read_outline(path: Path) -> Outline:
    try:
        outline: Outline = load_reader(READERS[path.suffix.lower()].function)(path)
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        outline.modified = changed.date().isoformat()
        outline.file_hash = file_hash(path) if outline.lines or outline.scans else ""
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
