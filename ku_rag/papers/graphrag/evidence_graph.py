"""Nodes, edges and graphs of evidence, and their GraphML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any, Literal
from xml.etree import ElementTree

from ku_rag.mllm.base import remove_control_characters
from ku_rag.text.tokens import name_key
from ku_rag.types import INTERNAL, Serializable, TableRow

Modality = Literal["text", "image", "table", "row"]

RELATED = "related_to"
"""Relation from a picture or table to the entity that its title names."""

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_ENDS = ("id", "source", "target")


def text_id(name: str) -> str:
    """Return the id of the node of an entity that texts name."""
    return f"text:{name_key(name)}"


@dataclass(frozen=True, slots=True)
class PatternGraph(Serializable):
    """Types of entities, relations (type, relation, type) and keywords: the paper's G1."""

    types: tuple[str, ...]
    relations: tuple[tuple[str, str, str], ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvidenceNode(Serializable):
    """An entity "text:KEY", picture "image:ROW", table "table:SOURCE.PLACE" or row "row:…"."""

    id: str
    name: str
    type: str
    modality: Modality
    description: str = ""
    chunks: tuple[int, ...] = ()
    image: int | None = None
    titles: tuple[str, ...] = field(default=(), metadata=INTERNAL)
    file: File | None = field(default=None, metadata=INTERNAL)
    rows: tuple[tuple[int, TableRow], ...] = field(default=(), metadata=INTERNAL)

    def with_description(self, text: str) -> EvidenceNode:
        """Return the node with a text added to its description, unless one holds the other."""
        if text in self.description:
            return self
        before = "" if self.description in text else self.description
        return replace(self, description=f"{before} {text}".strip())

    @property
    def text(self) -> str:
        """Name, type and description in one line."""
        return f"{self.name} ({self.type}): {self.description}"


@dataclass(frozen=True, slots=True)
class EvidenceEdge(Serializable):
    """A directed relation of two nodes, by id, and what the text of a chunk says of it."""

    source: str
    relation: str
    target: str
    description: str = ""
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class EvidenceGraph(Serializable):
    """A graph of evidence: nodes by id, and edges, each of which has both ends."""

    nodes: Mapping[str, EvidenceNode] = field(default_factory=dict)
    edges: tuple[EvidenceEdge, ...] = ()

    def joined(
        self, nodes: Iterable[EvidenceNode] = (), edges: Iterable[EvidenceEdge] = ()
    ) -> EvidenceGraph:
        """Return the graph with more nodes, merged by id, and more edges that have both ends."""
        every = dict(self.nodes)
        for node in nodes:
            merged = every.get(node.id, node).with_description(node.description)
            chunks = tuple(dict.fromkeys((*merged.chunks, *node.chunks)))
            every[node.id] = replace(merged, chunks=chunks)
        distinct = dict.fromkeys((*self.edges, *edges))
        kept = (edge for edge in distinct if edge.source in every and edge.target in every)
        return EvidenceGraph(every, tuple(kept))

    def part(self, ids: Iterable[str]) -> EvidenceGraph:
        """Return the nodes with some ids, and the edges between them."""
        return EvidenceGraph().joined(
            [self.nodes[id] for id in dict.fromkeys(ids) if id in self.nodes], self.edges
        )

    def expanded(self, around: EvidenceGraph) -> EvidenceGraph:
        """Return the graph with all edges of another at its nodes, and their ends (eq. 8)."""
        at = [e for e in around.edges if e.source in self.nodes or e.target in self.nodes]
        ends = dict.fromkeys(end for edge in at for end in (edge.source, edge.target))
        return self.joined([around.nodes[end] for end in ends], at)

    def of(self, modality: Modality) -> list[EvidenceNode]:
        """Return the nodes of a modality."""
        return [node for node in self.nodes.values() if node.modality == modality]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of "nodes" and "edges"."""
        return {"nodes": len(self.nodes), "edges": len(self.edges)}

    def lines(self) -> Iterator[dict[str, Any]]:
        """Return an object for each node and edge, as prompts show them: names, no ids."""
        for node in self.nodes.values():
            fields = {"node": node.name, "type": node.type, "description": node.description}
            yield {name: value for name, value in fields.items() if value}
        for edge in self.edges:
            ends = [self.nodes[edge.source].name, edge.relation, self.nodes[edge.target].name]
            yield {"edge": ends} | ({"description": edge.description} if edge.description else {})

    def edge_text(self, edge: EvidenceEdge) -> str:
        """Return an edge in one line: `Colton Dixon —sings→ Piano Man (in 2012)`."""
        source, target = self.nodes[edge.source].name, self.nodes[edge.target].name
        notes = f" ({edge.description})" if edge.description else ""
        return f"{source} —{edge.relation}→ {target}{notes}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the graph: lists of "nodes" and "edges"."""
        fields = Serializable.to_dict(self)
        return {"nodes": [*fields["nodes"].values()], "edges": fields["edges"]}

    def graphml(self) -> str:
        """Return the graph as a GraphML document."""
        root = ElementTree.Element("graphml", xmlns=_NAMESPACE)
        graph = ElementTree.Element("graph", edgedefault="directed")
        keys = dict[str, None]()
        items = [(kind, item) for kind, of in self.to_dict().items() for item in of]
        for kind, fields in ((kind.removesuffix("s"), item) for kind, item in items):
            ends = {name: fields.pop(name) for name in _ENDS if name in fields}
            element = ElementTree.SubElement(graph, kind, ends)
            for name, value in fields.items():
                keys[f"{kind}_{name}"] = None
                text = value if isinstance(value, str) else json.dumps(value)
                data = ElementTree.SubElement(element, "data", key=f"{kind}_{name}")
                data.text = remove_control_characters(text)
        for key in keys:
            kind, name = key.split("_")
            declared = {"id": key, "for": kind, "attr.name": name, "attr.type": "string"}
            ElementTree.SubElement(root, "key", declared)
        root.append(graph)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)
