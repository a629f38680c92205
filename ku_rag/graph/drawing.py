"""A neighbourhood as an SVG picture: entities as boxes, relations as arrows with their names.

Relations across the tree are drawn as curves over it: with their names where there is room,
otherwise in a colour that the legend explains.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from ku_rag import arguments
from ku_rag.graph.curves import Course, Curve, Point, along, curves
from ku_rag.graph.drawing_layout import (
    LEADING,
    NAME,
    Box,
    Group,
    Label,
    Line,
    Twig,
    place,
    relation_label,
    twig,
)
from ku_rag.graph.lettering import FAMILY, clean, width, wrap
from ku_rag.graph.model import Entity, Graph, Step
from ku_rag.graph.neighbourhood import Neighbourhood, around

MOST = 60
"""Entities in a picture."""

_MOST_ENTITIES = 200
_MOST_ACROSS = 120
_MOST_NAMED = 3
"""Curves of one relation that bear its name; more of them have a colour in the legend."""
_MARGIN = 24.0
_LEAST_WIDTH = 460.0
_TITLE, _LEGEND = 19.0, 12.0
_SAMPLE = 26.0
_BEND = 7.0
_HEAD = (7.0, 3.6)
_APART = 5.0
_DETOURS = (0.0, -45.0, 45.0, -95.0, 95.0, -160.0, 160.0)
"""What is tried to lead a curve past boxes, in pixels."""
_Colours = tuple[str, str]
_INK, _SOFT, _LINES, _WHITE = "#1b1f24", "#57606a", "#8b95a1", "#ffffff"
_KINDS = (
    ("#dcebfb", "#2f6fb3"), ("#fde7cf", "#b8690f"), ("#dcf3e3", "#2b8a4b"), ("#f8dde6", "#b0385f"),
    ("#ebe3f8", "#7048b6"), ("#d9f1f2", "#1f8289"), ("#f6f0c6", "#8a7a10"), ("#eadfd6", "#7d5a3c"),
)  # fmt: skip
"""Fill and edge of the boxes of each kind; kinds beyond these are grey."""
_REST = ("#eceef0", "#6e7781")
_ACROSS = ("#c2410c", "#1d4ed8", "#15803d", "#a21caf", "#0e7490", "#854d0e")
_NAMED = "#6b21a8"
"""Colours of curves: by relation in the legend, full and dashed; of those that bear their names."""
_OTHERS = "other relations"


def draw(graph: Graph, entity: Entity, *, hops: int = 1, most: int = MOST) -> str:
    """Draw an entity and what lies around it.

    Args:
        graph: the graph.
        entity: the one in the middle.
        hops: how many relations away an entity may lie, 1 or 2; either way along a relation.
        most: entities that are drawn, up to 200; the picture says how many had no room.

    Returns:
        An SVG document.

    Raises:
        BadInput: `hops` or `most` is out of its range.
        Corrupt: a relation fails its checksum.
    """
    arguments.count(hops, "hops", least=1, most=2)
    arguments.count(most, "most", least=1, most=_MOST_ENTITIES)
    found = around(graph, entity, hops=hops, most=most)
    root = twig(found.root)
    place(root)
    picture = _Picture()
    picture.tree(root)
    cut = picture.across(found.across)
    return picture.document(found, hops, cut)


@dataclass(slots=True)
class _Picture:
    """What is drawn, in three layers: lines, curves across, and boxes on top of both."""

    lines: list[str] = field(default_factory=list)
    curves: list[str] = field(default_factory=list)
    boxes: list[tuple[Label, _Colours | None]] = field(default_factory=list)
    twigs: dict[int, Twig] = field(default_factory=dict)
    colours: dict[str, _Colours] = field(default_factory=dict)
    shown: dict[str, tuple[str, bool]] = field(default_factory=dict)
    reach: list[Point] = field(default_factory=list)

    # ---- the tree ------------------------------------------------------------------------------

    def tree(self, root: Twig) -> None:
        """Draw everything that hangs on the root."""
        every = list(_every(root))
        self.twigs = {one.entity.row: one for one in every}
        kinds = Counter(one.entity.kind for one in every)
        # By their number, equal ones as they come.
        for (kind, _), colours in zip(kinds.most_common(), _KINDS, strict=False):
            self.colours[kind] = colours
        for one in every:
            self.boxes.append((one.label, self.colours.get(one.entity.kind, _REST)))
            for group in one.groups:
                self._group(one, group)

    def _group(self, above: Twig, group: Group) -> None:
        self.boxes.append((group.label, None))
        box = group.label.box
        side = 1 if box.x > above.label.box.x else -1
        start = (above.label.box.edge(side), above.label.box.middle)
        for n, stroke in enumerate(group.strokes[:3]):
            shift = (n - (min(len(group.strokes), 3) - 1) / 2) * 5.0
            end = (box.edge(-side), box.middle)
            self._elbow(start, end, side, shift, back=stroke.comes, forth=False)
            for inner in group.twigs:
                to = (inner.label.box.edge(-side), inner.label.box.middle)
                self._elbow((box.edge(side), box.middle), to, side, shift, False, stroke.leaves)

    def _elbow(
        self,
        start: Point,
        end: Point,
        side: int,
        shift: float,
        back: bool,
        forth: bool,
    ) -> None:
        """A line that goes out, up or down, and out again; with heads where the relation ends.

        `back` is a head at its end that points against it: it says that the relation comes from
        what lies beyond the name that stands there.
        """
        (x0, y0), (x1, y1) = start, end
        y0, y1 = y0 + shift, y1 + shift
        down = (y1 > y0) - (y1 < y0)
        bend = min(_BEND, abs(y1 - y0) / 2)
        turn = x0 + side * 15.0 - side * shift * down
        if bend < 0.5:
            path = f"M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}"
        else:
            path = (
                f"M{_n(x0)} {_n(y0)}H{_n(turn - side * bend)}"
                f"Q{_n(turn)} {_n(y0)} {_n(turn)} {_n(y0 + down * bend)}"
                f"V{_n(y1 - down * bend)}"
                f"Q{_n(turn)} {_n(y1)} {_n(turn + side * bend)} {_n(y1)}H{_n(x1)}"
            )
        self.lines.append(f'<path d="{path}" stroke="{_LINES}"/>')
        if forth:
            self.lines.append(_head(x1, y1, side, _SOFT))
        if back:
            self.lines.append(_head(x1 - side * (_HEAD[0] + 2), y1, -side, _SOFT))

    # ---- what runs across ----------------------------------------------------------------------

    def across(self, steps: Sequence[Step]) -> int:
        """Draw relations across the tree; returns how many had no room."""
        found = curves(steps, self.twigs)
        drawn = found[:_MOST_ACROSS]
        many = Counter(curve.relation for curve in drawn)
        for curve in drawn:
            course, text = curve.course(), None
            if many[curve.relation] <= _MOST_NAMED:
                course, text = self._named(curve)
            self.reach += [along(course, n / 20) for n in range(21)]
            if text is not None:
                self.boxes.append((text, None))
                colour, dashed = _NAMED, False
            else:
                colour, dashed = self._in_legend(curve.relation)
            self._curve(curve, course, colour, dashed)
        return sum(len(curve.steps) for curve in found[_MOST_ACROSS:])

    def _named(self, curve: Curve) -> tuple[Course, Label | None]:
        """The course that crosses the fewest boxes and has a free place for the relation's name."""
        text = relation_label([curve.relation], curve.said)
        held = [one.box for one, _ in self.boxes]
        best: tuple[int, Course, Point] | None = None
        for detour in _DETOURS:
            course = curve.course(detour)
            spots = [along(course, n / 20) for n in range(2, 19)]
            crossed = sum(box.covers(x, y) for box in held for x, y in spots)
            if best is None or crossed < best[0]:
                corner = _free(text.box, course, held)
                best = best if corner is None else (crossed, course, corner)
        if best is None:
            return curve.course(), None
        text.box.x, text.box.y = best[2]
        return best[1], text

    def _in_legend(self, relation: str) -> tuple[str, bool]:
        """Colour of a relation's curves, and whether they are dashed."""
        n = len(self.shown)
        if relation in self.shown:
            return self.shown[relation]
        if n >= 2 * len(_ACROSS):
            return self.shown.setdefault(_OTHERS, (_REST[1], False))
        self.shown[relation] = (_ACROSS[n % len(_ACROSS)], n >= len(_ACROSS))
        return self.shown[relation]

    def _curve(self, curve: Curve, points: Sequence[Point], colour: str, dashed: bool) -> None:
        (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        self.curves.append(
            f'<g><title>{_text(curve.said)}</title><path d="M{_n(x0)} {_n(y0)}'
            f"C{_n(x1)} {_n(y1)} {_n(x2)} {_n(y2)} {_n(x3)} {_n(y3)}"
            f'" stroke="{colour}" stroke-opacity="0.75"{dash}/>'
            + _head(x3, y3, -1 if x2 > x3 else 1, colour)
            + (_head(x0, y0, -1 if x1 > x0 else 1, colour) if curve.both else "")
            + "</g>"
        )

    # ---- the document --------------------------------------------------------------------------

    def document(self, found: Neighbourhood, hops: int, cut: int) -> str:
        """All of it, with a title above and a legend below."""
        corners = [*self.reach]
        for one, _ in self.boxes:
            corners += [(one.box.x, one.box.y), (one.box.edge(1), one.box.y + one.box.height)]
        left, right = min(x for x, _ in corners), max(x for x, _ in corners)
        top, low = min(y for _, y in corners), max(y for _, y in corners)
        lack = max(0.0, _LEAST_WIDTH - (right - left)) / 2
        left, right = left - lack, right + lack
        above, height = self._above(found, hops, cut, left, right - left)
        top -= height + 18
        below, end = self._legend(left, right, low + 26)
        x, y = left - _MARGIN, top - _MARGIN
        wide, high = right - left + 2 * _MARGIN, end - top + 2 * _MARGIN
        name = _text(found.root.entity.name)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(wide)}" height="{_n(high)}" '
                f'viewBox="{_n(x)} {_n(y)} {_n(wide)} {_n(high)}" role="img" '
                f'font-family="{FAMILY}" fill="{_INK}">',
                f"<title>{name}</title>",
                f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}" '
                f'fill="{_WHITE}"/>',
                f'<g class="title" transform="translate(0 {_n(top)})">',
                *above,
                "</g>",
                '<g class="lines" fill="none" stroke-width="1.3">',
                *self.lines,
                "</g>",
                '<g class="across" fill="none" stroke-width="1.3">',
                *self.curves,
                "</g>",
                *self._labels(),
                '<g class="legend">',
                *below,
                "</g>",
                "</svg>\n",
            ]
        )

    def _above(
        self, found: Neighbourhood, hops: int, cut: int, left: float, wide: float
    ) -> tuple[list[str], float]:
        """The title and what there is to know, from y = 0 down; with its height."""
        entities = len(self.twigs)
        told = [
            f"{_count(entities - 1, 'entity', 'entities')} within "
            f"{_count(hops, 'relation')}, {_count(found.relations - cut, 'relation')} drawn"
        ]
        if found.left_out:
            told.append(f"{_count(found.left_out, 'more entity', 'more entities')} not drawn")
        if cut:
            told.append(f"{_count(cut, 'more relation')} among these not drawn")
        lines = [
            Line(line, _TITLE, bold=True)
            for line in wrap(clean(found.root.entity.name), _TITLE, wide, bold=True)
        ]
        lines += [Line(one, NAME) for text in told for one in wrap(text, NAME, wide)]
        drawn, y = [], 0.0
        for line in lines:
            y += line.size * 1.3
            drawn.append(_line(line, left, y, "start"))
        return drawn, y

    def _labels(self) -> Iterator[str]:
        for one, colours in self.boxes:
            box = one.box
            name, round_ = ("relation", 3) if colours is None else ("entity", 5)
            fill, edge = colours or (_WHITE, _WHITE)
            yield f'<g class="{name}"><title>{_text(one.full)}</title>'
            yield (
                f'<rect x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" '
                f'height="{_n(box.height)}" rx="{round_}" fill="{fill}" stroke="{edge}"/>'
            )
            y = box.middle - sum(line.size * LEADING for line in one.lines) / 2
            for line in one.lines:
                y += line.size * LEADING
                yield _line(line, box.x + box.width / 2, y - line.size * 0.34, "middle")
            yield "</g>"

    def _legend(self, left: float, right: float, top: float) -> tuple[list[str], float]:
        """The kinds and the colours of curves, in rows from `top` down; with where it ends."""
        kinds = Counter(one.entity.kind for one in self.twigs.values())
        entries = [(kind or "no kind", _swatch(colours)) for kind, colours in self.colours.items()]
        if others := len(kinds) - len(self.colours):
            entries.append((_count(others, "other kind"), _swatch(_REST)))
        for relation, (colour, dashed) in self.shown.items():
            dash = ' stroke-dasharray="5 3"' if dashed else ""
            sample = f'<path d="M0 -4H14" stroke="{colour}" stroke-width="2"{dash}/>'
            entries.append((relation, sample + _head(20, -4, 1, colour)))
        drawn, x, y = [], left, top
        for text, sample in entries:
            (shown,) = wrap(clean(text) or "—", _LEGEND, right - left - _SAMPLE, most=1)
            wide = _SAMPLE + width(shown, _LEGEND) + 22
            if x > left and x + wide - 22 > right:
                x, y = left, y + 22
            drawn.append(f'<g transform="translate({_n(x)} {_n(y)})">{sample}')
            drawn.append(_line(Line(shown, _LEGEND), _SAMPLE, 0, "start") + "</g>")
            x += wide
        return drawn, y + 6


