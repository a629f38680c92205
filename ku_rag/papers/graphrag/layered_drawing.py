"""A drawing of an evidence graph, as SVG: a column each of pictures, entities, and table rows."""

from __future__ import annotations

from ku_rag.graph.drawing import REACH, write_svg
from ku_rag.graph.drawing_layout import NAME, NOTE, Box, wrap
from ku_rag.graph.model import Entity, Step
from ku_rag.papers.graphrag.evidence_graph import EvidenceGraph, Modality

_COLUMNS: dict[Modality, int] = {"image": -1, "text": 0, "row": 1, "table": 1}
_MOST_NODES = 200


def draw_layers(graph: EvidenceGraph) -> str:
    """Draw the first 200 nodes of a graph and their edges: pictures, entities, tables and rows."""
    part = graph.part([*graph.nodes][:_MOST_NODES])
    rows = {id: n for n, id in enumerate(part.nodes)}
    entities = [Entity(rows[id], node.name, node.type) for id, node in part.nodes.items()]
    boxes = {}
    for entity, node in zip(entities, part.nodes.values(), strict=True):
        lines = [(line, NAME) for line in wrap(node.name, 2)]
        if node.description and node.modality != "text":
            lines.append((wrap(node.description, length=32)[0], NOTE))
        boxes[entity.row] = Box(entity, lines, _COLUMNS[node.modality])
    steps = [
        Step(n, entities[rows[e.source]], e.relation, entities[rows[e.target]], e.description)
        for n, e in enumerate(part.edges)
    ]
    left_out = len(graph.nodes) - len(part.nodes)
    return write_svg("Evidence graph", boxes, steps, left_out, away=REACH + 10)
