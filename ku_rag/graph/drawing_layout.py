"""Positions of the boxes in a drawing of a neighbourhood.

The root is in the middle. Its neighbours fill a column on each side, theirs a column further out.
Every subtree has rows of its own, so boxes and names of relations never overlap.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from ku_rag.graph.model import Entity, Step

NAME, NOTE = 13.0, 10.5
"""Font sizes in pixels."""
LEADING, ROW = 1.28, 17.0
"""Height of a line in font sizes; pixels between two relations of the same two entities."""
_PAD, _GAP, _FORK = 9.0, 8.0, 56.0
_SWEEPS = 5
"""How often the boxes of layers are ordered by the mean height of those that they are linked to."""


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
        steps: the relations between it and its parent, in both directions; () for the root.
        children: the entities reached from it, grouped by relation.
        loops: its relations to itself.
        lines: its name, then notes on its relations to its parent and itself; with font sizes.
        column: 0 for the root, 1 and 2 to its right, -1 and -2 to its left.
        x, y, width: left edge, middle and width in pixels.
    """

    entity: Entity
    steps: tuple[Step, ...] = ()
    children: list[Box] = field(default_factory=list)
    loops: tuple[Step, ...] = ()
    lines: list[tuple[str, float]] = field(default_factory=list)
    column: int = 0
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    @property
    def height(self) -> float:
        """Height in pixels."""
        return sum(size for _, size in self.lines) * LEADING + _PAD

    @property
    def own_height(self) -> float:
        """Height in pixels of the box or of the relations to its parent, whichever is greater."""
        return max(self.height, ROW * (len(merge(self.steps)) + 0.5))

    @property
    def span(self) -> float:
        """Height in pixels of the rows of its subtree."""
        return max(self.own_height + _GAP, sum(child.span for child in self.children))

    def edge(self, side: int) -> float:
        """The x of its right (1) or left (-1) edge."""
        return self.x + self.width if side > 0 else self.x


def lay_out(top: Box) -> list[Box]:
    """Place the boxes of a tree of entities around (0, 0), and return them, the root first."""
    _write_lines(top, 1.3 * NAME)
    right, half = 0, sum(child.span for child in top.children) / 2
    while right < len(top.children) and sum(c.span for c in top.children[:right]) < half:
        right += 1
    columns = {0: [top]}
    for side, branch in ((1, top.children[:right]), (-1, top.children[right:])):
        _stack(branch, side, -sum(child.span for child in branch) / 2)
        columns[side] = branch
        columns[2 * side] = [box for child in branch for box in child.children]
    for number, boxes in columns.items():
        width = max((text_width(*line) for box in boxes for line in box.lines), default=0)
        steps = (step for box in boxes for step in box.steps)
        names = (text_width(wrap(step.relation)[0], NOTE) for step in steps)
        away = _FORK + max(names, default=0)
        for box in boxes:
            side = (number > 0) - (number < 0)
            box.width = width + 2 * _PAD
            inner = columns[number - side][0].edge(side) + side * away if side else 0.0
            box.x = inner - (1 - side) / 2 * box.width
    return [box for boxes in columns.values() for box in boxes]


def lay_out_layers(
    layers: Mapping[int, Sequence[Box]], links: Sequence[tuple[Box, Box]], away: float
) -> list[Box]:
    """Place layers as columns from left to right, linked boxes near each other; return the boxes.

    Args:
        layers: column → boxes with their lines; curves within column 0 are on its left.
        links: pairs of boxes.
        away: pixels between two columns.
    """
    beside: dict[int, list[Box]] = {}
    for box, other in (*links, *((tail, head) for head, tail in links)):
        beside.setdefault(box.entity.row, []).append(other)
    columns, x = {n: list(layer) for n, layer in layers.items() if layer}, 0.0
    for column in columns.values():
        width = max(text_width(*line) for box in column for line in box.lines) + 2 * _PAD
        for box in column:
            box.x, box.width = x, width
        x += width + away
    for number, column in [*columns.items()] * _SWEEPS:
        near = {n: fmean(other.y for other in boxes) for n, boxes in beside.items()}
        column.sort(key=lambda box: near.get(box.entity.row, box.y))
        _stack(column, number, -sum(box.span for box in column) / 2)
    return [box for column in columns.values() for box in column]


def _write_lines(box: Box, size: float = NAME) -> None:
    notes = [step.notes.strip(" ()") for step in box.steps if step.notes]
    notes += [f"↺ {step.relation}{step.notes}" for step in box.loops]
    box.lines = [(line, size) for line in wrap(box.entity.name, 2)]
    box.lines += [(wrap(note, length=32)[0], NOTE) for note in notes[:3]]
    for child in box.children:
        _write_lines(child)


def _stack(boxes: Sequence[Box], column: int, top: float) -> None:
    for box in boxes:
        box.column, box.y = column, top + box.span / 2
        below = sum(child.span for child in box.children)
        _stack(box.children, 2 * column, box.y - below / 2)
        top += box.span
