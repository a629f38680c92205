"""Pages of PDF files: lines with their boxes, tables and pictures."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.outline import Outline
from ku_rag.pictures import MATCHED_SIDE
from ku_rag.plugins import extra

_BOLD = 600
"""Least weight of bold letters."""
_SMALLEST_PICTURE, _SMALLEST_SHARE = 50, 0.01
"""Pixels of the shorter side, and share of the page, of a picture that is read."""
_MOST_PIXELS = 40_000_000
"""Pixels of a picture that is read, at most."""
_ANGLES = [angle / 4 for angle in range(-16, 17)]
"""Angles tried to level a scanned page, in degrees."""
_CLEARER, _SMALL_SIDE = 1.05, 400
"""Least gain of contrast for which a page is turned, and pixels of its side to measure it."""
_QUALITY = 40
"""WebP quality of the picture of a scanned page; more keeps noise that hinders recognition."""
_SCALE, _LONGEST = 100 / 72, 4_000
"""Pixels of a rendered page: for each point, and of its longer side at most."""
_FILL, _OUTLINE, _MARGIN = (255, 214, 10, 90), (40, 30, 0, 255), 4
"""Colours of a drawn box, and pixels around it; the outer half of these is the outline."""
Box = tuple[float, float, float, float]
HYPHEN, _STX = "\ufffe", 2
"""Characters, of which pdfium writes one where a word is divided at the end of a line."""


@dataclass(slots=True)
class TextLine:
    """A line of a page.

    Args:
        box: Left, top, right, bottom in shares of the page.
        size: Of its letters, in points.
        level: Of a heading, from 1; 0 for text.
        span: Its start and end in the text of the page, see `TextPage`.
        confidence: Of a line that was recognised, 0 to 1.
    """

    text: str
    page: int
    box: Box
    size: float = 0.0
    is_bold: bool = False
    table: list[list[str]] = field(default_factory=list)
    row_boxes: list[Box] = field(default_factory=list)
    caption: str = ""
    picture: str = ""
    level: int = 0
    span: tuple[int, int] = (0, 0)
    confidence: float | None = None


class PageWord(NamedTuple):
    """A word with its box and the size of its letters, in shares of the page and of its width."""

    left: float
    top: float
    right: float
    bottom: float
    text: str
    size: float

    @property
    def middle(self) -> float:
        """Its height on the page."""
        return (self.top + self.bottom) / 2


# ---- lines ---------------------------------------------------------------------------------------


class TextPage:
    """The text of a page, with places in shares of the page as it is shown."""

    def __init__(self, page: Any, number: int) -> None:  # noqa: ANN401 - of pypdfium2
        self.page, self._number = page, number
        self._raw = extra("documents", "pypdfium2.raw")
        self._text_page = page.get_textpage()
        self._frame = page.get_bbox()
        count = max(0, self._text_page.count_chars())
        codes = (self._raw.FPDFText_GetUnicode(self._text_page, n) for n in range(count))
        self._text = "".join(HYPHEN if code == _STX else chr(code or 32) for code in codes)

    def close(self) -> None:
        """Free the text."""
        self._text_page.close()

    def lines(self) -> Iterator[TextLine]:
        """Yield the lines; a divided word belongs to the first of its lines."""
        for match in re.finditer(r"[^\r\n]+", self._text):
            start = match.start()
            for part in re.split(f"(?<={HYPHEN})", match[0]):
                if part.strip():
                    yield self._line(start, start + len(part))
                start += len(part)

    def _line(self, start: int, end: int) -> TextLine:
        page = self._text_page
        letters = [n for n in range(start, end) if not self._text[n].isspace()]
        boxes = [page.get_rect(n) for n in range(page.count_rects(start, end - start))]
        size = self._raw.FPDFText_GetFontSize(page, letters[0])
        is_bold = all(_is_bold(self._raw, page, place) for place in (letters[0], letters[-1]))
        box = union(map(self.shares, boxes))
        height = max(0.0, box[3] - box[1]) * (self._frame[3] - self._frame[1])
        size = round(size if size > 1 else height, 1)
        text = self._clean(start, end).strip()
        return TextLine(text, self._number, box, size, is_bold, span=(start, end))

    def words(self, line: TextLine) -> Iterator[PageWord]:
        """Yield the words of a line."""
        start, end = line.span
        size = line.size / max(1.0, self.page.get_size()[0])
        for match in re.finditer(r"\S+", self._text[start:end]):
            first, last = start + match.start(), start + match.end()
            boxes = (self._text_page.get_charbox(n) for n in range(first, last))
            text = self._clean(first, last).replace(HYPHEN, "-")
            yield PageWord(*union(map(self.shares, boxes)), text, size)

    def _clean(self, start: int, end: int) -> str:
        """Return a part of the text; characters beyond U+FFFF are two numbers."""
        part = self._text[start:end]
        return part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def shares(self, box: Box) -> Box:
        """Return a box in points, with the origin below, in shares of the page as it is shown."""
        return _upright(_shares(box, self._frame), self.page)


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
    left, right = (left - frame[0]) / width, (right - frame[0]) / width
    return clamped((left, (frame[3] - top) / height, right, (frame[3] - bottom) / height))


def clamped(box: Box) -> Box:
    """Return the part of a box that is on the page, rounded to four places."""
    left, top, right, bottom = (round(min(max(share, 0.0), 1.0), 4) for share in box)
    return left, top, right, bottom


def _upright(box: Box, page: Any) -> Box:  # noqa: ANN401 - of pypdfium2
    """Return a box of an unrotated page on the page as it is shown."""
    for _ in range(page.get_rotation() // 90):
        left, top, right, bottom = box
        box = (round(1 - bottom, 4), left, round(1 - top, 4), right)
    return box


def union(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around boxes."""
    boxes = list(boxes) or [(0.0, 0.0, 0.0, 0.0)]
    left, top, right, bottom = zip(*boxes, strict=True)
    return min(left), min(top), max(right), max(bottom)


