"""A drawing of an entity's neighbourhood, as SVG: entities are boxes, relations are arrows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from ku_rag.graph.drawing_layout import LEADING, NAME, NOTE, ROW, Box, clean, lay_out, merge, wrap
from ku_rag.graph.model import Entity, Graph, Step
from ku_rag.graph.neighbourhood import neighbourhood

_MOST_ACROSS = 80
_MARGIN, _TRUNK, LEGEND_CELL = 24.0, 16.0, 150.0
REACH = 114.0
"""Pixels that a curve between two entities of a column leaves it by, at most."""
_START = 'text-anchor="start"'
OUTLINE = 'stroke="#ffffff" stroke-width="3" paint-order="stroke"'
KINDS = (
    'fill="#dcebfb" stroke="#2f6fb3"', 'fill="#fde7cf" stroke="#b8690f"',
    'fill="#dcf3e3" stroke="#2b8a4b"', 'fill="#f8dde6" stroke="#b0385f"',
    'fill="#ebe3f8" stroke="#7048b6"', 'fill="#d9f1f2" stroke="#1f8289"',
    'fill="#f6f0c6" stroke="#8a7a10"',
)  # fmt: skip
OTHER_KIND = 'fill="#eceef0" stroke="#6e7781"'
LINES = ("#c2410c", "#1d4ed8", "#15803d", "#a21caf", "#0e7490", "#854d0e", "#be123c")
"""Colours of the most frequent relations across the tree; others are grey."""
GREY = "#57606a"

Link = Callable[[Entity], str]


def draw(
    graph: Graph,
    entity: Entity,
    *,
    hops: int = 1,
    most: int = 60,
    link: Link | None = None,
) -> str:
    """Draw an entity and the entities around it.

    Entities are drawn up to `hops` relations away, 1 or 2, and at most `most`, 1 to 200; the
    drawing says how many were left out. `link` gives the address that an entity links to. Equal
    graphs give equal, self-contained documents.
    """
    around = neighbourhood(graph, entity, hops=hops, most=most)
    across = around.across[:_MOST_ACROSS]
    in_tree = sum(len(node.steps + node.loops) for node in around.nodes)
    notes = {
        "Entities": len(around.nodes),
        "Relations": in_tree + len(across),
        "Entities not drawn": around.left_out,
        "Relations between these entities not drawn": len(around.across) - len(across),
    }
    return write_svg(entity.name, notes, lay_out(around.nodes[0]), across, link)


def write_svg(
    name: str,
    notes: Mapping[str, int],
    boxes: Sequence[Box],
    across: Sequence[Step],
    link: Link | None = None,
) -> str:
    """Write boxes, the relations to their children and relations across as an SVG document.

    Args:
        name: the title of the document.
        notes: what is counted above the drawing; zeros are left out.
        boxes: placed; their entities have distinct rows.
        across: relations between two of the boxes.
        link: see `draw`.
    """
    kinds = assign((box.entity.kind for box in boxes), KINDS)
    relations = assign((step.relation for step in across), LINES)
    title = [f"{what}: {number:,}" for what, number in notes.items() if number]
    by_row = {box.entity.row: box for box in boxes}
    lines = merge(across)
    ends = [(by_row[steps[0].head.row], by_row[steps[0].tail.row]) for steps in lines]
    turns = {head.column for head, tail in ends if head.column == tail.column}
    reaches = [REACH * (end(box.column for box in boxes) in turns) for end in (min, max)]
    left = min(box.x for box in boxes) - reaches[0] - _MARGIN
    right = max(box.edge(1) for box in boxes) + reaches[1] + _MARGIN
    least = LEGEND_CELL * max(len(kinds), len(relations), 3) + 2 * _MARGIN
    left, right = min(left, (left + right - least) / 2), max(right, (left + right + least) / 2)
    top = min(box.y - box.own_height / 2 for box in boxes) - (len(title) + 1) * ROW - _MARGIN
    bottom = max(box.y + box.own_height / 2 for box in boxes) + _MARGIN
    size = f"{right - left:.1f} {bottom + 3 * ROW - top:.1f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.1f} {top:.1f} {size}" '
        'width="{}" height="{}" role="{}" fill="#1b1f24" text-anchor="middle" '
        'font-family="DejaVu Sans, Verdana, Arial, sans-serif">'.format(
            *size.split(), "group" if link else "img"
        ),
        f"<title>{escape(clean(name))}</title>",
        f'<rect x="{left:.1f}" y="{top:.1f}" width="100%" height="100%" fill="#ffffff"/>',
    ]
    for n, line in enumerate(title, 2):
        parts.append(text_element(line, left + _MARGIN, top + n * ROW, NAME, _START))
    for n, (steps, (head, tail)) in enumerate(zip(lines, ends, strict=True)):
        parts.append(_curve(steps, head, tail, n, relations.get(steps[0].relation, GREY)))
    parts += [_relations(parent, child) for parent in boxes for child in parent.children]
    for box in boxes:
        drawn = _entity(box, kinds.get(box.entity.kind, OTHER_KIND))
        parts.append(f"<a href={quoteattr(link(box.entity))}>{drawn}</a>" if link else drawn)
    parts.append(legend(kinds, relations, left + _MARGIN, bottom + ROW))
    return "\n".join([*parts, "</svg>\n"])


def assign(names: Iterable[str], colours: Sequence[str]) -> dict[str, str]:
    """A colour for each of the most frequent names."""
    ranked = Counter(names).most_common()
    return {name: colour for (name, _), colour in zip(ranked, colours, strict=False)}


def legend(kinds: Mapping[str, str], relations: Mapping[str, str], x: float, y: float) -> str:
    """Two rows from (x, y) on: colours of kinds, colours of relations across the tree."""
    entries = [
        (kind or "no kind", n, 0, f'<rect y="-11" width="20" height="13" rx="3" {colours}/>')
        for n, (kind, colours) in enumerate(kinds.items())
    ] + [
        (name, n, 1, f'<path d="M0 -4H16" stroke="{colour}"/>{_head(22, -4, 1, colour)}')
        for n, (name, colour) in enumerate(relations.items())
    ]
    return "\n".join(
        f'<g class="legend" transform="translate({x + n * LEGEND_CELL:.1f} {y + row * 22:.1f})">'
        f"{sample}{text_element(wrap(meaning, length=15)[0], 28, 0, NOTE, _START)}</g>"
        for meaning, n, row, sample in entries
    )


def _relations(parent: Box, child: Box) -> str:
    """The relations between an entity and one beside it: a line, a name and an arrowhead each."""
    side = 1 if child.column > 0 else -1
    fork = parent.edge(side) + side * _TRUNK
    start, end = fork + side * _TRUNK / 2, child.edge(-side)
    parts = []
    groups = merge(child.steps)
    for n, steps in enumerate(groups):
        y = child.y + (n - (len(groups) - 1) / 2) * ROW
        tails = {step.tail.row for step in steps}
        parts.append(
            f'<g class="relation">{tooltip(steps)}<path d="M{parent.edge(side):.1f} {parent.y:.1f}'
            f'H{fork:.1f}V{y:.1f}H{end:.1f}" fill="none" stroke="#8b95a1"/>'
            + _head(end, y, side, GREY) * (child.entity.row in tails)
            + _head(start, y, -side, GREY) * (parent.entity.row in tails)
            + text_element(wrap(steps[0].relation)[0], (start + end) / 2, y - 3, NOTE, OUTLINE)
            + "</g>"
        )
    return "".join(parts)


def _curve(steps: Sequence[Step], head: Box, tail: Box, number: int, colour: str) -> str:
    """Relations across the tree; their number keeps curves between the same entities apart."""
    # Within a column a curve turns outwards, otherwise it starts towards the other column.
    out = 1 if (tail.column - head.column or head.column) > 0 else -1
    into = out if head.column == tail.column else -out
    down = 1 if tail.y > head.y else -1
    x0, y0 = head.edge(out), head.y + down * head.height / 4
    x1, y1 = tail.edge(into), tail.y - down * tail.height / 4
    bulge = 0.45 * abs(x1 - x0) if into != out else min(24 + 0.2 * abs(y1 - y0), 110)
    bulge += 10 * (number % 5)
    return (
        f'<g class="across">{tooltip(steps)}<path d="M{x0:.1f} {y0:.1f}'
        f'C{x0 + out * bulge:.1f} {y0:.1f} {x1 + into * bulge:.1f} {y1:.1f} {x1:.1f} {y1:.1f}" '
        f'fill="none" stroke="{colour}" stroke-width="1.3" stroke-opacity="0.75"/>'
        f"{_head(x1, y1, -into, colour)}{_head(x0, y0, -out, colour) * (len(steps) > 1)}</g>"
    )


def _entity(box: Box, colours: str) -> str:
    entity, y = box.entity, box.y - box.height / 2
    full = f"{entity.name} ({entity.kind})" if entity.kind else entity.name
    parts = [
        f'<g class="entity"><title>{escape(clean(full))}</title><rect x="{box.x:.1f}" y="{y:.1f}" '
        f'width="{box.width:.1f}" height="{box.height:.1f}" rx="5" {colours}/>'
    ]
    y = box.y - sum(size for _, size in box.lines) * LEADING / 2
    for line, size in box.lines:
        y += size * LEADING
        soft = f'fill="{GREY}"' if size == NOTE else ""
        parts.append(text_element(line, box.x + box.width / 2, y - size * 0.34, size, soft))
    return "".join(parts) + "</g>"


def _head(x: float, y: float, side: int, colour: str) -> str:
    """An arrowhead with its tip at (x, y) that points right (1) or left (-1)."""
    back = x - side * 8
    points = f"{x:.1f},{y:.1f} {back:.1f},{y - 3.8:.1f} {back:.1f},{y + 3.8:.1f}"
    return f'<polygon points="{points}" fill="{colour}"/>'


def text_element(line: str, x: float, y: float, size: float, more: str = "") -> str:
    """Return a line at (x, y) in a font size, all in pixels; `more` is further attributes."""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.1f}" {more}>{escape(line)}</text>'


def tooltip(steps: Iterable[Step]) -> str:
    """Return the title of a line: what the relations say."""
    relations = "; ".join(f"{step.head.name} {step.text}" for step in steps)
    return f"<title>{escape(clean(relations))}</title>"