def _free(box: Box, course: Course, held: Sequence[Box]) -> Point | None:
    """Where a box can lie on a curve and touch no other: its upper left corner."""
    for at in (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.2, 0.8):
        x, y = along(course, at)
        tried = Box(box.width, box.height, x - box.width / 2, y - box.height / 2)
        if not any(tried.touches(other, _APART) for other in held):
            return tried.x, tried.y
    return None


def _every(twig: Twig) -> Iterator[Twig]:
    yield twig
    for group in twig.groups:
        for inner in group.twigs:
            yield from _every(inner)


# ---- SVG ---------------------------------------------------------------------------------------


def _swatch(colours: _Colours) -> str:
    fill, edge = colours
    return f'<rect x="0" y="-11" width="20" height="13" rx="3" fill="{fill}" stroke="{edge}"/>'


def _line(line: Line, x: float, y: float, anchor: str) -> str:
    bold = ' font-weight="bold"' if line.bold else ""
    note = f' fill="{_SOFT}"' if line.note else ""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(line.size)}" '
        f'text-anchor="{anchor}"{bold}{note}>{_text(line.text)}</text>'
    )


def _head(x: float, y: float, side: int, colour: str) -> str:
    """The head of an arrow whose tip is at (x, y), pointing right (1) or left (-1)."""
    back = x - side * _HEAD[0]
    return (
        f'<path d="M{_n(x)} {_n(y)}L{_n(back)} {_n(y - _HEAD[1])}V{_n(y + _HEAD[1])}Z" '
        f'fill="{colour}" stroke="none"/>'
    )


def _text(text: str) -> str:
    """Text for XML, without characters that control something."""
    return escape("".join(c for c in text if c == "\n" or unicodedata.category(c)[0] != "C"))


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