# ---- pictures ------------------------------------------------------------------------------------


def page_scan(page: Any, number: int, outline: Outline) -> TextLine | None:  # noqa: ANN401
    """Embed the picture of a page without text, grey and level; None for a blank page."""
    if outline.is_full or not any(page.get_objects(max_depth=1)):
        return None
    scale = MATCHED_SIDE / max(page.get_size())
    picture = page.render(scale=scale, grayscale=True).to_pil().convert("L")
    content = BytesIO()
    angle = _tilt(picture)
    straight = picture.rotate(angle, Image.Resampling.BICUBIC, fillcolor=255)
    straight.save(content, "WEBP", quality=_QUALITY, method=2)
    if address := outline.embed(f"page-{number}.webp", content.getvalue()):
        outline.scans.setdefault(address, (number, angle))
        return TextLine("", number, (0.0, 0.0, 1.0, 1.0), picture=address)
    return None


def _tilt(picture: Image.Image) -> float:
    """Return the degrees to turn a grey page, so that its rows of pixels differ the most."""
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
    """Yield the pictures of a page, embedded once in the outline; `addresses` are by digest."""
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
            except (OSError, RuntimeError, ValueError):  # such as an unknown compression
                continue
            name = f"page-{number}-picture-{place}.png"
            addresses[digest] = outline.embed(name, content.getvalue())
        if addresses[digest]:
            yield TextLine("", number, box, picture=addresses[digest])


# ---- a page as a picture -------------------------------------------------------------------------


def render_page(path: Path, page: int, box: list[float], digest: str) -> Iterator[tuple[int, str]]:
    """Yield 0 and a page as PNG in base 64; nothing if the file has another SHA-256 than digest."""
    pdfium = extra("documents", "pypdfium2")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        return
    with pdfium.PdfDocument(content) as document:
        if page > len(document):
            raise BadInput(f"{path.name} has {len(document):,} pages, and no page {page:,}")
        sheet = document[page - 1]
        scale = min(_SCALE, _LONGEST / max(sheet.get_size()))
        image = sheet.render(scale=scale).to_pil().convert("RGB")
    if box:
        parts = zip(box, image.size * 2, (-_MARGIN, -_MARGIN, _MARGIN, _MARGIN), strict=True)
        outer = [share * side + margin for share, side, margin in parts]
        ImageDraw.Draw(image, "RGBA").rectangle(outer, _FILL, _OUTLINE, _MARGIN // 2)
    image.save(picture := BytesIO(), "PNG")
    yield 0, base64.b64encode(picture.getvalue()).decode()
