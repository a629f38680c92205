"""Markdown and text files: the headings of a document name units."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import PartialSource, clean_name, read_text
from ku_rag.pictures import locate_picture
from ku_rag.types import Quarantined, Record, Source, Unit

TEXT_SUFFIXES = frozenset({".md", ".markdown", ".txt"})
"""Suffixes, in lower case, of the files that are read as documents."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_NO_TITLE = re.compile(r"(?: {4}|\t| {0,3}(?:[-*+>|]|\d{1,9}[.)])(?:\s|$))|[^\w]*$")
_PICTURE = re.compile(
    r"(?<!`)(?P<code>`{1,3})(?!`)[^`\n]{1,300}(?P=code)"
    r"|!\[[^\]\n]{0,1000}\]\([ \t]*"
    r"(?:<(?P<angled>[^<>\n]+)>|(?P<bare>[^\s()<>]+(?:\([^\s()]*\)[^\s()<>]*)*))"
    r"(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'))?[ \t]*\)"
    r"|<img\s(?:[^>]{0,1000}?\s)?src\s*=\s*[\"'](?P<html>[^\"'\n]+)[\"']",
    re.IGNORECASE,
)
_LONGEST_NAME = 1_000


# ---- units named by headings -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Section:
    heading: _Heading
    end: int

    def text(self, document: str) -> str:
        return document[self.heading.end : self.end]


def read_document(
    path: Path, *, heading_level: int | None = None
) -> Iterator[Record | Quarantined]:
    """Read one Markdown or text file whose headings name units.

    Headings of `heading_level` name units; without it, those of the highest level that occurs
    twice, or of the highest level. Deeper headings stay in their unit's text; a higher heading is a
    unit if text of its own follows it. Text before the first heading belongs to no unit. A file
    without headings is one unit with the file's name.

    Args:
        path: Resolved.
        heading_level: 1 to 6.
    """
    try:
        text = read_text(path)
    except BadInput as error:
        yield Quarantined(path.as_posix(), str(error))
        return
    headings, fences = _outline(text)
    level = heading_level or _unit_level(headings)
    headings = [heading for heading in headings if heading.level <= level]
    uri = path.as_posix()
    pictures = _Pictures(path, text, fences)
    if not headings:
        name = clean_name(path.stem)
        yield Record(Unit(name, id=name), (pictures.source(uri, text, 0, len(text)),))
        yield from pictures.quarantined
        return
    preamble = text[: headings[0].start]
    if preamble.strip():
        yield Record(None, (Source(uri, (preamble,)),))
        pictures.refuse(0, headings[0].start)
    yield from _units(text, uri, level, headings, pictures)
    yield from pictures.quarantined


def _unit_level(headings: Sequence[_Heading]) -> int:
    counts = Counter(heading.level for heading in headings)
    return min((n for n in counts if counts[n] > 1), default=min(counts, default=1))


def _units(
    text: str, uri: str, level: int, headings: Sequence[_Heading], pictures: _Pictures
) -> Iterator[Record]:
    """Yield one record for each name; a repeated heading is another part of the same unit."""
    ends = [heading.start for heading in headings[1:]] + [len(text)]
    parts: dict[str, list[_Section]] = {}
    for heading, end in zip(headings, ends, strict=True):
        section = _Section(heading, end)
        if heading.level == level or section.text(text).strip():
            parts.setdefault(_slug(heading.name), []).append(section)
    taken = set(parts)
    for slug, sections in parts.items():
        sources = []
        for number, section in enumerate(sections, 1):
            fragment = slug if number == 1 else _free(slug, number, taken)
            body = section.text(text)
            sources.append(
                pictures.source(f"{uri}#{fragment}", body, section.heading.end, section.end)
            )
        name = sections[0].heading.name
        yield Record(Unit(name, id=name), tuple(sources))


