"""Positions of the boxes of a drawing, in columns on both sides of the middle one.

Every box has rows of its own, so boxes and names of relations never overlap.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from ku_rag.graph.model import Entity, Step

NAME, NOTE = 13.0, 10.5
"""Font sizes in pixels."""
LEADING, ROW = 1.28, 17.0
"""Height of a line in font sizes; pixels between two relations of the same two entities."""
_PAD, _GAP, _FORK = 9.0, 8.0, 72.0


def clean(text: str) -> str:
    """Return a text as one line without control characters and piles of combining marks."""
    plain = "".join(c for c in " ".join(text.split()) if unicodedata.category(c)[0] != "C")
    return " ".join(re.sub("([\u0300-\u036f]{2})[\u0300-\u036f]+", r"\1", plain).split())


def text_width(text: str, size: float) -> float:
    """Return an upper bound of a text's width in pixels, in the usual sans-serif fonts."""
    return sum(map(_em, text)) * size


def _em(char: str) -> float:
    base = unicodedata.normalize("NFD", char)[0]
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0.0
    if base in "iljftrI.,;:'!()[]/\\ ·":
        return 0.42
    if base.isascii() and base not in "mMwW@%&+=<>~#":
        return 0.86 if base.isupper() else 0.68
    return 1.2 if base < "\u0600" or unicodedata.east_asian_width(base) in "WF" else 1.5


def wrap(text: str, most: int = 1, length: int = 26) -> list[str]:
    """Break a text into at most `most` lines of `length` characters, half as many of CJK text."""
    wide = any(unicodedata.east_asian_width(char) in "WF" for char in text)
    length //= 1 + wide
    lines = textwrap.wrap(clean(text), length) or ["—"]
    return [*lines[: most - 1], lines[most - 1][: length - 1] + "…"] if lines[most:] else lines


def merge(steps: Iterable[Step]) -> list[list[Step]]:
    """Group relations that say the same of two entities in both directions: one line shows both."""
    groups: dict[tuple[frozenset[int], str, str], list[Step]] = {}
    for step in steps:
        key = frozenset((step.head.row, step.tail.row)), step.relation, step.notes
        groups.setdefault(key, []).append(step)
    return [*groups.values()]


@dataclass(slots=True)
class Box:
    """An entity in a drawing.

    Args:
        lines: its name and notes, with font sizes.
        column: 0 for the middle, 1 and 2 to its right, -1 and -2 to its left.
        links: boxes of the column before, and the relations to them, in both directions.
        x, y, width: left edge, middle and width in pixels.
    """

    entity: Entity
    lines: list[tuple[str, float]]
    column: int = 0
    links: list[tuple[Box, list[Step]]] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def side(self) -> int:
        """The direction of its column from the middle: 1, -1 or 0."""
        return (self.column > 0) - (self.column < 0)

    @property
    def height(self) -> float:
        """Height in pixels."""
        return sum(size for _, size in self.lines) * LEADING + _PAD

    @property
    def row_height(self) -> float:
        """Height in pixels of the box or of its links, whichever is greater."""
        return max(self.height, ROW * (len(self.links) + 0.5))

    def edge(self, side: int) -> float:
        """The x of its right (1) or left (-1) edge."""
        return self.x + self.width if side > 0 else self.x


def lay_out(boxes: Mapping[int, Box], steps: Iterable[Step], away: float = 0) -> list[list[Step]]:
    """Place boxes, by row; return the relations that do not join neighbouring columns."""
    across = []
    for group in merge(step for step in steps if step.head.row != step.tail.row):
        ends = (boxes[group[0].head.row], boxes[group[0].tail.row])
        inner, outer = sorted(ends, key=lambda box: abs(box.column))
        if outer.side and inner.column == outer.column - outer.side:
            outer.links.append((inner, group))
            notes = [(wrap(s.notes.strip(" ()"), length=32)[0], NOTE) for s in group if s.notes]
            outer.lines += notes[:3]
        else:
            across.append(group)
    columns: dict[int, list[Box]] = {}
    for box in boxes.values():
        columns.setdefault(box.column, []).append(box)
    for number in sorted(columns, key=abs):
        column, side = columns[number], columns[number][0].side
        column.sort(key=lambda box: fmean([inner.y for inner, _ in box.links] or [0.0]))
        width = max(text_width(*line) for box in column for line in box.lines) + 2 * _PAD
        groups = (group for box in column for _, group in box.links)
        names = (text_width(wrap(group[0].relation)[0], NOTE) for group in groups)
        gap = max(away, _FORK + max(names, default=0))
        start = columns[number - side][0].edge(side) + side * gap if number - side in columns else 0
        top = -sum(box.row_height + _GAP for box in column) / 2
        for box in column:
            box.width, box.x = width, start - (1 - side) / 2 * width * bool(side)
            box.y = top + (box.row_height + _GAP) / 2
            top += box.row_height + _GAP
    return across
