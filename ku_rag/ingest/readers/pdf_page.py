"""Pages of PDF files: lines with their boxes, tables and pictures."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.outline import Outline
from ku_rag.pictures import MATCHED_SIDE
from ku_rag.plugins import extra

_MOST_PAGE_BYTES = 4 << 20
"""Size of the operators of a page whose tables are looked for; each takes memory and time."""
_BOLD = 600
_FEWEST_SEGMENTS, _MOST_SEGMENTS = 8, 20_000
"""Parts of lines and boxes of a page on which tables are looked for."""
_SMALLEST_PICTURE, _SMALLEST_SHARE = 50, 0.01
"""Pixels of the shorter side, and share of the page, of a picture that is read."""
_MOST_PIXELS = 40_000_000
_ANGLES = [angle / 4 for angle in range(-16, 17)]
"""By which a scanned page may be turned, in degrees."""
_CLEARER, _SMALL_SIDE = 1.05, 400
"""Gain of the contrast of rows for which a page is turned, and pixels of the page for that."""
_QUALITY = 70
"""Of the picture of a scanned page."""
_CAPTION = re.compile(r"\s*[^\W\d_]{2,12}\.?\s*\d+(?:\.\d+)*\s*[.:]")
"""A line such as "Table 3: …", in any language."""
Box = tuple[float, float, float, float]
HYPHEN, _STX = "\ufffe", 2
"""pdfium joins the parts of a word at the end of a line by one of these characters."""


@dataclass(slots=True)
class TextLine:
    """A line of a page.

    Args:
        text: Without the white space around it.
        page: From 1.
        box: Left, top, right, bottom in shares of the page.
        size: Of its letters, in points.
        is_bold: Whether they are bold.
        table: Rows of the table that is in this place.
        caption: Title of the table.
        picture: Address of the picture that is in this place.
        level: Of a heading, from 1; 0 for text.
        confidence: Of a line that was recognised, 0 to 1.
    """

    text: str
    page: int
    box: Box
    size: float = 0.0
    is_bold: bool = False
    table: list[list[str]] = field(default_factory=list)
    caption: str = ""
    picture: str = ""
    level: int = 0
    confidence: float | None = None


# ---- lines ---------------------------------------------------------------------------------------


def page_lines(page: Any, number: int) -> Iterator[TextLine]:  # noqa: ANN401 - of pypdfium2
    """Yield the lines of a page; a joined word is a part of the first of its lines."""
    raw = extra("documents", "pypdfium2.raw")
    text_page = page.get_textpage()
    count = text_page.count_chars()
    codes = (raw.FPDFText_GetUnicode(text_page, n) for n in range(max(0, count)))
    text = "".join(HYPHEN if code == _STX else chr(code or 32) for code in codes)
    frame = page.get_bbox()
    for match in re.finditer(r"[^\r\n]+", text):
        start = match.start()
        for part in re.split(f"(?<={HYPHEN})", match[0]):
            end = start + len(part)
            letters = [n for n in range(start, end) if not text[n].isspace()]
            if letters:
                rects = range(text_page.count_rects(start, end - start))
                boxes = [text_page.get_rect(n) for n in rects]
                size = raw.FPDFText_GetFontSize(text_page, letters[0])
                ends = (letters[0], letters[-1])
                bold = all(_is_bold(raw, text_page, place) for place in ends)
                # Characters beyond U+FFFF are two numbers.
                part = part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                joined = part.endswith(HYPHEN)
                clean = part.strip() if not joined else part.strip().removesuffix(HYPHEN) + HYPHEN
                box = _upright(union(_shares(box, frame) for box in boxes), page)
                height = max(0.0, box[3] - box[1]) * (frame[3] - frame[1])
                yield TextLine(clean, number, box, round(size if size > 1 else height, 1), bold)
            start = end
    text_page.close()


def _is_bold(raw: Any, text_page: Any, place: int) -> bool:  # noqa: ANN401 - of pypdfium2
    if raw.FPDFText_GetFontWeight(text_page, place) >= _BOLD:
        return True
    name, flags = ctypes.create_string_buffer(80), ctypes.c_int()
    raw.FPDFText_GetFontInfo(text_page, place, name, len(name), flags)
    return b"bold" in name.value.lower() or b"CMBX" in name.value


def _shares(box: Box, frame: Box) -> Box:
    """Return a box in points, with the origin below, in shares of a page, with it above."""
    left, bottom, right, top = box
    width, height = max(frame[2] - frame[0], 1.0), max(frame[3] - frame[1], 1.0)
    shares = (
        (left - frame[0]) / width,
        (frame[3] - top) / height,
        (right - frame[0]) / width,
        (frame[3] - bottom) / height,
    )
    first, second, third, fourth = (round(min(max(share, 0.0), 1.0), 4) for share in shares)
    return first, second, third, fourth


def _upright(box: Box, page: Any) -> Box:  # noqa: ANN401 - of pypdfium2
    """Return a box of a page as it is shown, turned."""
    for _ in range(page.get_rotation() // 90):
        left, top, right, bottom = box
        box = (round(1 - bottom, 4), left, round(1 - top, 4), right)
    return box


def union(boxes: Iterable[Box]) -> Box:
    """Return the box around boxes."""
    every = list(boxes) or [(0.0, 0.0, 0.0, 0.0)]
    left, top, right, bottom = zip(*every, strict=True)
    return min(left), min(top), max(right), max(bottom)


# ---- tables --------------------------------------------------------------------------------------


class Tables:
    """Looks for ruled tables; the file is opened when a page has ruled lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pdf: Any = None

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pdf:
            self._pdf.close()

    def replace(self, lines: list[TextLine], page: Any, number: int) -> list[TextLine]:  # noqa: ANN401
        """Return the lines of a page with tables in place of their text."""
        raw = extra("documents", "pypdfium2.raw")
        paths = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=2)
        segments = sum(max(0, raw.FPDFPath_CountSegments(path)) for path in paths)
        if not (lines and _FEWEST_SEGMENTS <= segments <= _MOST_SEGMENTS):
            return lines
        for box, rows in self._of_page(number):
            inside = [line for line in lines if _is_inside(line.box, box)]
            if not inside:
                continue
            at = lines.index(inside[0])
            table = TextLine("", number, box, table=rows)
            near = [*lines[max(0, at - 1) : at], *lines[at + len(inside) : at + len(inside) + 1]]
            table.caption = next((line.text for line in near if _CAPTION.match(line.text)), "")
            lines = [*lines[:at], table, *(line for line in lines[at:] if line not in inside)]
        return lines

    def _of_page(self, number: int) -> Iterator[tuple[Box, list[list[str]]]]:
        pdfplumber = extra("documents", "pdfplumber")
        if self._pdf is None:
            logging.getLogger("pdfminer").setLevel(logging.ERROR)
            self._pdf = pdfplumber.open(self._path)
        page = self._pdf.pages[number - 1]
        resolve = extra("documents", "pdfminer.pdftypes").resolve1
        size = sum(len(resolve(stream).get_data()) for stream in page.page_obj.contents)
        if size > _MOST_PAGE_BYTES:
            raise BadInput(
                f"page {number} unpacks to {size:,} bytes, at most {_MOST_PAGE_BYTES:,} are "
                "read: split it, or save the text by itself"
            )
        for table in page.find_tables():
            rows = [[" ".join((cell or "").split()) for cell in row] for row in table.extract()]
            filled = sum(bool(cell) for row in rows for cell in row)
            if len(rows) > 1 and len(rows[0]) > 1 and 2 * filled > len(rows) * len(rows[0]):
                left, top, right, bottom = table.bbox
                height = float(page.height)
                frame = (0.0, 0.0, float(page.width), height)
                yield _shares((left, height - bottom, right, height - top), frame), rows
        page.close()