def _slug(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-") or name


def _free(slug: str, number: int, taken: set[str]) -> str:
    while (fragment := f"{slug}-{number}") in taken:
        number += 1
    taken.add(fragment)
    return fragment


# ---- Markdown ----------------------------------------------------------------------------------


def _outline(text: str) -> tuple[list[_Heading], list[tuple[int, int]]]:
    """Return the headings of a document, and the ranges of code and front matter."""
    headings: list[_Heading] = []
    fences: list[tuple[int, int]] = []
    front = _front_matter(text)
    if front:
        fences.append((0, front))
    fence, opened = "", 0
    title: tuple[int, str] | None = None  # a paragraph of one line so far, which may be a heading
    in_paragraph = False
    for match in _LINE.finditer(text, front):
        line = match[0].rstrip("\r\n")
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fences.append((opened, match.end()))
                fence = ""
            continue
        if mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence, opened, title, in_paragraph = mark[1], match.start(), None, False
            continue
        found = _heading(line, match.start(), match.end(), title)
        if found:
            headings.append(found)
        plain = not found and bool(line.strip())
        starts = plain and not in_paragraph and _is_title(line)
        title = (match.start(), line) if starts else None
        in_paragraph = plain
    if fence:
        fences.append((opened, len(text)))
    return headings, fences


def _heading(line: str, start: int, end: int, title: tuple[int, str] | None) -> _Heading | None:
    if len(line) > _LONGEST_NAME:
        return None
    if title and (underline := _UNDERLINE.fullmatch(line)):
        level, name, start = (1 if "=" in underline[1] else 2), title[1], title[0]
    elif atx := _ATX.match(line):
        level, name = len(atx[1]), line[atx.end() :].strip()
        without_closing = name.rstrip("#")
        if not without_closing or without_closing[-1].isspace():
            name = without_closing
    else:
        return None
    name = _plain(name)
    return _Heading(level, name, start, end) if name else None


def _is_title(line: str) -> bool:
    return len(line) <= _LONGEST_NAME and not _NO_TITLE.match(line)


def _front_matter(text: str) -> int:
    """Return the end of the metadata block at the beginning; 0 when there is none."""
    match = re.match(r"(---|\+\+\+)[ \t]*\r?\n", text)
    if not match:
        return 0
    close = re.compile(rf"^{re.escape(match[1])}[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
    end = close.search(text, match.end())
    return end.end() if end else 0


def _plain(heading: str) -> str:
    """Return the name in a heading without links, emphasis, code marks and anchors."""
    name = re.sub(r"\s*\{#[^{}]*\}\s*$", "", heading)
    name = re.sub(r"!?\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])", r"\1", name)
    name = re.sub(r"(?<!\w)(\*{1,3}|`{1,3}|_{1,3})(\S(?:.*?\S)?)\1(?!\w)", r"\2", name)
    return clean_name(re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", name))


class _Pictures:
    """The pictures that a document shows, and what is wrong with them."""

    def __init__(self, path: Path, text: str, fences: Sequence[tuple[int, int]]) -> None:
        self.quarantined: list[Quarantined] = []
        self._path = path
        self._text = text
        self._fences = sorted(fences)
        self._starts = [start for start, _ in self._fences]
        self._line_ends: list[int] = []

    def source(self, uri: str, text: str, start: int, end: int) -> Source:
        """Return a part of the text as a source, with the pictures shown there, each once."""
        found: dict[Path, None] = {}
        kind = Source
        for at, given in self._shown(start, end):
            try:
                found[self._locate(given)] = None
            except BadInput as error:
                kind = PartialSource
                self._quarantine(at, f"{error}; the text goes on without it")
        return kind(uri, (text,) if text.strip() else (), tuple(found))

    def refuse(self, start: int, end: int) -> None:
        """Report the pictures of a part that belongs to no unit."""
        for at, given in self._shown(start, end):
            self._quarantine(
                at, f"the picture {given!r} stands before the first heading: put it below one"
            )

    def _shown(self, start: int, end: int) -> Iterator[tuple[int, str]]:
        if self._path.suffix.lower() == ".txt":
            return
        for match in _PICTURE.finditer(self._text, start, end):
            given = match["angled"] or match["bare"] or match["html"]
            fence = bisect_right(self._starts, match.start()) - 1
            if given and not (fence >= 0 and match.start() < self._fences[fence][1]):
                yield match.start(), given

    def _locate(self, given: str) -> Path:
        try:
            return locate_picture(self._path.parent, given)
        except BadInput:
            if (plain := unquote(given)) == given:
                raise
        return locate_picture(self._path.parent, plain)

    def _quarantine(self, at: int, reason: str) -> None:
        if not self._line_ends:
            self._line_ends = [match.end() for match in _LINE.finditer(self._text)]
        line = bisect_right(self._line_ends, at) + 1
        self.quarantined.append(Quarantined(f"{self._path.as_posix()}:{line}", reason))
