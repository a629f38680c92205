"""Where everything in a drawing of a neighbourhood stands: a tree that grows to both sides.

The entity stands in the middle. What it leads to stands in a column on each side, grouped by
relation, with the relation's name between the two; what that leads to, in a column further out.
Each branch has a height of its own, so that nothing can come to lie on anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from ku_rag.graph.lettering import clean, width, wrap
from ku_rag.graph.model import Entity, Step
from ku_rag.graph.neighbourhood import Node, way

NAME, NOTE, RELATION = 13.0, 10.5, 11.5
"""Sizes of letters, in pixels."""

_CENTRE = 16.0
_NAME_ROOM, _RELATION_ROOM, _CENTRE_ROOM = 190.0, 116.0, 220.0
LEADING = 1.28
"""Height of a line, in sizes of its letters."""
_PAD = (9.0, 5.0)
_NARROW = (5.0, 2.0)
_IN, _OUT = 34.0, 34.0
"""Pixels from an entity to the names of its relations, and from these to the next entities."""
_APART, _GROUPS_APART = 7.0, 14.0
_MOST_RELATIONS = 4


@dataclass(slots=True)
class Box:
    """A rectangle with text: x and y of its upper left corner, in pixels."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        """Y of its middle."""
        return self.y + self.height / 2

    def edge(self, side: int) -> float:
        """X of its right (1) or left (-1) edge."""
        return self.x + self.width if side > 0 else self.x

    def covers(self, x: float, y: float) -> bool:
        """Whether a point lies on it."""
        return self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height

    def touches(self, other: Box, apart: float = 0.0) -> bool:
        """Whether less than `apart` pixels lie between the two."""
        return (
            self.x < other.x + other.width + apart
            and other.x < self.x + self.width + apart
            and self.y < other.y + other.height + apart
            and other.y < self.y + self.height + apart
        )


@dataclass(slots=True)
class Line:
    """A line of text in a box."""

    text: str
    size: float
    bold: bool = False
    note: bool = False


@dataclass(slots=True)
class Label:
    """Lines of text, the box that holds them, and what they say in full."""

    lines: list[Line]
    full: str
    box: Box


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line of a group: does its relation leave what the group hangs on, does it reach that?"""

    leaves: bool
    comes: bool


@dataclass(slots=True)
class Group:
    """Entities that stand in the same relations to another; none: relations to itself."""

    label: Label
    strokes: list[Stroke]
    twigs: list[Twig] = field(default_factory=list)

    @property
    def height(self) -> float:
        """Pixels that it takes."""
        return max(self.label.box.height, _stacked([t.height for t in self.twigs], _APART))


@dataclass(slots=True)
class Twig:
    """An entity with what hangs on it; `side` is 1 right, -1 left, 0 in the middle."""

    entity: Entity
    label: Label
    groups: list[Group]
    side: int = 0
    depth: int = 0

    @property
    def height(self) -> float:
        """Pixels that it takes."""
        return max(self.label.box.height, _stacked([g.height for g in self.groups], _GROUPS_APART))


def _stacked(heights: Sequence[float], apart: float) -> float:
    return sum(heights) + apart * max(len(heights) - 1, 0)


# ---- what is written ---------------------------------------------------------------------------


def label(lines: list[Line], full: str, pad: tuple[float, float] = _PAD) -> Label:
    """Lines in a box that has room for them."""
    wide = max(width(line.text, line.size, bold=line.bold) for line in lines)
    high = sum(line.size * LEADING for line in lines)
    return Label(lines, full, Box(wide + 2 * pad[0], high + 2 * pad[1]))


def relation_label(relations: Sequence[str], full: str = "", *, more: int = 0) -> Label:
    """Names of relations, each on lines of its own.

    Args:
        relations: the names.
        full: what is said in full, if not these.
        more: entities in these relations that are not drawn.
    """
    shown = [clean(one) for one in relations[:_MOST_RELATIONS]]
    if len(relations) > _MOST_RELATIONS:
        shown.append(f"and {len(relations) - _MOST_RELATIONS:,} relations more")
    lines = [
        Line(line, RELATION) for one in shown for line in wrap(one or "—", RELATION, _RELATION_ROOM)
    ]
    if more:
        lines.append(Line(f"+ {more:,} more", NOTE, note=True))
    return label(lines, full or "\n".join(relations), _NARROW)


def twig(node: Node) -> Twig:
    """A node with all that hangs on it, nothing placed yet."""
    return Twig(node.entity, _name(node), [*_groups(node), *_loops(node)])


def _name(node: Node) -> Label:
    entity, middle = node.entity, not node.steps
    size, room = (_CENTRE, _CENTRE_ROOM) if middle else (NAME, _NAME_ROOM)
    shown = clean(entity.name) or "(no name)"
    lines = [Line(line, size, bold=middle) for line in wrap(shown, size, room, bold=middle)]
    notes = _notes(node.steps)
    if notes:
        lines += [Line(one, NOTE, note=True) for one in wrap(clean(notes), NOTE, room, most=1)]
    said = [entity.name, f"({entity.kind})" if entity.kind else "", notes and f"— {notes}"]
    return label(lines, " ".join(filter(None, said)))


def _notes(steps: Sequence[Step]) -> str:
    notes = (step.notes.strip().removeprefix("(").removesuffix(")") for step in steps)
    return " / ".join(dict.fromkeys(filter(None, notes)))


