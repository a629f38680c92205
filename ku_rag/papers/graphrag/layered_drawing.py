"""A drawing of an evidence graph, as SVG: a column each of pictures, entities, and table rows."""

from __future__ import annotations

from ku_rag.graph.drawing import REACH, write_svg
from ku_rag.graph.drawing_layout import NAME, NOTE, Box, lay_out_layers, wrap
from ku_rag.graph.model import Entity, Step
from ku_rag.papers.graphrag.evidence_graph import EvidenceGraph, Modality

_COLUMNS: dict[Modality, int] = {"image": -1, "text": 0, "row": 1, "table": 1}
_MOST_NODES = 200


def draw_layers(graph: EvidenceGraph) -> str:
    """Draw the first 200 nodes of a graph and their edges: pictures, entities, tables and rows.

    Pictures, tables and rows have the beginning of their description. The SVG document is
    self-contained, and equal for equal graphs.
    """
    part = graph.part([*graph.nodes][:_MOST_NODES])
    boxes, layers = {}, dict[int, list[Box]]((n, []) for n in _COLUMNS.values())
    for n, (id, node) in enumerate(part.nodes.items()):
        lines = [(line, NAME) for line in wrap(node.name, 2)]
        if node.description and node.modality != "text":
            lines.append((wrap(node.description, length=32)[0], NOTE))
        boxes[id] = Box(Entity(n, node.name, node.type), lines=lines)
        layers[_COLUMNS[node.modality]].append(boxes[id])
    ends = [(boxes[edge.source], boxes[edge.target]) for edge in part.edges]
    steps = [
        Step(n, head.entity, edge.relation, tail.entity, edge.description)
        for n, (edge, (head, tail)) in enumerate(zip(part.edges, ends, strict=True))
    ]
    left_out = len(graph.nodes) - len(part.nodes)
    notes = {"Nodes": len(part.nodes), "Edges": len(steps), "Nodes not drawn": left_out}
    return write_svg("Evidence graph", notes, lay_out_layers(layers, ends, REACH + 10), steps)
