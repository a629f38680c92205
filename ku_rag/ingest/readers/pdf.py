"""PDF files as outlines: lines with pages and boxes, headings, tables and pictures.

Text and boxes come from pypdfium2, in the order of the file, which joins words over hyphens.
No script or link is followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.outline import Outline
from ku_rag.ingest.readers.pdf_page import HYPHEN, TextLine, TextPage, page_pictures, page_scan
from ku_rag.ingest.readers.pdf_tables import is_inside, page_tables
from ku_rag.plugins import extra
from ku_rag.text.tokens import name_key

_LARGER = 1.1
"""A line is a heading if its letters are larger than most letters by this factor."""
_MOST_TITLE_LINES, _TITLE_WITHIN = 3, 60
"""Lines of a title at most, and first lines of a document that contain words of its title."""
_FEW_PAGES = 3
"""Pages of a document whose first heading may be one of several."""
_BULLETS = ("•", "–", "-", "*", "◦", "▪")
_LONGEST_HEADING = 100
"""Characters."""
_RARE = 0.1
"""Headings of one size have at most this share of the letters."""
_CAPTION = re.compile(r"\s*[^\W\d_]{2,12}\.?\s*\d+(?:\.\d+)*\s*[.:]")
"""A line such as "Table 3: …", in any language."""
_LEADERS = re.compile(r"(?:\. ?){4,}\s*\S{0,8}$")
"""A line of a table of contents."""
_PAGE_NUMBER = re.compile(r"\s(?:(\d{1,4})|[ivxlc]{1,6})$")
_FEW_ENTRIES = 3
"""Entries of a table of contents at least."""
_MARGIN = 0.15
"""Share of a page at its top and bottom where running heads and page numbers are."""
_PLACES = 40
"""Bands of a page; running heads of several pages are in the same band."""
_NUMBER = re.compile(r"\b(?:\d{1,9}|[ivxlc]{1,8})\b")
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_REPEATED, _REPEATED_SHARE = 3, 0.3
"""Pages, and share of the pages, that have a running head at least."""
_GAP = 1.45
"""Lines further apart than so many heights of a line belong to different paragraphs."""
_MATCHED_TITLES = 0.5
"""Bookmarks are the headings if more than this share of them are lines of the text."""


def read_pdf(path: Path) -> Outline:
    """Return the outline of a PDF file; its pictures are embedded."""
    pdfium = extra("documents", "pypdfium2")
    outline = Outline(path)
    lines: list[TextLine] = []
    addresses: dict[bytes, str] = {}
    with pdfium.PdfDocument(path) as document:
        for number in range(1, len(document) + 1):
            try:
                page = document[number - 1]
            except pdfium.PdfiumError as error:
                outline.quarantine(0, f"page {number} cannot be read ({error}): repair the file")
                continue
            text_page = TextPage(page, number)
            page_lines = _with_tables(text_page, list(text_page.lines()))
            text_page.close()
            if not page_lines and (scan := page_scan(page, number, outline)):
                lines.append(scan)
            for picture in page_pictures(page, number, outline, addresses) if page_lines else ():
                below = (n for n, line in enumerate(page_lines) if line.box[1] >= picture.box[1])
                page_lines.insert(next(below, len(page_lines)), picture)
            lines += page_lines
            page.close()
        bookmarks = [
            (entry.level + 1, clean_name(entry.get_title()), destination.get_index() + 1)
            for entry in document.get_toc(max_depth=6)
            if (destination := entry.get_dest()) and destination.get_index() is not None
        ]
        outline.title = clean_name(document.get_metadata_value("Title"))
    write_lines(outline, lines, bookmarks)
    return outline


def write_lines(
    outline: Outline, lines: Sequence[TextLine], bookmarks: Sequence[tuple[int, str, int]] = ()
) -> None:
    """Write the lines of all pages to an outline, without running heads and contents."""
    lines = list(_without_margins(lines))
    _mark_headings(lines, bookmarks)
    first = name_key(" ".join(line.text for line in lines[:_TITLE_WITHIN])).split()
    title = {*name_key(outline.title).split()}
    # A title in the metadata counts if most of its words begin the text.
    if 2 * len(title.intersection(first)) <= len(title):
        outline.title = _largest(lines)
    _write(outline, list(_without_contents(lines)))


def _with_tables(text_page: TextPage, lines: list[TextLine]) -> list[TextLine]:
    """Return the lines of a page with tables in place of their text."""
    for box, rows, row_boxes in page_tables(text_page, lines):
        inside = [line for line in lines if is_inside(line.box, box)]
        if not inside or any(line.table for line in inside):
            continue
        at = lines.index(inside[0])
        table = TextLine("", inside[0].page, box, table=rows, row_boxes=row_boxes)
        near = [*lines[max(0, at - 1) : at], *lines[at + len(inside) : at + len(inside) + 1]]
        table.caption = next((line.text for line in near if _CAPTION.match(line.text)), "")
        lines = [*lines[:at], table, *(line for line in lines[at:] if line not in inside)]
    return lines


# ---- margins and contents ------------------------------------------------------------------------


def _without_margins(lines: Sequence[TextLine]) -> Iterator[TextLine]:
    """Yield lines without running heads and feet, and page numbers."""
    usual, pages = _usual_size(lines), len({line.page for line in lines})
    groups: dict[tuple[str, int], list[TextLine]] = {}
    for line in lines:
        is_margin = line.box[3] < _MARGIN or line.box[1] > 1 - _MARGIN
        if line.text and is_margin and line.size <= _LARGER * usual:
            key = _NUMBER.sub("#", line.text), round(line.box[1] * _PLACES)
            groups.setdefault(key, []).append(line)
    most = max(_REPEATED, _REPEATED_SHARE * pages)
    heads = {
        id(line)
        for group in groups.values()
        if len({line.page for line in group}) >= most
        for series in _series(group)
        if len({line.page for line in series}) >= _REPEATED
        for line in series
    }
    yield from (line for line in lines if id(line) not in heads)


def _series(lines: Sequence[TextLine]) -> list[list[TextLine]]:
    """Group lines that differ only in numbers by how these rise with the pages, if they do."""
    numbers = [_NUMBER.findall(line.text) for line in lines]
    is_constant = [len({*column}) == 1 for column in zip(*numbers, strict=True)]
    series: dict[tuple[int, ...], list[TextLine]] = {}
    for line, line_numbers in zip(lines, numbers, strict=True):
        columns = zip(line_numbers, is_constant, strict=True)
        offsets = tuple(0 if same else _as_number(text) - line.page for text, same in columns)
        series.setdefault(offsets, []).append(line)
    return [*series.values()]


def _as_number(text: str) -> int:
    """Return a number in digits, or in small Roman numerals."""
    if text.isdigit():
        return int(text)
    values = [_ROMAN[letter] for letter in text]
    below = [*values[1:], 0]
    return sum(-n if n < after else n for n, after in zip(values, below, strict=True))


def _without_contents(lines: Sequence[TextLine]) -> Iterator[TextLine]:
    """Yield lines without tables of contents: headings with page numbers that do not fall."""
    keys = {name_key(line.text) for line in lines}

    def page_of(line: TextLine) -> int | None:
        number = _PAGE_NUMBER.search(line.text)
        if not number:
            return None
        title = name_key(line.text[: number.start()])
        is_entry = _LEADERS.search(line.text[-_LONGEST_HEADING:]) or (title and title in keys)
        return int(number[1] or 0) if is_entry else None

    for is_entry, group in groupby(lines, lambda line: page_of(line) is not None):
        run = list(group)
        numbers = [page_of(line) or 0 for line in run]
        is_contents = is_entry and len(run) >= _FEW_ENTRIES and numbers == sorted(numbers)
        yield from () if is_contents else run


# ---- headings ------------------------------------------------------------------------------------


def _mark_headings(lines: Sequence[TextLine], bookmarks: Sequence[tuple[int, str, int]]) -> None:
    """Set the levels of headings: by the bookmarks if they are lines, else by size and weight."""
    titles = {(page, name_key(title)): level for level, title, page in bookmarks if title}
    matched = [(line, titles[key]) for line in lines if (key := _title_key(line)) in titles]
    if len({_title_key(line) for line, _ in matched}) > _MATCHED_TITLES * len(titles) > 1:
        for line, level in matched:
            line.level = min(level, 6)
        return
    letters, usual = _letters(lines), _usual_size(lines)
    rare = _RARE * sum(letters.values())
    larger = (size for size in letters if size > _LARGER * usual and letters[size] < rare)
    sizes = sorted(larger, reverse=True)
    levels = {size: min(level, 6) for level, size in enumerate(sizes, 1)}
    aboves: list[TextLine | None] = [None, *lines]
    for above, line in zip(aboves, lines, strict=False):
        if len(line.text) > _LONGEST_HEADING or not any(map(str.isalpha, line.text)):
            continue
        begins = above is None or _between(above, line) == "\n\n"
        is_text = line.text.endswith((".", ",", ";")) or line.text.startswith(_BULLETS)
        if line.size in levels:
            line.level = levels[line.size]
        elif line.is_bold and begins and line.size >= usual and not is_text:
            line.level = min(len(sizes) + 1, 6)


def _letters(lines: Sequence[TextLine]) -> Counter[float]:
    letters = Counter[float]()
    for line in lines:
        letters[line.size] += len(line.text) if line.size else 0
    return letters


def _usual_size(lines: Sequence[TextLine]) -> float:
    letters = _letters(lines)
    return max(letters, key=letters.__getitem__, default=0.0)


def _title_key(line: TextLine) -> tuple[int, str]:
    """Return the page of a line and its words, without a heading number."""
    return line.page, name_key(re.sub(r"^(?:[A-Z]|[IVX]+|\d+)?(?:\.\d+)*\.?\s+", "", line.text))


def _largest(lines: Sequence[TextLine]) -> str:
    """Return the first lines of the largest letters on the first page, if they are a title."""
    first = [line for line in lines if line.page == 1 and line.size]
    largest = max((line.size for line in first), default=0.0)
    usual = Counter(line.size for line in lines).most_common(1)
    if not first or largest <= _LARGER * usual[0][0]:
        return ""
    runs = groupby(first, lambda line: line.size)
    title = next([line.text for line in run] for size, run in runs if size == largest)
    is_alone = sum(line.size == largest for line in lines) == len(title)
    is_title = (is_alone or lines[-1].page > _FEW_PAGES) and len(title) <= _MOST_TITLE_LINES
    return clean_name(" ".join(title)) if is_title else ""


# ---- text ----------------------------------------------------------------------------------------


def _write(outline: Outline, lines: Sequence[TextLine]) -> None:
    """Write text, headings, tables and pictures to an outline."""
    parts = [outline.text]
    length = len(outline.text)
    above: TextLine | None = None

    def write(text: str) -> None:
        nonlocal length
        parts.append(text)
        length += len(text)

    for line in lines:
        if above is not None:
            write(_between(above, line))
        if line.picture:
            outline.images.append((max(0, length - 1), 0, line.picture))
            continue
        confidence = () if line.confidence is None else (line.confidence,)
        for box in line.row_boxes or [line.box]:
            outline.lines.append((length, line.page, *box, *confidence))
        start = length
        if line.table:
            write("\n")
            outline.add_table(start, length, line.caption, line.table)
        else:
            write(line.text.removesuffix(HYPHEN))
        if line.level:
            _add_heading(outline, line, start, length)
        above = line
    outline.text = "".join(parts)


def _add_heading(outline: Outline, line: TextLine, start: int, end: int) -> None:
    """Add a heading; a line directly below a heading of the same level continues it."""
    name = line.text.replace(HYPHEN, "")
    if outline.headings:
        begin, above_end, level, above = outline.headings[-1]
        if level == line.level and 0 <= start - above_end <= 1:
            outline.headings.pop()
            start, name = begin, above + " " * (start - above_end) + name
    outline.add_heading(line.level, clean_name(name), start, end)


def _between(above: TextLine, line: TextLine) -> str:
    """Return what separates two lines: nothing within a word, else a line or paragraph end."""
    if above.text.endswith(HYPHEN):
        return ""
    height = max(above.box[3] - above.box[1], 0.005)  # a box may be flat
    is_next = above.page == line.page and 0 < line.box[1] - above.box[1] < _GAP * height
    is_column = line.box[1] < above.box[1] or above.page != line.page
    goes_on = is_column and line.text[:1].islower() and not above.text.endswith((".", ":"))
    same = above.level == line.level and not (above.table or line.table)
    return "\n" if same and (is_next or goes_on) else "\n\n"
