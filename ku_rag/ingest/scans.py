"""Text of scanned pages: recognised words become lines of the document."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from math import cos, radians, sin
from pathlib import Path
from statistics import median

from ku_rag.errors import BadInput
from ku_rag.ingest.preparation import read_picture
from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.item_codec import Item, ScannedPage
from ku_rag.ingest.readers.outline import Outline
from ku_rag.ingest.readers.pdf import write_lines
from ku_rag.ingest.readers.pdf_page import HYPHEN, Box, TextLine, clamped, union
from ku_rag.ingest.reading_order import reading_order
from ku_rag.ingest.transcription import TRANSCRIBED
from ku_rag.text import tokens
from ku_rag.types import Quarantined, Record, Source, Unit, Word

_LARGER = 1.35
"""A line is a heading if it is higher than most by this factor; boxes are not exact."""
_SIZE = 10.0
"""Size given to most letters of a scan, in points."""

_LEAST_CONFIDENCE, _LONG = 0.5, 3
"""Confidence of lines that count in photographs, and words of long ones."""
_FEW_LINES, _COVERED = 4, 0.1
"""Long lines of a photographed page at least, and share of the picture that is around them."""

PageWords = tuple[tuple[int, int], str, Sequence[Word]]
"""Width and height of the picture of a page in pixels, what has read it, and its words."""


def has_scans(record: Record) -> bool:
    """Return whether a record has scanned pages."""
    images = (image for source in record.sources for image in source.images)
    return any(isinstance(image, ScannedPage) for image in images)


def read_scans(record: Record, read: Callable[[ScannedPage], PageWords | str]) -> Iterator[Item]:
    """Yield a record with the text of its scanned pages, then a report of unread pages.

    A record of nothing but unread pages is left out.

    Args:
        record: See `has_scans`.
        read: Returns the words of a page, or why there are none.
    """
    sources, unread, title = [], list[tuple[ScannedPage, str]](), ""
    for source in record.sources:
        lines: list[TextLine] = []
        transcribed: list[tuple[int, str, str]] = []
        images = []
        for image in source.images:
            if isinstance(image, ScannedPage):
                printed = read(image)
                if isinstance(printed, str):
                    unread.append((image, printed))
                    continue
                pixels, model, words = printed
                if model.startswith(TRANSCRIBED):
                    text = "\n\n".join(word.text for word in words)
                    transcribed.append((image.page, model.removeprefix(TRANSCRIBED), text))
                else:
                    lines += _lines(image, pixels, words)
            images.append(image)
        outline = _transcribed(source.uri, transcribed)
        if lines:
            write_lines(outline, lines)
        title = title or outline.title
        sources.append(replace(_with_text(source, outline), images=tuple(images)))
    if any(source.texts or source.images or source.tables for source in sources):
        yield replace(record, unit=_titled(record, title), sources=tuple(sources))
    for (document, fault), group in groupby(unread, lambda pair: (pair[0].parent, pair[1])):
        reason = f"{_numbered([page.page for page, _ in group])} no text, and {fault}"
        yield Quarantined(document.as_posix(), reason)


def with_photographed_pages(
    record: Record, read: Callable[[ScannedPage], PageWords | str]
) -> Record:
    """Return a record of nothing but pictures with those that show text as scanned pages.

    The pages have no number. In a picture that shows text, lines of several words are most of what
    is printed, and cover much of the picture.
    """
    if any(source != Source(source.uri, images=(Path(source.uri),)) for source in record.sources):
        return record
    sources = tuple(_photographed_page(source, read) for source in record.sources)
    return replace(record, sources=sources)


def _photographed_page(source: Source, read: Callable[[ScannedPage], PageWords | str]) -> Source:
    try:
        content = base64.b64encode(read_picture(source.images[0]).data).decode()
    except BadInput:  # which is reported when the record is prepared
        return source
    printed = read(page := ScannedPage.numbered(source.uri, content, 0, 0.0))
    if isinstance(printed, str):
        return source
    (width, height), _, words = printed
    lines = [word for word in words if word.confidence >= _LEAST_CONFIDENCE]
    long = [line.box for line in lines if len(tokens.words(line.text)) >= _LONG]
    left, top, right, bottom = union(long)
    covers = (right - left) * (bottom - top) >= _COVERED * width * height
    if not covers or len(long) < max(_FEW_LINES, len(lines) / 2):
        return source
    return replace(source, images=(page,))


def _titled(record: Record, title: str) -> Unit | None:
    """Return the unit of a record; a document named after its file is renamed to its title."""
    unit = record.unit
    file = clean_name(Path(record.sources[0].uri).stem)
    if unit is None or not record.is_document or unit.name != file or not title:
        return unit
    return replace(unit, name=title, aliases=(*unit.aliases, file))


def _with_text(source: Source, outline: Outline) -> Source:
    """Return a source with the sections and tables of an outline as further ones."""
    if not outline.text:
        return source
    scanned = outline.source(source.uri, 0, len(outline.text))
    # The places of texts come before those of rows of tables.
    texts, further = len(source.texts), len(scanned.texts)
    return replace(
        source,
        texts=(*source.texts, *scanned.texts),
        tables=(*source.tables, *scanned.tables),
        places=(
            *source.places[:texts],
            *scanned.places[:further],
            *source.places[texts:],
            *scanned.places[further:],
        ),
    )


def _transcribed(uri: str, pages: Sequence[tuple[int, str, str]]) -> Outline:
    """Return the outline of transcribed pages: number, model and Markdown of each."""
    if not pages:
        return Outline(Path(uri))
    from ku_rag.ingest.readers.markdown import read_markdown  # slow to import, and seldom needed

    text = "".join(f"\n\n{text}" for *_, text in pages)  # does not begin with front matter
    outline, length = read_markdown(Path(uri), text), 0
    for page, model, text in pages:
        places = (length + 2 + match.start() for match in re.finditer(r"\S.*", text))
        outline.lines += ((place, page, model) for place in places)
        length += len(text) + 2
    if outline.headings and not outline.text[: outline.headings[0].start].strip():
        outline.title = outline.headings[0].name
    return outline


def _lines(page: ScannedPage, pixels: tuple[int, int], words: Sequence[Word]) -> list[TextLine]:
    """Return the lines of a page in reading order; the words of a row are one line."""
    width, height = pixels
    by_box: dict[Box, Word] = {}
    for word in words:
        left, top, right, bottom = word.box
        by_box[left / width, top / height, right / width, bottom / height] = word
    usual = median(box[3] - box[1] for box in by_box) if by_box else 1.0
    lines = []
    for row in reading_order(list(by_box)):
        text = " ".join(by_box[box].text.strip() for box in row)
        if not text:
            continue
        box = union(row)
        larger = (box[3] - box[1]) / usual
        confidence = min(by_box[box].confidence for box in row)
        is_heading = larger >= _LARGER and len(row) == 1  # not a row of a table or formula
        size = round(2 * larger) / 2 * _SIZE if is_heading else _SIZE
        box = _tilted(box, page.tilt, width / height)
        lines.append(TextLine(text, page.page, box, size, confidence=confidence))
    for line, after in pairwise(lines):
        if line.text[-1] == "-" and line.text[-2:-1].isalpha() and after.text[0].islower():
            line.text = line.text[:-1] + HYPHEN
    return lines


def _tilted(box: Box, tilt: float, ratio: float) -> Box:
    """Return the box, on the page before it was turned, around a box of the level page.

    Args:
        box: In shares of the page.
        tilt: Degrees by which the page was turned anticlockwise.
        ratio: Width of the page divided by its height.
    """
    sine, cosine = sin(radians(tilt)), cos(radians(tilt))
    corners = [
        (
            (x - 0.5) * cosine - (y - 0.5) * sine / ratio,
            (x - 0.5) * sine * ratio + (y - 0.5) * cosine,
        )
        for x in box[::2]
        for y in box[1::2]
    ]
    return clamped(union((x + 0.5, y + 0.5, x + 0.5, y + 0.5) for x, y in corners))


def _numbered(pages: Sequence[int]) -> str:
    """Return subject and verb of a message, such as "pages 3 to 9, 12 hold"."""
    runs = []
    for _, group in groupby(enumerate(pages), key=lambda pair: pair[1] - pair[0]):
        run = [page for _, page in group]
        runs.append(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]))
    noun, verb = ("pages", "hold") if len(pages) > 1 else ("page", "holds")
    return f"{noun} {', '.join(runs)} {verb}"
