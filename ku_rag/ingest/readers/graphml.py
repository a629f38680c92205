"""GraphML: as `ku graph export` writes it, and as networkx, Gephi and yEd do.

Attributes are identified by their names in any case ("name", "label", "kind", "relation" …). A node
with the attribute "declared", false, is an entity that has only a name. An edge of an undirected
graph becomes two relations. Document types are refused: XML entities can fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DTDForbidden
from defusedxml.ElementTree import iterparse

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.graph_cells import parse_cell
from ku_rag.ingest.readers.graph_records import ENTITY_FIELDS, PROGRESS_STEP, GraphPart
from ku_rag.types import Progress

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
_LABELS = frozenset({"NodeLabel", "EdgeLabel"})


class _Key(NamedTuple):
    """A declaration of an attribute: its name, the elements that have it, its default."""

    name: str
    domain: str = "all"
    default: str | None = None


_Edge = tuple[str, str, dict[str, str]]
"""The ids of two nodes and the fields of a relation from the first to the second."""
_Nodes = dict[str, tuple[str, str | None]]
"""By id of the node: the entity's id, or its name with its kind if it has only a name."""


def read_graphml(path: Path, progress: Progress | None = None) -> GraphPart:
    """Read a graph; nodes and edges that cannot be read are left out.

    Args:
        path: Resolved; pictures and videos are relative to its folder.
        progress: Called with the number of nodes and edges read so far.

    Raises:
        BadInput: The file is not XML, or has a document type.
        OSError: It cannot be read.
    """
    part = GraphPart(path, path)
    keys: dict[str, _Key] = {}
    nodes: _Nodes = {}
    edges: list[_Edge] = []
    hyperedges = 0
    for number, (element, directed) in enumerate(_elements(path), 1):
        match _tag(element):
            case "key":
                keys[element.get("id", "")] = _key(element)
            case "node":
                _add_node(part, nodes, element.get("id", ""), _attributes(element, keys))
            case "edge":
                edges += _edges(element, _attributes(element, keys), directed=directed)
            case _:
                hyperedges += 1
        element.clear()
        if progress and not number % PROGRESS_STEP:
            progress(number)
    if hyperedges:
        part.leave_out(
            path.as_posix(),
            f"{hyperedges} hyperedges join more than two nodes: write them as edges",
        )
    for edge in edges:
        _add_edge(part, nodes, edge)
    return part


def _elements(path: Path) -> Iterator[tuple[Element, bool]]:
    """Yield keys, nodes, edges and hyperedges, and whether edges of their graph are directed."""
    directed = [True]
    try:
        with path.open("rb") as file:
            for event, element in iterparse(file, events=("start", "end"), forbid_dtd=True):
                tag = _tag(element)
                if tag == "graph" and event == "start":
                    directed.append(element.get("edgedefault") != "undirected")
                elif tag == "graph":
                    directed.pop()
                elif event == "end" and tag in ("key", "node", "edge", "hyperedge"):
                    yield element, directed[-1]
    except DTDForbidden as error:
        raise BadInput(
            f"{path.name} has a document type ({error.name}), whose entities are not read: remove "
            "<!DOCTYPE …>"
        ) from error
    except (ParseError, ValueError, LookupError) as error:  # the last two: of its encoding
        raise BadInput(
            f"{path.name} is no XML ({error}): repair it, or write it again as UTF-8"
        ) from error


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _key(element: Element) -> _Key:
    key_id = element.get("id", "")
    name = element.get("attr.name") or element.get("yfiles.type") or key_id
    default = next((child.text for child in element if _tag(child) == "default"), None)
    return _Key(name.strip(), element.get("for", "all"), default)


def _attributes(element: Element, keys: Mapping[str, _Key]) -> dict[str, str]:
    """Return the attributes of a node or an edge, by name, with defaults; "label" for yEd's."""
    found: dict[str, str] = {}
    for data in (child for child in element if _tag(child) == "data"):
        key_id = data.get("key", "")
        named = [(keys.get(key_id, _Key(key_id)).name, data.text)]
        named += [("label", one.text) for one in data.iter() if _tag(one) in _LABELS]
        for name, text in named:
            if text and text.strip():
                found.setdefault(name, text)
    for key in keys.values():
        if key.default is not None and key.domain in (_tag(element), "all"):
            found.setdefault(key.name, key.default)
    return found


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


def _edges(element: Element, attributes: Mapping[str, str], *, directed: bool) -> Iterator[_Edge]:
    """Yield an edge, and one in the other direction if it is undirected."""
    by_name = {name.casefold(): text for name, text in attributes.items()}
    fields: dict[str, str] = {}
    for name, field in _EDGE_FIELDS.items():
        if clean_name(by_name.get(name, "")):
            fields.setdefault(field, by_name[name])
    fields.setdefault("relation", DEFAULT_RELATION)
    head, tail = element.get("source", ""), element.get("target", "")
    yield head, tail, fields
    if element.get("directed", str(directed)).strip().casefold() not in ("true", "1"):
        yield tail, head, fields


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
