"""Text of scanned pages: the words of a recogniser, as lines of the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from math import cos, radians, sin
from pathlib import Path
from statistics import median

from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.item_codec import Item, ScannedPage
from ku_rag.ingest.readers.outline import Outline
from ku_rag.ingest.readers.pdf import write_lines
from ku_rag.ingest.readers.pdf_page import HYPHEN, Box, TextLine, union
from ku_rag.ingest.reading_order import reading_order
from ku_rag.types import Quarantined, Record, Source, Unit, Word

_LARGER = 1.35
"""Letters are larger than most if their line is higher by this factor; boxes are not exact."""
_SIZE = 10.0
"""Size of most letters of a scan, in points."""

PageWords = tuple[tuple[int, int], Sequence[Word]]
"""Width and height of the picture of a page in pixels, and the words in it."""


def has_scans(record: Record) -> bool:
    """Return whether a record has scanned pages."""
    images = (image for source in record.sources for image in source.images)
    return any(isinstance(image, ScannedPage) for image in images)


def read_scans(record: Record, read: Callable[[ScannedPage], PageWords | None]) -> Iterator[Item]:
    """Yield a record with the text of its scanned pages, then a report of those that are not read.

    A record that has nothing but pages that are not read is left out.

    Args:
        record: See `has_scans`.
        read: Returns the words of a page; None if nothing has recognised them.
    """
    sources, unread, title = [], list[ScannedPage](), ""
    for source in record.sources:
        lines: list[TextLine] = []
        images = []
        for image in source.images:
            if isinstance(image, ScannedPage):
                recognised = read(image)
                if recognised is None:
                    unread.append(image)
                    continue
                lines += _lines(image, *recognised)
            images.append(image)
        outline = Outline(Path(source.uri))
        write_lines(outline, lines)
        title = title or outline.title
        sources.append(replace(_with_text(source, outline), images=tuple(images)))
    if any(source.texts or source.images or source.tables for source in sources):
        yield replace(record, unit=_titled(record, title), sources=tuple(sources))
    for document, group in groupby(unread, lambda page: page.parent):
        reason = (
            f"{_numbered([page.page for page in group])} no text, and the base has no recogniser, "
            'or it failed (see the log): install the extra ocr, set recogniser = "rapidocr" in its '
            "ku.toml, and ingest again"
        )
        yield Quarantined(document.as_posix(), reason)


def _titled(record: Record, title: str) -> Unit | None:
    """Return the unit of a record; a document that is named after its file gets its title."""
    unit = record.unit
    file = clean_name(Path(record.sources[0].uri).stem)
    if unit is None or not record.is_document or unit.name != file or not title:
        return unit
    return replace(unit, name=title, aliases=(*unit.aliases, file))


def _with_text(source: Source, outline: Outline) -> Source:
    """Return a source with an outline as further texts, one for each heading."""
    if not outline.text:
        return source
    scanned = outline.source(source.uri, 0, len(outline.text))
    texts = len(source.texts)
    return replace(
        source,
        texts=(*source.texts, *scanned.texts),
        places=(*source.places[:texts], *scanned.places, *source.places[texts:]),
    )


def _lines(page: ScannedPage, pixels: tuple[int, int], words: Sequence[Word]) -> list[TextLine]:
    """Return the lines of a page in reading order; words at the same height are one line."""
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
        is_heading = larger >= _LARGER and len(row) == 1  # others are rows of tables and formulas
        size = round(2 * larger) / 2 * _SIZE if is_heading else _SIZE
        lines.append(TextLine(text, page.page, box, size, confidence=confidence))
    for line in lines:
        line.box = _tilted(line.box, page.tilt, width / height)
    for line, after in pairwise(lines):
        if line.text[-1] == "-" and line.text[-2:-1].isalpha() and after.text[0].islower():
            line.text = line.text[:-1] + HYPHEN
    return lines


def _tilted(box: Box, tilt: float, ratio: float) -> Box:
    """Return the box around a box of a straightened page where it is on the page as it was.

    Args:
        box: In shares of the page.
        tilt: Of the page, in degrees.
        ratio: Width of the page by its height.
    """
    sine, cosine = sin(radians(tilt)), cos(radians(tilt))
    corners = [
        (
            (x - 0.5) * cosine - (y - 0.5) * sine / ratio,
            (x - 0.5) * sine * ratio + (y - 0.5) * cosine,
        )
        for x in (box[0], box[2])
        for y in (box[1], box[3])
    ]
    left, top, right, bottom = union((x, y, x, y) for x, y in corners)
    first, second, third, fourth = (
        round(min(max(share + 0.5, 0.0), 1.0), 4) for share in (left, top, right, bottom)
    )
    return first, second, third, fourth


def _numbered(pages: Sequence[int]) -> str:
    """Return "pages 3 to 9, 12 hold"."""
    runs = []
    for _, run in groupby(enumerate(pages), key=lambda pair: pair[1] - pair[0]):
        of_run = [page for _, page in run]
        runs.append(f"{of_run[0]} to {of_run[-1]}" if len(of_run) > 1 else str(of_run[0]))
    several = len(pages) > 1
    return f"page{'s' * several} {', '.join(runs)} hold{'s' * (not several)}"