def _is_inside(box: Box, outer: Box) -> bool:
    """Return whether the middle of a box is in another."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


# ---- pictures ------------------------------------------------------------------------------------


def page_scan(page: Any, number: int, outline: Outline) -> TextLine | None:  # noqa: ANN401
    """Return the picture of a page without text, in grey and upright; None if nothing is drawn.

    The outline gets its file.
    """
    if not any(page.get_objects(max_depth=1)):
        return None
    scale = MATCHED_SIDE / max(page.get_size())
    picture = page.render(scale=scale, grayscale=True).to_pil().convert("L")
    content = BytesIO()
    angle = _tilt(picture)
    straight = picture.rotate(angle, Image.Resampling.BICUBIC, fillcolor=255)
    straight.save(content, "JPEG", quality=_QUALITY)
    if address := outline.embed(f"page-{number}.jpg", content.getvalue()):
        outline.scans.setdefault(address, (number, angle))
        return TextLine("", number, (0.0, 0.0, 1.0, 1.0), picture=address)
    return None


def _tilt(picture: Image.Image) -> float:
    """Return by how many degrees a grey page has to be turned to make its lines level.

    The rows of the turned page differ the most.
    """
    small = ImageOps.invert(picture)
    small.thumbnail((_SMALL_SIDE, _SMALL_SIDE))

    def contrast(angle: float) -> float:
        turned = small.rotate(angle, Image.Resampling.BILINEAR)
        return float(np.asarray(turned, np.float32).sum(axis=1).var())

    angle = max(_ANGLES, key=contrast)
    return angle if contrast(angle) > _CLEARER * contrast(0) else 0.0


def page_pictures(
    page: Any,  # noqa: ANN401 - of pypdfium2
    number: int,
    outline: Outline,
    addresses: dict[bytes, str],
) -> Iterator[TextLine]:
    """Yield the pictures of a page; the outline gets their files.

    Args:
        page: The page.
        number: Of the page.
        outline: Of the document.
        addresses: Digest of the stored form of each picture, and its address; a decoration that is
            repeated is decoded once.
    """
    raw = extra("documents", "pypdfium2.raw")
    frame = page.get_bbox()
    images = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=3)
    for place, image in enumerate(images, 1):
        left, top, right, bottom = box = _upright(_shares(image.get_bounds(), frame), page)
        is_large = (right - left) * (bottom - top) >= _SMALLEST_SHARE
        width, height = image.get_px_size()
        is_large = is_large and min(width, height) >= _SMALLEST_PICTURE
        if outline.is_full or not is_large or width * height > _MOST_PIXELS:
            continue
        digest = hashlib.sha256(image.get_data()).digest()
        if digest not in addresses:
            content = BytesIO()
            try:
                image.get_bitmap(render=False).to_pil().convert("RGB").save(content, "PNG")
            except (OSError, RuntimeError, ValueError):  # a form of compression that is not known
                continue
            name = f"page-{number}-picture-{place}.png"
            addresses[digest] = outline.embed(name, content.getvalue())
        if addresses[digest]:
            yield TextLine("", number, box, picture=addresses[digest])
