"""Relations that run across the tree of a drawing: curves from box to box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ku_rag.graph.drawing_layout import Twig
from ku_rag.graph.model import Step

Point = tuple[float, float]
Course = tuple[Point, Point, Point, Point]
"""Start, two control points and end of a cubic Bézier curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Relations of one name between two entities that are drawn as one curve.

    Args:
        head: where the first of them starts.
        tail: where it ends.
        steps: the relations.
        both: whether there are some in each direction.
        number: how many curves between the two came before.
    """

    head: Twig
    tail: Twig
    steps: tuple[Step, ...]
    both: bool
    number: int

    @property
    def said(self) -> str:
        """All of it in words, a relation a line."""
        return "\n".join(f"{step.head.name} {step.text}" for step in self.steps)

    @property
    def relation(self) -> str:
        """Its name."""
        return self.steps[0].relation

    def course(self, detour: float = 0.0) -> Course:
        """How it runs.

        Args:
            detour: pixels that it makes way: down, up when negative, or out along a column.
        """
        one, other = self.head, self.tail
        start, end = _sides(one, other)
        if one.side == other.side and one.depth == other.depth:
            (x0, y0), (x1, y1) = _port(one, start, other), _port(other, end, one)
            bulge, lift = min(24 + 0.2 * abs(y1 - y0), 110) + abs(detour), 0.0
        else:
            (x0, y0), (x1, y1) = _port(one, start, other, detour), _port(other, end, one, detour)
            bulge, lift = max(40.0, 0.45 * abs(x1 - x0)), detour
        bulge += 9 * self.number
        return (x0, y0), (x0 + start * bulge, y0 + lift), (x1 + end * bulge, y1 + lift), (x1, y1)


def _sides(one: Twig, other: Twig) -> tuple[int, int]:
    """From which side of each of two boxes a curve between them goes."""
    if one.depth == 0:
        return other.side, -other.side
    if other.depth == 0:
        return -one.side, one.side
    if one.side != other.side:
        return -one.side, -other.side
    if one.depth == other.depth:
        return one.side, one.side
    return (one.side, -one.side) if one.depth < other.depth else (-one.side, one.side)


def _port(twig: Twig, side: int, other: Twig, detour: float = 0.0) -> Point:
    """Where a curve leaves a box: above or below the lines of the tree, which end at its middle."""
    box = twig.label.box
    down = detour or other.label.box.middle - box.middle
    return box.edge(side), box.middle + (box.height / 4 if down > 0 else -box.height / 4)


def curves(steps: Sequence[Step], twigs: Mapping[int, Twig]) -> list[Curve]:
    """The curves of some relations: those of one name between the same two entities are one.

    Args:
        steps: relations.
        twigs: row of an entity → where it stands.
    """
    found: dict[tuple[str, int, int], list[Step]] = {}
    for step in steps:
        low, high = sorted((step.head.row, step.tail.row))
        found.setdefault((step.relation, low, high), []).append(step)
    between: Counter[tuple[int, int]] = Counter()
    made = []
    for (_, low, high), same in found.items():
        both = len({step.head.row for step in same}) > 1
        head, tail = twigs[same[0].head.row], twigs[same[0].tail.row]
        made.append(Curve(head, tail, tuple(same), both, between[low, high]))
        between[low, high] += 1
    return made


def along(course: Course, at: float) -> Point:
    """The point of a curve at 0 (start) to 1 (end)."""
    parts = ((1 - at) ** 3, 3 * at * (1 - at) ** 2, 3 * at**2 * (1 - at), at**3)
    x = sum(part * point[0] for part, point in zip(parts, course, strict=True))
    y = sum(part * point[1] for part, point in zip(parts, course, strict=True))
    return x, y
