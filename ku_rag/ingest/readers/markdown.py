"""Markdown and text files: the headings of a document name units."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ku_rag.arguments import LONGEST_NAME
from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import PartialSource, clean_name, read_text
from ku_rag.pictures import locate_picture
from ku_rag.types import Cell, Quarantined, Record, Source, Table, Unit

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt"})
"""Suffixes, in lower case, of the files that are read as documents."""

_BLOCKS = MarkdownIt("commonmark").disable("inline").enable("table")
_INLINE = MarkdownIt("commonmark")
_LINE_END = re.compile(r"\r\n|\r|\n")
_FRONT_MATTER = re.compile(r"(---|\+\+\+)[ \t]*\r?\n(?:.*\n)*?\1[ \t]*(?:\r?\n|\Z)")
_UNDERLINED = re.compile(r"(?!\|).*\w.*")
"""An underlined heading: one line with a word. CommonMark also takes paragraphs and table rows."""
_ANCHOR = re.compile(r"\s*\{#[^{}]*\}\s*$")
_HTML_PICTURE = re.compile(
    r"<img\s(?:[^>]{0,1000}?\s)?src\s*=\s*[\"']([^\"'\n]+)[\"']", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Heading:
    """A heading and its place in the text."""

    level: int
    name: str
    start: int
    end: int


def read_document(path: Path) -> Iterator[Record | Quarantined]:
    """Read one Markdown or text file, by its resolved path, whose headings name units.

    These are the headings of the highest level that occurs twice, or of the highest level. Deeper
    headings stay in their unit's text; a higher heading is a unit if text of its own follows it.
    Text before the first heading belongs to no unit. A file without headings is one unit with the
    file's name.
    """
    try:
        text = read_text(path)
    except BadInput as error:
        yield Quarantined(path.as_posix(), str(error))
        return
    uri, contents = path.as_posix(), _Embedded(path)
    headings = _read_outline(text, contents)
    counts = Counter(heading.level for heading in headings)
    level = min((n for n in counts if counts[n] > 1), default=min(counts, default=1))
    headings = [heading for heading in headings if heading.level <= level]
    if not headings:
        name = clean_name(path.stem)
        yield Record(Unit(name, id=name), (contents.source(uri, text, 0, len(text)),))
        yield from contents.quarantined
        return
    preamble = text[: headings[0].start]
    if preamble.strip():
        yield Record(None, (Source(uri, (preamble,)),))
        contents.refuse(0, headings[0].start)
    yield from _units(text, uri, level, headings, contents)
    yield from contents.quarantined


def _units(
    text: str, uri: str, level: int, headings: Sequence[_Heading], contents: _Embedded
) -> Iterator[Record]:
    """Yield one record for each name; a repeated heading is another part of the same unit."""
    ends = [heading.start for heading in headings[1:]] + [len(text)]
    parts: dict[str, list[tuple[_Heading, int]]] = {}
    for heading, end in zip(headings, ends, strict=True):
        if heading.level == level or text[heading.end : end].strip():
            slug = re.sub(r"[\W_]+", "-", heading.name.casefold()).strip("-") or heading.name
            parts.setdefault(slug, []).append((heading, end))
    taken = set(parts)
    for slug, sections in parts.items():
        sources, name = [], sections[0][0].name
        for number, (heading, end) in enumerate(sections, 1):
            fragments = (f"{slug}-{n}" for n in count(number))
            fragment = slug if number == 1 else next(one for one in fragments if one not in taken)
            taken.add(fragment)
            sources.append(contents.source(f"{uri}#{fragment}", text, heading.end, end, name))
        yield Record(Unit(name, id=name), tuple(sources))


# ---- Markdown ----------------------------------------------------------------------------------


def _read_outline(text: str, contents: _Embedded) -> list[_Heading]:
    """Return the headings of a document outside of lists and quotes; note pictures and tables."""
    front = match.end() if (match := _FRONT_MATTER.match(text)) else 0
    starts = [front, *(end.end() for end in _LINE_END.finditer(text, front)), len(text)]
    headings, hidden = [], text.count("\n", 0, front) + 1
    tokens = _BLOCKS.parse(text[front:])
    for opening, token in pairwise([*tokens[:1], *tokens]):
        if opening.type == "heading_open" and opening.level == 0 and opening.map:
            name = _name(token.content)
            is_title = opening.markup[0] == "#" or _UNDERLINED.fullmatch(token.content)
            if is_title and name and len(name) <= LONGEST_NAME:
                first, end = (starts[line] for line in opening.map)
                headings.append(_Heading(int(opening.tag[1]), name, first, end))
        if token.type == "table_open" and token.map:
            first, end = (starts[line] for line in token.map)
            title = headings[-1].name if headings else ""
            contents.tables.append((first, end, title, []))
        elif token.type == "tr_open" and contents.tables:
            contents.tables[-1][3].append([])
        elif opening.type in ("th_open", "td_open"):
            contents.tables[-1][3][-1].append(_name(token.content))
        shown = ((starts[line], hidden + line, given) for line, given in _shown(token))
        contents.shown += shown
    return headings


def _name(heading: str) -> str:
    """Return the name in a heading without links, emphasis, code marks, HTML and anchors."""
    (inline,) = _INLINE.parseInline(heading)
    words = (
        " " if "break" in one.type else one.content
        for one in inline.children or ()
        if one.type != "html_inline"
    )
    return clean_name(_ANCHOR.sub("", "".join(words)))


def _shown(token: Token) -> Iterator[tuple[int, str]]:
    """Yield the line and the address of each picture of a block."""
    if not token.map or not re.search("!\\[|<img", token.content, re.IGNORECASE):
        return
    line = token.map[0]
    children = [token] if token.type == "html_block" else []
    if token.type == "inline":
        children = _INLINE.parseInline(token.content)[0].children or []
    for child in children:
        if child.type == "image":
            yield line, str(child.attrs["src"])
        elif child.type.startswith("html_"):
            for found in _HTML_PICTURE.finditer(child.content):
                yield line + child.content.count("\n", 0, found.start()), found[1]
        line += child.type in ("softbreak", "hardbreak")


@dataclass(slots=True)
class _Embedded:
    """The pictures and tables of a document.

    Args:
        path: Of the document.
        shown: Place in the text, number of the line, and address of each picture.
        tables: Start and end in the text, heading, and rows of each table, the header first.
        quarantined: Pictures that cannot be used.
    """

    path: Path
    shown: list[tuple[int, int, str]] = field(default_factory=list)
    tables: list[tuple[int, int, str, list[list[str]]]] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)

    def source(self, uri: str, document: str, start: int, end: int, name: str = "") -> Source:
        """Return a part of a document as a source, with its tables and its pictures, each once.

        Args:
            uri: Of the source.
            document: The whole text.
            start: Of the part.
            end: Likewise.
            name: Of its unit; tables below a heading of another name have that as their title.
        """
        plain = self.path.suffix.lower() == ".txt"
        inside = [t for t in self.tables if start <= t[0] and t[1] <= end and not plain]
        tables = [
            Table(tuple(rows[0]), tuple(tuple(map(Cell, row)) for row in rows[1:]), title)
            for *_, heading, rows in inside
            for title in ["" if heading == name else heading]
        ]
        marks = [start, *(at for first, last, *_ in inside for at in (first, last)), end]
        text = "".join(document[a:b] for a, b in zip(marks[::2], marks[1::2], strict=True))
        found: dict[Path, None] = {}
        kind = Source
        for line, given in self._between(start, end):
            try:
                found[self._locate(given)] = None
            except BadInput as error:
                kind = PartialSource
                self._quarantine(line, f"{error}; the text goes on without it")
        return kind(uri, (text,) if text.strip() else (), tuple(found), tuple(tables))

    def refuse(self, start: int, end: int) -> None:
        """Report the pictures of a part that belongs to no unit."""
        for line, given in self._between(start, end):
            self._quarantine(
                line, f"the picture {given!r} stands before the first heading: put it below one"
            )

    def _between(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        if self.path.suffix.lower() != ".txt":
            first, last = (bisect_right(self.shown, (at, -1)) for at in (start, end))
            yield from ((line, given) for _, line, given in self.shown[first:last])

    def _locate(self, given: str) -> Path:
        try:
            return locate_picture(self.path.parent, given)
        except BadInput:
            if (plain := unquote(given)) == given:
                raise
        return locate_picture(self.path.parent, plain)

    def _quarantine(self, line: int, reason: str) -> None:
        self.quarantined.append(Quarantined(f"{self.path.as_posix()}:{line}", reason))
