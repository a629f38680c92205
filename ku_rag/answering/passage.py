"""The multimodal passage: retrieved knowledge as pages that a model looks at (KU-RAG, 3.3.3).

Every card is `[image][[name][chunk 1] … [chunk k]]`; the chunks of one unit share one card, and the
cards are stitched into pages (eq. 11).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from apsw.unicode import grapheme_iter, line_break_iter
from PIL import Image, ImageDraw

from ku_rag.answering import fonts
from ku_rag.pictures import to_rgb
from ku_rag.types import Evidence, Match

PICTURE_WIDTH = 224
PICTURE_HEIGHT = 448
TEXT_WIDTH = 500
PAGE_HEIGHT = 2048
MARGIN = 16
GAP = 16
PAGE_WIDTH = MARGIN + PICTURE_WIDTH + GAP + TEXT_WIDTH + MARGIN

_SIZE, _NAME_SIZE = 18, 22
_ASCENT, _DESCENT = 1.1, 0.35
_PARAGRAPH_GAP = 8
_LONG_WORD = 1000
_INK, _RULE, _PAPER = "#111111", "#c8c8c8", "#ffffff"
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Card:
    """A unit on a page: name, matching picture, chunks, and labels such as "E1", if any."""

    name: str
    image: Image.Image | None
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()


def cards(
    units: Sequence[Match], evidence: Sequence[Evidence], pictures: Mapping[str, Image.Image]
) -> list[Card]:
    """Put evidence, best first, onto the cards of its units; text of other units follows."""
    by_unit: dict[str, list[Evidence]] = {unit.id: [] for unit in units}
    by_heading: dict[str, list[Evidence]] = {}
    for piece in evidence:
        unit = next((owner for owner in piece.owners if owner in by_unit), None)
        (by_heading.setdefault(piece.origin, []) if unit is None else by_unit[unit]).append(piece)
    groups = [(unit.name, pictures.get(unit.id), by_unit[unit.id]) for unit in units]
    groups += [(heading, None, own) for heading, own in by_heading.items()]
    return [
        Card(name, picture, tuple(p.text for p in own), tuple(p.label for p in own))
        for name, picture, own in groups
        if own
    ]


def compose(cards: Sequence[Card], *, page_height: int = PAGE_HEIGHT) -> list[Image.Image]:
    """Stitch cards into pages of 772 by at most 2,048 px (KU-RAG, section 3.3.3, eq. 11).

    A card moves to the next page whole where it fits on one; a longer one flows on, under its name
    and picture again. The pages are RGB, and at most `page_height` px high, 600 or more.
    """
    pages: list[list[_Block]] = [[]]
    page = page_height - 2 * MARGIN
    used = 0
    for card in cards:
        picture = card.image and _picture(card.image)
        lines = list(_card_lines(card))
        if not lines and picture is None:
            continue
        for block in _split(card.name, picture, lines, page=page, left=page - used):
            if used + block.height > page:
                pages.append([])
                used = 0
            pages[-1].append(block)
            used += block.height + GAP
    return [_page(blocks) for blocks in pages if blocks]


# ---- setting lines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A line ready to draw: pieces with x and weight, and the pixels around the baseline."""

    pieces: tuple[tuple[float, str, bool], ...]
    size: int
    ascent: int
    descent: int

    @property
    def height(self) -> int:
        return self.ascent + self.descent


def wrap(
    text: str, size: int, column: float, *, bold: bool = False, indent: float = 0
) -> list[str]:
    """Break a paragraph into lines of `column` pixels where Unicode allows it (UAX 14)."""
    lines: list[str] = []
    line, used, room = "", 0.0, column - indent
    parts = list(line_break_iter(" ".join(text.split())))[::-1]
    while parts:
        part = parts.pop()
        if used + fonts.width(part.rstrip()[:_LONG_WORD], size, bold) <= room:
            line, used = line + part, used + fonts.width(part, size, bold)
            continue
        if line or room < column:
            parts.append(part)
        else:
            # The word is wider than the column.
            letters = list(grapheme_iter(part[:_LONG_WORD]))
            ends = range(1, len(letters) + 1)
            end = bisect_right(
                ends, room, key=lambda n: fonts.width("".join(letters[:n]), size, bold)
            )
            line = "".join(letters[: max(1, end)])
            parts += [part[len(line) :]] if part[len(line) :] else []
        lines.append(line.strip())
        line, used, room = "", 0.0, column
    return [*lines, line.strip()] if line.strip() else lines


