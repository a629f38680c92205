"""Drawings of evidence graphs: columns without overlap."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import pytest

from ku_rag.papers.graphrag.evidence_graph import EvidenceEdge, EvidenceGraph, EvidenceNode
from ku_rag.papers.graphrag.layered_drawing import draw_layers
from tests.graph.test_drawing import SVG, entities, groups, overlap, texts, view, within

LAYERS = ("image", "text", "row", "table")


def graph_of(count, modalities=LAYERS):
    """Return a graph of `count` nodes, each with an edge to three others."""
    nodes = [
        EvidenceNode(
            f"{n}",
            f"{modality} <{n}> & a name of many words",
            modality,
            modality,
            f"What it tells, number {n}, with more words than a box has room for.",
        )
        for n in range(count)
        for modality in [modalities[n % len(modalities)]]
    ]
    edges = [
        EvidenceEdge(f"{n}", f"leads to {step}", f"{(n + step) % count}")
        for n in range(count)
        for step in (1, 4, 7)
        if step % count
    ]
    return EvidenceGraph().joined(nodes, edges)


@pytest.mark.parametrize("modalities", [LAYERS, ("text",), ("text", "text", "text", "image")])
@pytest.mark.parametrize("count", [1, 60])
def test_nothing_overlaps_or_leaves_the_picture(modalities, count):
    root = ElementTree.fromstring(draw_layers(graph_of(count, modalities)))
    picture, boxes = view(root), list(entities(root).values())
    assert len(boxes) == count
    assert [box for box in boxes if not within(box, picture)] == []
    assert [pair for pair in combinations(boxes, 2) if overlap(*pair)] == []
    assert [text for text, box in texts(root) if not within(box, picture)] == []


def test_pictures_entities_and_rows_are_columns_and_linked_nodes_are_near():
    root = ElementTree.fromstring(draw_layers(graph_of(60)))
    lefts = {(box[0], name.split()[0]) for name, box in entities(root).items()}
    assert [modality for _, modality in sorted(lefts)] == ["image", "text", "row", "table"]
    assert len({left for left, _ in lefts}) == 3
    nodes = [EvidenceNode(f"t{n}", f"text{n}", "word", "text") for n in range(9)]
    nodes += [EvidenceNode(f"i{n}", f"image{n}", "image", "image") for n in range(9)]
    edges = [EvidenceEdge(f"i{n}", "shows", f"t{8 - n}") for n in range(9)]
    drawn = entities(ElementTree.fromstring(draw_layers(EvidenceGraph().joined(nodes, edges))))
    assert [drawn[f"image{n}"][1] for n in range(9)] == [drawn[f"text{8 - n}"][1] for n in range(9)]


def test_a_picture_is_described_and_edges_have_a_tooltip():
    root = ElementTree.fromstring(draw_layers(graph_of(4)))
    written = [text for text, _ in texts(root)]
    assert written[:2] == ["Entities: 4", "Relations: 8"]
    assert sum(text.startswith("What it tells") for text in written) == 3
    titles = [group.find(f"{SVG}title").text for group in groups(root, "relation")]
    assert "image <0> & a name of many words —leads to 1→ text <1> & a name of many words" in titles


def test_further_nodes_are_counted():
    root = ElementTree.fromstring(draw_layers(graph_of(260)))
    assert len(entities(root)) == 200
    assert "Entities not drawn: 60" in [text for text, _ in texts(root)]
