"""A drawing of an entity's neighbourhood, as SVG: entities are boxes, relations are arrows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from ku_rag.graph.drawing_layout import LEADING, NAME, NOTE, ROW, Box, clean, lay_out, wrap
from ku_rag.graph.model import Entity, Graph, Step
from ku_rag.graph.neighbourhood import neighbourhood

_MOST_ACROSS = 80
_MARGIN, _BEND, LEGEND_CELL = 24.0, 40.0, 150.0
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
    graph: Graph, entity: Entity, *, hops: int = 1, most: int = 60, link: Link | None = None
) -> str:
    """Draw an entity and those around it; equal graphs give equal, self-contained documents."""
    around = neighbourhood(graph, entity, hops=hops, most=most)
    parents, columns, done = around.parents, {entity.row: 0}, 0
    sizes = {row: 1 for row, parent in parents.items() if parent == entity.row}
    for row, parent in parents.items():
        if row not in sizes:
            sizes[parent] += 1
    for other in around.entities[1:]:  # the first half of what is around is on the right
        if other.row in sizes:
            columns[other.row] = 1 if 2 * done < sum(sizes.values()) else -1
            done += sizes[other.row]
        else:
            columns[other.row] = 2 * columns[parents[other.row]]
    boxes = {}
    for other in around.entities:
        size = NAME if other.row in parents else 1.3 * NAME
        loops = [step for step in around.steps if step.head.row == other.row == step.tail.row]
        lines = [(line, size) for line in wrap(other.name, 2)]
        lines += [(wrap(f"↺ {s.relation}{s.notes}", length=32)[0], NOTE) for s in loops[:3]]
        boxes[other.row] = Box(other, lines, columns[other.row])
    return write_svg(entity.name, boxes, around.steps, around.left_out, link)


def write_svg(
    name: str,
    boxes: Mapping[int, Box],
    steps: Sequence[Step],
    left_out: int,
    link: Link | None = None,
    away: float = 0,
) -> str:
    """Place boxes, by row of the entity, and write them and their relations as an SVG document."""
    across = lay_out(boxes, steps, away)
    across, hidden = across[:_MOST_ACROSS], sum(map(len, across[_MOST_ACROSS:]))
    notes = {
        "Entities": len(boxes),
        "Relations": len(steps) - hidden,
        "Entities not drawn": left_out,
        "Relations between these entities not drawn": hidden,
    }
    placed = boxes.values()
    kinds = assign((box.entity.kind for box in placed), KINDS)
    relations = assign((step.relation for group in across for step in group), LINES)
    title = [f"{what}: {number:,}" for what, number in notes.items() if number]
    ends = [(boxes[group[0].head.row], boxes[group[0].tail.row]) for group in across]
    turns = {head.column for head, tail in ends if head.column == tail.column}
    reaches = [REACH * (end(box.column for box in placed) in turns) for end in (min, max)]
    left = min(box.x for box in placed) - reaches[0] - _MARGIN
    right = max(box.edge(1) for box in placed) + reaches[1] + _MARGIN
    least = LEGEND_CELL * max(len(kinds), len(relations), 3) + 2 * _MARGIN
    left, right = min(left, (left + right - least) / 2), max(right, (left + right + least) / 2)
    top = min(box.y - box.row_height / 2 for box in placed) - (len(title) + 1) * ROW - _MARGIN
    bottom = max(box.y + box.row_height / 2 for box in placed) + _MARGIN
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
    for n, (group, (head, tail)) in enumerate(zip(across, ends, strict=True)):
        parts.append(_arc(group, head, tail, n, relations.get(group[0].relation, GREY)))
    parts += [_links(box) for box in placed]
    for box in placed:
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


def _links(box: Box) -> str:
    """The relations between an entity and those of the column before: line, name, arrowheads."""
    side, end, parts = box.side, box.edge(-box.side), []
    for n, (inner, group) in enumerate(box.links):
        y, begin = box.y + (n - (len(box.links) - 1) / 2) * ROW, inner.edge(side)
        middle, start = begin + side * _BEND / 2, begin + side * _BEND
        tails = {step.tail.row for step in group}
        parts.append(
            f'<g class="relation">{tooltip(group)}<path d="M{begin:.1f} {inner.y:.1f}C{middle:.1f} '
            f'{inner.y:.1f} {middle:.1f} {y:.1f} {start:.1f} {y:.1f}H{end:.1f}" fill="none" '
            'stroke="#8b95a1"/>'
            + _head(end, y, side, GREY) * (box.entity.row in tails)
            + _head(start, y, -side, GREY) * (inner.entity.row in tails)
            + text_element(wrap(group[0].relation)[0], (start + end) / 2, y - 3, NOTE, OUTLINE)
            + "</g>"
        )
    return "".join(parts)


def _arc(steps: Sequence[Step], head: Box, tail: Box, number: int, colour: str) -> str:
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
