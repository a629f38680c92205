"""A graph as GraphML: our own, and what networkx, Gephi and yEd write.

Attributes are known by their names ("name", "label", "kind", "relation" …), in any case. A node of
ours that is but a name has the attribute "declared", false. The lines of an undirected graph hold
both ways. Document types are refused: entities in them can fill any memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from xml.etree.ElementTree import ParseError, XMLParser
from xml.sax.saxutils import escape

from ku_rag.errors import BadInput
from ku_rag.graph.formats import cells
from ku_rag.graph.graph_records import (
    KEPT,
    Part,
    Statement,
    clean,
    described,
    identity,
    picture_in,
    video_in,
)

SUFFIXES = frozenset({".graphml"})

RELATED = "related to"
"""The word of a relation that has none."""

_SPACE = "http://graphml.graphdrawing.org/xmlns"
_BLOCK = 1 << 16
_OF_NODES = {
    **{key: key for key in KEPT},
    "name": "entity",
    "label": "entity",
    "type": "kind",
    "category": "kind",
    "alias": "aliases",
    "description": "text",
    "image": "images",
    "video": "videos",
}
_OF_EDGES = {
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
"""Names of attributes; where several mean one field, the first of these that is there counts."""
_DRAWING = frozenset({"x", "y", "z", "r", "g", "b", "size"})
_LABELS = frozenset({"NodeLabel", "EdgeLabel"})


@dataclass(slots=True)
class _Element:
    """A node or an edge: its own attributes, and its data by name."""

    own: Mapping[str, str]
    data: dict[str, str] = field(default_factory=dict)
    directed: bool = True


class _Target:
    """Takes what the parser meets."""

    def __init__(self) -> None:
        self.nodes: list[_Element] = []
        self.edges: list[_Element] = []
        self.hyperedges = 0
        self.started = False
        self._names: dict[str, tuple[str, str]] = {}
        self._defaults: dict[str, str] = {}
        self._open: list[_Element | None] = []
        self._directed: list[bool] = []
        self._key: str | None = None
        self._defaulted: str | None = None
        self._inner: list[str] = []
        self._text: list[str] = []

    def doctype(self, name: str, *_: object) -> NoReturn:
        """Refuse it."""
        raise BadInput(
            f"it has a document type ({name}), whose entities are not read: remove <!DOCTYPE …>"
        )

    def start(self, tag: str, own: dict[str, str]) -> None:
        """An element begins."""
        self.started = True
        name = tag.rpartition("}")[2]
        if self._key is not None:
            self._inner.append(name)
            if name in _LABELS:
                self._text = []
            return
        match name:
            case "key":
                title = own.get("attr.name") or own.get("yfiles.type") or own.get("id", "")
                self._names[own.get("id", "")] = (title.strip(), own.get("for", "all"))
                self._defaulted = own.get("id", "")
            case "default":
                self._text = []
            case "graph":
                self._directed.append(own.get("edgedefault") != "undirected")
                self._open.append(None)
            case "node":
                self._open.append(_Element(own))
                self.nodes.append(self._open[-1])  # type: ignore[arg-type]
            case "edge":
                directed = self._directed[-1] if self._directed else True
                if "directed" in own:
                    directed = own["directed"].strip() in ("true", "1")
                self._open.append(_Element(own, directed=directed))
                self.edges.append(self._open[-1])  # type: ignore[arg-type]
            case "hyperedge":
                self.hyperedges += 1
                self._open.append(_Element(own))
            case "port":
                self._open.append(_Element(own))
            case "data":
                self._key = own.get("key", "")
                self._text = []

    def data(self, text: str) -> None:
        """Text is met."""
        if not self._inner or self._inner[-1] in _LABELS:
            self._text.append(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        name = tag.rpartition("}")[2]
        if self._inner:
            if self._inner.pop() in _LABELS:
                self._put("label")
            return
        match name:
            case "default":
                if self._defaulted is not None:
                    self._defaults[self._defaulted] = "".join(self._text)
            case "key":
                self._defaulted = None
            case "data":
                self._put(self._names.get(self._key or "", (self._key or "", ""))[0])
                self._key = None
            case "graph" | "node" | "edge" | "hyperedge" | "port":
                done = self._open.pop()
                if name == "graph":
                    self._directed.pop()
                elif done:
                    self._put_defaults(done, name)

    def close(self) -> None:
        """All of it was read."""

    def _put(self, name: str) -> None:
        text = "".join(self._text)
        self._text = []
        if text.strip() and self._open and (element := self._open[-1]):
            element.data.setdefault(name, text)

    def _put_defaults(self, element: _Element, kind: str) -> None:
        for key, text in self._defaults.items():
            name, of = self._names[key]
            if of in (kind, "all"):
                element.data.setdefault(name, text)


def read(path: Path, progress: Callable[[int], None] | None = None) -> list[Part]:
    """Read a graph; nodes and edges that cannot be read are left out.

    Args:
        path: resolved; pictures and videos are relative to its folder.
        progress: called with the number of nodes and edges read so far, now and then.

    Raises:
        BadInput: it is no XML, no GraphML, or has a document type.
        OSError: it cannot be read.
    """
    target = _Target()
    try:
        _parse(path, target, progress)
    except BadInput as error:
        raise BadInput(f"{path.name}: {error}") from error
    except (ParseError, ValueError, LookupError) as error:  # the last two: of its encoding
        raise BadInput(
            f"{path.name} is no XML ({error}): repair it, or write it again as UTF-8"
        ) from error
    part = Part(path.as_posix(), path.as_posix())
    if target.hyperedges:
        part.leave_out(
            part.uri,
            f"{target.hyperedges} hyperedges join more than two nodes: write them as edges",
        )
    meant = _nodes(part, target.nodes, path.parent)
    for edge in target.edges:
        _edge(part, edge, meant)
    return [part]


def _parse(path: Path, target: _Target, progress: Callable[[int], None] | None) -> None:
    parser = XMLParser(target=target)
    with path.open("rb") as file:
        # A document type stands before the first element: nothing of it is read ahead of the check.
        while not target.started and (byte := file.read(1)):
            parser.feed(byte)
        while block := file.read(_BLOCK):
            parser.feed(block)
            if progress:
                progress(len(target.nodes) + len(target.edges))
    parser.close()


_Meant = dict[str, tuple[str, str | None]]
"""Of each node the id or name that it stands for, and its kind if it is but a name."""


def _nodes(part: Part, nodes: Iterable[_Element], folder: Path) -> _Meant:
    locate, locate_video = picture_in(folder), video_in(folder)
    meant: _Meant = {}
    for number, node in enumerate(nodes, 1):
        own = node.own.get("id", "")
        where = f"{part.uri}: node {own or number}"
        try:
            if own in meant:
                raise BadInput("there is another node of this id: the first is kept")
            data = _of_node(node)
            name = identity(data, "entity")
            if data.pop("declared", "").strip() == "false":
                meant[own] = (name, clean(str(data.get("kind") or "")) or "entity")
                continue
            if "id" not in data and name in part.entities:
                data["id"] = f"{name} ({own})"
            problems: list[str] = []
            entity = described(data, locate, locate_video, problems)
        except BadInput as error:
            part.leave_out(where, str(error), unread=True)
            continue
        if not part.describe(entity, where):
            continue
        meant[own] = (entity.id, None)
        for problem in problems:
            part.leave_out(where, f"{problem}; the rest of the node is kept")
    return meant


def _of_node(node: _Element) -> dict[str, Any]:
    data: dict[str, Any] = {}
    given = {name.casefold(): (name, text) for name, text in node.data.items()}
    for known, key in _OF_NODES.items():
        if known in given:
            text = given.pop(known)[1]
            data.setdefault(key, cells.read(key, text))
    data.setdefault("entity", node.own.get("id", ""))
    if "declared" in given:
        data["declared"] = given.pop("declared")[1]
    for key, (name, text) in given.items():
        if key not in _DRAWING and not key.startswith("nodegraphics"):
            data[name] = text
    return data


def _edge(part: Part, edge: _Element, meant: _Meant) -> None:
    head, tail = (edge.own.get(end, "") for end in ("source", "target"))
    where = f"{part.uri}: edge {head!r} → {tail!r}"
    for end in (head, tail):
        if end not in meant:
            part.leave_out(
                where, f"there is no node {end!r}, or it was left out: every edge joins two nodes"
            )
            return
    given = {name.casefold(): text for name, text in edge.data.items()}
    said: dict[str, str] = {}
    for known, key in _OF_EDGES.items():
        if known in given:
            said.setdefault(key, given[known])
    relation = clean(said.get("relation", "")) or RELATED
    information, condition = said.get("information"), said.get("condition")
    for start, end in ((head, tail), (tail, head))[: 1 if edge.directed else 2]:
        (name, _), (target, kind) = meant[start], meant[end]
        part.statements.append((name, relation, target, information, condition, kind))


# ---- writing -----------------------------------------------------------------------------------

_NODE_KEYS = (
    *("name", "id", "kind", "topic", "aliases", "caption", "text", "texts", "images"),
    *("metadata", "match", "declared"),
)
_EDGE_KEYS = ("relation", "information", "condition")


def write(
    path: Path, entities: Iterable[Mapping[str, Any]], statements: Iterable[Statement]
) -> None:
    """Write a graph.

    Args:
        path: the file.
        entities: fields of each, pictures relative to the file's folder.
        statements: between ids of entities, and names.
    """
    nodes: dict[tuple[str, str | None], str] = {}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="{_SPACE}">\n')
        for of, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
            for key in keys:
                holds = "boolean" if key in ("topic", "match", "declared") else "string"
                file.write(
                    f'<key id="{of} {key}" for="{of}" attr.name="{key}" attr.type="{holds}"/>\n'
                )
        file.write('<graph edgedefault="directed">\n')

        def put(key: tuple[str, str | None], data: Mapping[str, Any]) -> None:
            nodes[key] = f"n{len(nodes)}"
            file.write(f'<node id="{nodes[key]}">{_data("node", data)}</node>\n')

        for entity in entities:
            data = {"name": entity["entity"], **entity}
            del data["entity"]
            put((entity["id"], None), data)
        for head, relation, tail, information, condition, kind in statements:
            end = (tail, kind)
            if end not in nodes:
                put(end, {"name": tail, "kind": kind, "declared": False})
            notes = dict(zip(_EDGE_KEYS, (relation, information, condition), strict=True))
            file.write(
                f'<edge source="{nodes[head, None]}" target="{nodes[end]}">'
                f"{_data('edge', notes)}</edge>\n"
            )
        file.write("</graph>\n</graphml>\n")


def _data(of: str, data: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{of} {key}">{escape(text, {chr(13): "&#13;"})}</data>'
        for key, text in cells.fields(data).items()
    )
