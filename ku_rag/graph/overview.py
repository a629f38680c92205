"""A drawing of the whole graph, as SVG: entities are circles, relations are lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ku_rag import arguments, plugins
from ku_rag.graph.drawing import (
    GREY,
    KINDS,
    LEGEND_CELL,
    LINES,
    OTHER_KIND,
    OUTLINE,
    Link,
    assign,
    legend,
    text_element,
    tooltip,
)
from ku_rag.graph.drawing_layout import NOTE, ROW, clean, text_width, wrap
from ku_rag.graph.model import Entity, Graph, Path, Step

MOST = 500
"""Greatest number of entities that are drawn."""
_COUNTED, _STEPS = 200_000, 5_000
"""Relations that are counted to choose the entities; relations of an entity that are drawn."""
_SPREAD, _NARROWEST = 52.0, 340.0
"""Width of the drawing in pixels: for the square root of the number of entities, and at least."""
_MARGIN, _ROUNDS = 60.0, 150
_PATH = "#cf222e"
"""Colour of the relations of a path."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The entities of a graph with the most relations, and all relations between them."""

    entities: tuple[Entity, ...]
    steps: tuple[Step, ...]
    left_out: int

    def draw(
        self,
        *,
        paths: Sequence[Path] = (),
        marked: Collection[int] = (),
        zoom: int = 1,
        link: Link | None = None,
    ) -> str:
        """Draw the entities and their relations as an SVG document; equal graphs give equal ones.

        Args:
            paths: drawn in red.
            marked: rows of entities that have a ring.
            zoom: factor of the distances; names keep their size, so more of them have space.
            link: gives the address that an entity links to; None for no links.
        """
        followed = {step.row: step for path in paths for step in path.steps}
        steps = [step for step in self.steps if step.row not in followed] + [*followed.values()]
        degrees = Counter(end.row for step in steps for end in (step.head, step.tail))
        radii = {entity.row: 3 + min(sqrt(degrees[entity.row]), 8) for entity in self.entities}
        kinds = assign((entity.kind for entity in self.entities), KINDS)
        colours = assign((step.relation for step in steps), LINES)
        width = max(_NARROWEST, _SPREAD * sqrt(len(self.entities))) * zoom
        height = width * 0.7
        places = _place(self.entities, steps, width, height)
        across = max(width + 2 * _MARGIN, LEGEND_CELL * max(len(kinds), len(colours)) + _MARGIN)
        size = f"{across:.0f} {height + 2 * _MARGIN + 3 * ROW:.0f}"
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN} {-_MARGIN} {size}" '
            'width="{}" height="{}" role="{}" fill="#1b1f24" '
            'font-family="DejaVu Sans, Verdana, Arial, sans-serif">'.format(
                *size.split(), "group" if link else "img"
            ),
            "<title>The graph</title>",
        ]
        for step in steps:
            (x0, y0), (x1, y1) = places[step.head.row], places[step.tail.row]
            colour, wide, opacity = colours.get(step.relation, GREY), 1, 0.5
            if step.row in followed:
                colour, wide, opacity = _PATH, 3, 1
            parts.append(
                f'<g class="across">{tooltip([step])}<path stroke="{colour}" stroke-width="{wide}" '
                f'stroke-opacity="{opacity}" d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/></g>'
            )
        names = _names(self.entities, places, radii, marked)
        for entity in reversed(self.entities):
            name = clean(f"{entity.name} ({entity.kind})" if entity.kind else entity.name)
            ring = ' class="marked" stroke-width="4"' if entity.row in marked else ""
            x, y = places[entity.row]
            drawn = (
                f'<g class="entity" {kinds.get(entity.kind, OTHER_KIND)}>'
                f'<title>{escape(name)}</title><circle cx="{x:.1f}" cy="{y:.1f}" '
                f'r="{radii[entity.row]:.1f}"{ring}/></g>{names.get(entity.row, "")}'
            )
            parts.append(f"<a href={quoteattr(link(entity))}>{drawn}</a>" if link else drawn)
        parts.append(legend(kinds, colours, 0, height + _MARGIN + ROW))
        return "\n".join([*parts, "</svg>\n"])


def overview(
    graph: Graph, *, relation: str = "", include: Sequence[Entity] = (), most: int = MOST
) -> Overview:
    """Select the entities with the most relations; see `GraphView.overview`."""
    arguments.count(most, "most", least=1, most=MOST)
    rows = graph.connection.execute(
        "WITH counted AS (SELECT head, tail FROM relations WHERE tail IS NOT NULL "
        "AND (?1 = '' OR relation = ?1) LIMIT ?2), "
        "ends AS (SELECT head AS row FROM counted UNION ALL SELECT tail FROM counted) "
        "SELECT e.row, e.name, e.kind, u.id FROM ends JOIN entities e USING (row) "
        "LEFT JOIN units u ON u.row = e.unit GROUP BY e.row ORDER BY count(*) DESC, e.row",
        (relation, _COUNTED),
    ).fetchall()
    linked = dict.fromkeys([*include, *(Entity(*row) for row in rows)])
    entities = tuple(linked)[:most]
    inside = {entity.row for entity in entities}
    steps = tuple(
        step
        for entity in entities
        for step in graph.hop(entity, _STEPS)
        if step.tail.row in inside and relation in ("", step.relation)
    )
    return Overview(entities, steps, len(linked) - len(entities))


def _place(
    entities: Sequence[Entity], steps: Sequence[Step], width: float, height: float
) -> dict[int, tuple[float, float]]:
    """Return the place of each entity by row: those that are linked lie close to each other."""
    networkx = plugins.extra("serve", "networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(sorted(entity.row for entity in entities))
    graph.add_edges_from((step.head.row, step.tail.row) for step in steps)
    # Strong gravity keeps parts that no relation joins in the picture.
    layout = networkx.forceatlas2_layout(graph, max_iter=_ROUNDS, strong_gravity=True, seed=1)
    points = np.reshape([*layout.values()], (-1, 2))
    if len(points):
        points = points - points.min(0)
        points = points / np.maximum(points.max(0), 1e-9) * (width, height)
    return dict(zip(layout, points.tolist(), strict=True))


def _names(
    entities: Sequence[Entity],
    places: Mapping[int, tuple[float, float]],
    radii: Mapping[int, float],
    marked: Collection[int],
) -> dict[int, str]:
    """Return the names that have space, marked and most linked entities first, as SVG by row."""
    names: dict[int, str] = {}
    taken: list[tuple[float, float, float]] = []
    for entity in sorted(entities, key=lambda entity: entity.row not in marked):
        x, y = places[entity.row]
        name, start = wrap(entity.name, length=20)[0], x + radii[entity.row] + 3
        end = start + text_width(name, NOTE)
        is_free = all(
            end < left or right < start or abs(y - line) > NOTE for left, right, line in taken
        )
        if is_free or entity.row in marked:
            taken.append((start, end, y))
            names[entity.row] = text_element(name, start, y + NOTE / 3, NOTE, OUTLINE)
    return names
