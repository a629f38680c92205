"""HTML as outlines: headings, text, pictures and tables. Scripts and styles are left out."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import NamedTuple

from ku_rag.ingest.readers.decoding import clean_name, read_text
from ku_rag.ingest.readers.outline import Outline

_LEFT_OUT = frozenset({"script", "style", "title"})
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_LINES = frozenset({"br", "dd", "dt", "li"})
_INLINE = frozenset(
    {"a", "abbr", "b", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img"}
    | {"ins", "kbd", "label", "mark", "q", "s", "samp", "script", "small", "span", "strong"}
    | {"style", "sub", "sup", "time", "title", "tt", "u", "var", "wbr"}
)
_TABLE = re.compile(r"<(/?)table\b", re.IGNORECASE)
_MOST_REPEATED = 100_000
"""Cells that are added to a table because others are merged."""
_FEW = 3
"""Links of a list of contents."""
_LONGEST_REPEATED = 1_000
"""Characters of the longest text that a merged cell repeats."""


def read_html(path: Path, html: str | None = None) -> Outline:
    """Return the outline of an HTML document, read from the file if its text is not given."""
    parser = _Parser(Outline(path))
    parser.feed(read_text(path) if html is None else html)
    parser.close()
    return parser.outline


def html_tables(text: str, start: int) -> tuple[int, list[tuple[str, list[list[str]]]]]:
    """Return the end of the HTML table that begins at a place, and its captions and rows."""
    depth = 0
    for mark in _TABLE.finditer(text, start):
        if not depth and (mark[1] or text[start : mark.start()].strip()):
            break
        depth += -1 if mark[1] else 1
        if not depth:
            end = text.find(">", mark.end()) + 1 or len(text)
            outline = read_html(Path(), text[start:end])
            if outline.quarantined or (outline.tables and outline.text.strip()):
                break
            return end, [(caption, rows) for *_, caption, rows in outline.tables]
    return start, []


class _Cell(NamedTuple):
    """A cell as it is written: parts of its text, what it spans, and whether it is a `th`."""

    parts: list[str]
    columns: int
    rows: int
    is_head: bool


class _Links:
    """Recognises series of links without other text: contents, above the first heading menus."""

    def __init__(self) -> None:
        self.contents: list[tuple[int, int]] = []
        self.menus: list[tuple[int, int]] = []
        self._is_above = True
        self._is_inside = False
        self._count = self._start = self._end = 0

    def start(self, tag: str, place: int, address: str, *, begins_line: bool) -> None:
        """Note the beginning of an element at a place in the text."""
        if tag in _HEADINGS:
            self.finish()
            self._is_above = False
        elif tag == "a":
            is_section = address.startswith("#") and (begins_line or not self._count)
            self._is_inside = is_section or (self._is_above and bool(address))
            if self._is_inside:
                self._start = self._start if self._count else place
                self._count += 1

    def add_text(self, text: str) -> None:
        if not self._is_inside and any(map(str.isalnum, text)):
            self.finish()

    def end(self, tag: str, place: int) -> None:
        """Note the end of an element at a place in the text."""
        if tag == "a" and self._is_inside:
            self._is_inside, self._end = False, place

    def finish(self) -> None:
        """End the series: other text follows, or the document ends."""
        if self._count >= _FEW:
            (self.menus if self._is_above else self.contents).append((self._start, self._end))
        self._count = 0


class _Parser(HTMLParser):
    """Writes the text, headings, pictures and tables of a document to an outline."""

    def __init__(self, outline: Outline) -> None:
        super().__init__(convert_charrefs=True)
        self.outline = outline
        self._parts: list[str] = []
        self._length = 0
        self._gap = ""  # line ends before the next text
        self._left_out, self._left_out_at = "", 0  # the element, and the line where it begins
        self._preformatted = 0
        self._heading: tuple[int, int, int] | None = None  # level, place, number of the part
        self._depth = 0  # of tables; those in tables are text
        self._rows: list[list[_Cell]] = []
        self._caption: list[str] = []
        self._outside: list[str] = []  # text of a table that is in no cell
        self._inside = self._outside  # where the next text of the table is added
        self._navigation: list[int] = []  # where elements of navigation begin
        self._links = _Links()
        self._is_indented = False  # whether the next text describes a term

    def close(self) -> None:
        """Read what is left, and end what was not ended."""
        super().close()
        if tag := self._left_out:
            reason = f"the text after <{tag}> is left out: expected </{tag}>; add it"
            self.outline.quarantine(self._left_out_at, reason)
        self._end_heading()
        if self._depth:
            self._end_table()
        self.outline.text = "".join(self._parts)
        self._links.finish()
        # A document without a heading may consist of links.
        menus = self._links.menus if self.outline.headings else []
        self.outline.hidden = sorted([*menus, *self._links.contents, *self.outline.hidden])

    def handle_data(self, data: str) -> None:
        """Add text to the document, or to a cell or the caption of a table."""
        if self._left_out:
            if self._left_out == "title" and not (self._parts or self.outline.title):
                self.outline.title = clean_name(self.outline.title + data)
            return
        self._links.add_text(data)
        if not (self._depth or self._preformatted):
            data = re.sub(r"\s+", " ", data)
            data = data.lstrip() if self._gap or self._is_at_start() else data
        self._write(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if self._left_out:
            return
        self._break(tag)
        attributes = dict(attrs)
        begins_line = bool(self._gap) or self._is_at_start()
        target = attributes.get("href") or ""
        self._links.start(tag, self._length, target, begins_line=begins_line)
        if tag in _LEFT_OUT:
            self._left_out, self._left_out_at = tag, self.getpos()[0]
        elif tag == "img" and (address := attributes.get("src")):
            self.outline.images.append((self._length, self.getpos()[0], address))
            self._write(" ")
        elif tag == "pre":
            self._preformatted += 1
            if self._preformatted == 1 and not self._depth:
                self._write("```\n")
        elif tag == "nav":
            self._navigation.append(self._length)
        elif tag == "dd":
            self._is_indented = not self._depth
        elif tag == "table":
            self._end_heading()
            self._depth += 1
            if self._depth == 1:
                self._rows, self._caption, self._outside = [], [], []
                self._inside = self._outside
        elif self._depth == 1 and tag in ("caption", "tr", "td", "th"):
            self._start_cell(tag, attributes)
        elif tag in _HEADINGS and not (self._depth or self._navigation):
            self._end_heading()
            self._heading = int(tag[1]), self._length, len(self._parts)

    def _start_cell(self, tag: str, attributes: dict[str, str | None]) -> None:
        self._inside = self._outside if tag == "tr" else []
        if tag == "caption":
            self._caption = self._inside
        elif tag == "tr" or not self._rows:
            self._rows.append([])
        if tag in ("td", "th"):
            columns, rows = (_span(attributes.get(key)) for key in ("colspan", "rowspan"))
            self._rows[-1].append(_Cell(self._inside, columns, rows, tag == "th"))

    def handle_endtag(self, tag: str) -> None:
        """End an element; the end of one that was not begun does nothing."""
        if self._left_out:
            self._left_out = "" if tag == self._left_out else self._left_out
        elif tag == "pre" and self._preformatted:
            self._preformatted -= 1
            if not (self._preformatted or self._depth):
                self._write("\n```")
        elif tag in ("dd", "dl"):
            self._is_indented = False
        elif tag == "nav" and self._navigation:
            start = self._navigation.pop()
            if not self._navigation:
                self.outline.hidden.append((start, self._length))
        elif tag == "table" and self._depth:
            self._depth -= 1
            if not self._depth:
                self._end_table()
        elif tag in _HEADINGS:
            self._end_heading()
        elif self._depth == 1 and tag in ("caption", "td", "th"):
            self._inside = self._outside
        self._links.end(tag, self._length)
        self._break(tag)

    def _break(self, tag: str) -> None:
        """Begin a line at the start and end of block elements, and at line breaks."""
        if self._depth:
            self._inside.append("" if tag in _INLINE else " ")
        elif tag not in _INLINE:
            is_line = tag in _LINES or self._is_indented
            self._gap = self._gap or "\n" if is_line else "\n\n"

    def _is_at_start(self) -> bool:
        return self._parts[-1:] in ([], ["\n\n"])

    def _write(self, text: str) -> None:
        if self._depth:
            self._inside.append(text)
        elif text:
            if self._is_indented and text.strip():
                text, self._is_indented = f"    {text}", False
            text, self._gap = (text if self._is_at_start() else self._gap + text), ""
            self._parts.append(text)
            self._length += len(text)

    def _end_heading(self) -> None:
        if self._heading:
            level, start, part = self._heading
            name = clean_name("".join(self._parts[part:]))
            self._parts.append("\n\n")
            self._length += 2
            self.outline.add_heading(level, name, start, self._length)
            self._heading = None

    def _end_table(self) -> None:
        """Add a table; one row, or pairs of name and value, become text. Other text follows it."""
        self._depth, start = 0, self._length
        rows = [row for row in self._rows if row]
        grid = _grid(rows)
        heads = len(list(takewhile(lambda row: all(cell.is_head for cell in row), rows)))
        has_names = not heads and bool(rows) and rows[0][0].is_head
        caption = clean_name("".join(self._caption))
        self._gap = "\n\n"
        if not heads < len(grid) > 1 or (has_names and max(map(len, grid)) == 2):
            self._write("\n".join([caption, *(": ".join(filter(None, row)) for row in grid)]))
        else:
            self._write("\n")
            first = heads or int(not has_names)
            columns = zip_longest(*grid[:first], fillvalue="")
            header = [" ".join(dict.fromkeys(filter(None, column))) for column in columns]
            self.outline.add_table(start, self._length, caption, [header, *grid[first:]])
        self._gap = "\n\n"
        self._write(clean_name("".join(self._outside)))
        self._gap = "\n\n"


def _span(value: str | None) -> int:
    return max(1, min(int(value), 1_000)) if value and re.fullmatch("[0-9]{1,5}", value) else 1


def _grid(rows: Sequence[Sequence[_Cell]]) -> list[list[str]]:
    """Return the texts of rows; merged cells repeat theirs in each row and column."""
    grid: list[list[str]] = []
    above: dict[int, tuple[str, int]] = {}  # column → text of a cell of a row above, rows left
    added = 0
    for row in rows:
        texts: list[str] = []
        cells, below = deque(row), dict[int, tuple[str, int]]()
        while cells or len(texts) in above:
            if len(texts) in above:
                text, left, columns = *above[len(texts)], 1
            else:
                parts, columns, left, _ = cells.popleft()
                text = clean_name("".join(parts))
                added += columns * left - 1
                columns, left = (columns, left) if added < _MOST_REPEATED else (1, 1)
            short = text if len(text) <= _LONGEST_REPEATED else ""
            if left > 1:
                below |= dict.fromkeys(range(len(texts), len(texts) + columns), (short, left - 1))
            texts += [text, *[short] * (columns - 1)]
        grid.append(texts)
        above = below
    return grid