def _card_lines(card: Card) -> Iterator[_Line]:
    for text in wrap(_clean(card.name), _NAME_SIZE, TEXT_WIDTH, bold=True):
        yield _line([(0, text, True)], _NAME_SIZE)
    for at, text in enumerate(card.texts):
        label = card.labels[at] if at < len(card.labels) else ""
        if not label and not text.strip():
            continue
        if card.name or at:
            yield _Line((), _SIZE, _PARAGRAPH_GAP, 0)
        yield from _text_lines(_clean(text), label and f"[{label}]")


def _text_lines(text: str, label: str) -> Iterator[_Line]:
    indent = fonts.width(label + " ", _SIZE, True) if label else 0.0
    head = [(0.0, label, True)] if label else []
    paragraphs = [part for part in re.split(r"[\n\v\f\r\u2028\u2029]+", text) if part.strip()]
    for paragraph in paragraphs or [""] * bool(label):
        for line in wrap(paragraph, _SIZE, TEXT_WIDTH, indent=indent) or [""]:
            yield _line([*head, (indent, line, False)], _SIZE)
            head, indent = [], 0.0


def _line(pieces: Sequence[tuple[float, str, bool]], size: int) -> _Line:
    ascent, descent = round(size * _ASCENT), round(size * _DESCENT)
    for _, text, bold in pieces:
        up, down = fonts.extent(text, size, bold)
        ascent, descent = max(ascent, up), max(descent, down)
    return _Line(tuple(pieces), size, ascent, descent)


def _clean(text: str) -> str:
    return _CONTROL.sub(" ", text)


# ---- laying out --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Block:
    """A card, or the part of one on a page."""

    picture: Image.Image | None
    lines: tuple[_Line, ...]

    @property
    def height(self) -> int:
        return max(_height(self.lines), self.picture.height if self.picture else 0)


def _height(lines: Iterable[_Line]) -> int:
    return sum(line.height for line in lines)


def _split(
    name: str, picture: Image.Image | None, lines: list[_Line], *, page: int, left: int
) -> Iterator[_Block]:
    """Yield the whole card if it fits on a page, else its parts; the first fills the page."""
    whole = _Block(picture, tuple(lines))
    if whole.height <= page:
        yield whole
        return
    again = [
        _line([(0, text, True)], _NAME_SIZE)
        for text in wrap(f"{_clean(name)} (continued)", _NAME_SIZE, TEXT_WIDTH, bold=True)
    ][:4]
    room = left if left >= page // 2 else page
    part: list[_Line] = []
    taken = 0
    for line in lines:
        if taken + line.height > room:
            yield _Block(picture, tuple(part))
            part, taken, room = list(again), _height(again), page
        part.append(line)
        taken += line.height
    yield _Block(picture, tuple(part))


def _page(blocks: Sequence[_Block]) -> Image.Image:
    height = 2 * MARGIN + sum(block.height for block in blocks) + GAP * (len(blocks) - 1)
    page = Image.new("RGB", (PAGE_WIDTH, height), _PAPER)
    draw = ImageDraw.Draw(page)
    y = MARGIN
    for block in blocks:
        if y > MARGIN:
            draw.line((MARGIN, y - GAP // 2, PAGE_WIDTH - MARGIN - 1, y - GAP // 2), fill=_RULE)
        if block.picture:
            x = MARGIN + (PICTURE_WIDTH - block.picture.width) // 2
            page.paste(block.picture, (x, y))
            right, bottom = x + block.picture.width - 1, y + block.picture.height - 1
            draw.rectangle((x, y, right, bottom), outline=_RULE)
        line_y = y
        for line in block.lines:
            page.paste(_strip(line), (MARGIN + PICTURE_WIDTH + GAP, line_y))
            line_y += line.height
        y += block.height + GAP
    return page


def _strip(line: _Line) -> Image.Image:
    """Draw a line on its own picture, so that no stroke leaves its column or its height."""
    strip = Image.new("RGB", (TEXT_WIDTH, line.height), _PAPER)
    draw = ImageDraw.Draw(strip)
    for x, text, bold in line.pieces:
        for part, font in fonts.runs(text, line.size, bold):
            draw.text((x, line.ascent), part, font=font, fill=_INK, anchor="ls")
            x += font.getlength(part)
    return strip


def _picture(image: Image.Image) -> Image.Image:
    """Scale a picture to a width of 224 px, or less if it would be too high, on white."""
    scale = min(PICTURE_WIDTH / image.width, PICTURE_HEIGHT / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return to_rgb(image).resize(size, Image.Resampling.LANCZOS)
