"""GraphML: as `ku graph export` writes it, and as networkx, Gephi and yEd do.

Attributes are identified by their names in any case ("name", "label", "kind", "relation" …). A node
with the attribute "declared", false, is an entity that has only a name. An edge of an undirected
graph becomes two relations. Document types are refused: XML entities can fill the memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.graph_cells import parse_cell
from ku_rag.ingest.readers.graph_records import ENTITY_FIELDS, GraphPart
from ku_rag.ingest.readers.parser import Parsing

DEFAULT_RELATION = "related to"
"""The relation of an edge without one."""

_NODE_FIELDS = {
    **{field: field for field in sorted(ENTITY_FIELDS)},
    "name": "entity",
    "label": "entity",
    "type": "kind",
    "category": "kind",
    "alias": "aliases",
    "description": "text",
    "image": "images",
    "video": "videos",
}
_EDGE_FIELDS = {
    "relation": "relation",
    "edge label": "relation",
    "label": "relation",
    "predicate": "relation",
    "type": "relation",
    "name": "relation",
    "information": "information",
    "description": "information",
    "condition": "condition",
}
"""Fields by the names of attributes. The first attribute of a field that is present counts."""
_LAYOUT = frozenset({"x", "y", "z", "r", "g", "b", "size", "nodegraphics"})


class _Key(NamedTuple):
    """A declaration of an attribute: its name, the elements that have it, its default."""

    name: str
    domain: str = "all"
    default: str | None = None


_Edge = tuple[str, str, dict[str, str]]
"""The ids of two nodes and the fields of a relation from the first to the second."""
_Nodes = dict[str, tuple[str, str | None]]
"""By id of the node: the entity's id, or its name with its kind if it has only a name."""


def read_graphml(path: Path, parsing: Parsing) -> list[GraphPart]:
    """Read a graph; nodes and edges that cannot be read are left out."""
    part = GraphPart(path, path)
    keys: dict[str, _Key] = {}
    nodes: _Nodes = {}
    edges: list[_Edge] = []
    hyperedges = 0
    for _, element in parsing.rows("graphml_elements:read_elements", path):
        parsing.advance()
        match element:
            case "key", str(key_id), *fields:
                keys[key_id] = _Key(*fields)
            case "node", str(node), data:
                _add_node(part, nodes, node, _attributes("node", data, keys))
            case "edge", str(head), str(tail), directed, data:
                relation = _relation_fields(_attributes("edge", data, keys))
                edges.append((head, tail, relation))
                if not directed:
                    edges.append((tail, head, relation))
            case _:
                hyperedges += 1
    if hyperedges:
        part.leave_out(
            path.as_posix(),
            f"{hyperedges} hyperedges join more than two nodes: write them as edges",
        )
    for edge in edges:
        _add_edge(part, nodes, edge)
    return [part]


def _add_node(part: GraphPart, nodes: _Nodes, node: str, attributes: Mapping[str, str]) -> None:
    where = f"{part.path.as_posix()}: node {node or len(nodes) + 1}"
    if node in nodes:
        part.leave_out(where, "there is another node of this id: the first is kept", unread=True)
        return
    left = {name.casefold(): (name, text) for name, text in attributes.items()}
    declared = left.pop("declared", ("", ""))[1].strip() != "false"
    data: dict[str, Any] = {}
    try:
        for name, field in _NODE_FIELDS.items():
            if name in left:
                text = left.pop(name)[1]
                data.setdefault(field, parse_cell(field, text))
    except BadInput as error:
        part.leave_out(where, str(error), unread=True)
        return
    data.setdefault("entity", node)
    if not declared:
        nodes[node] = (clean_name(data["entity"]), clean_name(data.get("kind", "")) or "entity")
        return
    if "id" not in data and clean_name(data["entity"]) in part.entities:
        data["id"] = f"{data['entity']} ({node})"
    metadata = {name: text for key, (name, text) in left.items() if key not in _LAYOUT}
    if (entity := part.add_entity(metadata | data, where)) is not None:
        nodes[node] = (entity, None)


def _attributes(
    element: str, data: Sequence[tuple[str | None, str]], keys: Mapping[str, _Key]
) -> dict[str, str]:
    """Return the attributes of a node or an edge, by name, with defaults; "label" for yEd's."""
    attributes: dict[str, str] = {}
    for key_id, text in data:
        name = "label" if key_id is None else keys.get(key_id, _Key(key_id)).name
        if text.strip():
            attributes.setdefault(name, text)
    for key in keys.values():
        if key.default is not None and key.domain in (element, "all"):
            attributes.setdefault(key.name, key.default)
    return attributes


def _relation_fields(attributes: Mapping[str, str]) -> dict[str, str]:
    by_name = {name.casefold(): text for name, text in attributes.items()}
    fields: dict[str, str] = {}
    for name, field in _EDGE_FIELDS.items():
        if clean_name(by_name.get(name, "")):
            fields.setdefault(field, by_name[name])
    fields.setdefault("relation", DEFAULT_RELATION)
    return fields


def _add_edge(part: GraphPart, nodes: _Nodes, edge: _Edge) -> None:
    where = f"{part.path.as_posix()}: edge {edge[0]!r} → {edge[1]!r}"
    for end in edge[:2]:
        if end not in nodes:
            part.leave_out(
                where, f"there is no node {end!r}, or it was left out: every edge joins two nodes"
            )
            return
    name, kind = nodes[edge[1]]
    ends = {"head": nodes[edge[0]][0], "tail": name, "tail_kind": kind}
    part.add_relation({**edge[2], **ends}, where)