def _groups(node: Node) -> list[Group]:
    found: dict[tuple[tuple[str, int, int], ...], list[Node]] = {}
    for inner in node.nodes:
        ways = Counter(way(step, node.entity) for step in inner.steps)
        names = dict.fromkeys(relation for relation, _ in ways)
        key = tuple((name, ways[name, True], ways[name, False]) for name in names)
        found.setdefault(key, []).append(inner)
    left = dict(node.left_out)
    groups = []
    for key, inner_nodes in found.items():
        shown, more = [], 0
        for name, leaving, coming in key:
            more += left.pop((name, bool(leaving)), 0)
            times = max(leaving, coming)
            shown.append(f"{name} ×{times}" if times > 1 else name)
        strokes = [Stroke(leaving > 0, coming > 0) for _, leaving, coming in key]
        inner_twigs = [twig(one) for one in inner_nodes]
        groups.append(Group(relation_label(shown, more=more), strokes, inner_twigs))
    return groups


def _loops(node: Node) -> list[Group]:
    found: dict[str, list[Step]] = {}
    for step in node.loops:
        found.setdefault(step.relation, []).append(step)
    return [
        Group(
            relation_label([f"{relation} (itself)"], "\n".join(map(_in_full, steps))),
            [Stroke(leaves=True, comes=False), Stroke(leaves=False, comes=True)],
        )
        for relation, steps in found.items()
    ]


def _in_full(step: Step) -> str:
    return f"{step.head.name} {step.text}"


# ---- where it stands ---------------------------------------------------------------------------


def place(root: Twig) -> None:
    """Give every box its place; the middle of the root is at (0, 0)."""
    box = root.label.box
    box.x, box.y = -box.width / 2, -box.height / 2
    right, left = _halves(root.groups)
    root.groups = [*right, *left]
    for side, groups in ((1, right), (-1, left)):
        columns = _columns(groups, box.width / 2)
        _stack(groups, side, 1, columns, 0.0)
        # Then again where the relations stand around the middle.
        _stack(groups, side, 1, columns, -_between([group.label for group in groups]))


def _halves(groups: Sequence[Group]) -> tuple[list[Group], list[Group]]:
    """The groups of each side, about equally high; the one in the middle is divided."""
    heights = [group.height + _GROUPS_APART for group in groups]
    half = sum(heights) / 2
    right: list[Group] = []
    for at, (group, upto) in enumerate(zip(groups, accumulate(heights), strict=True)):
        if upto <= half:
            right.append(group)
            continue
        first, second = _divided(group, half - (upto - heights[at]))
        return [*right, *first], [*second, *groups[at + 1 :]]
    return right, []


def _divided(group: Group, room: float) -> tuple[list[Group], list[Group]]:
    """A group in two, the first of about `room` pixels; small ones stay whole."""
    filled = list(accumulate(twig.height + _APART for twig in group.twigs))
    cut = sum(height <= room for height in filled)
    if len(group.twigs) >= 6 and 2 <= cut <= len(group.twigs) - 2:
        # What is not drawn is told once.
        again = label(
            [line for line in group.label.lines if not line.note], group.label.full, _NARROW
        )
        return (
            [Group(group.label, group.strokes, group.twigs[:cut])],
            [Group(again, group.strokes, group.twigs[cut:])],
        )
    return ([group], []) if room > group.height / 2 else ([], [group])


def _columns(groups: Sequence[Group], start: float) -> list[tuple[float, float, float, float]]:
    """For each distance from the root: x and width of relations, x and width of entities."""
    columns = []
    while groups:
        twigs = [twig for group in groups for twig in group.twigs]
        relations = max(group.label.box.width for group in groups)
        entities = max((twig.label.box.width for twig in twigs), default=0.0)
        columns.append((start + _IN, relations, start + _IN + relations + _OUT, entities))
        start += _IN + relations + _OUT + entities
        groups = [group for twig in twigs for group in twig.groups]
    return columns


def _stack(
    groups: Sequence[Group],
    side: int,
    depth: int,
    columns: Sequence[tuple[float, float, float, float]],
    top: float,
) -> None:
    """Place groups one below the other, from `top` down."""
    for group in groups:
        x, wide, beyond, wider = columns[depth - 1]
        box = group.label.box
        box.x = x + (wide - box.width) / 2 if side > 0 else -x - (wide + box.width) / 2
        inner = _stacked([twig.height for twig in group.twigs], _APART)
        at = top + (group.height - inner) / 2
        for twig in group.twigs:
            twig.side, twig.depth = side, depth
            own = twig.label.box
            # One width for a whole column: lines across it then start where they can be seen.
            own.width = wider
            own.x = beyond if side > 0 else -beyond - wider
            below = _stacked([g.height for g in twig.groups], _GROUPS_APART)
            _stack(twig.groups, side, depth + 1, columns, at + (twig.height - below) / 2)
            own.y = _centred(own, [inner.label for inner in twig.groups], at, twig.height)
            at += twig.height + _APART
        box.y = _centred(box, [twig.label for twig in group.twigs], top, group.height)
        top += group.height + _GROUPS_APART


def _centred(box: Box, others: Sequence[Label], top: float, height: float) -> float:
    """Where a box stands in the middle of others, or of its room when there are none."""
    middle = _between(others) if others else top + height / 2
    return min(max(middle - box.height / 2, top), top + height - box.height)


def _between(labels: Sequence[Label]) -> float:
    return (labels[0].box.middle + labels[-1].box.middle) / 2 if labels else 0.0
