"""Graphs as folders of workbooks, the layout in which MH-MMKG is published.

Each sub-graph is a folder, named like its topic entity, with `Node.xlsx`, `Relations.xlsx`,
`Knowledge_Images` and `Knowledge_Videos`. Names are valid within their sub-graph: "Bite" of another
sub-graph is another entity. As in the loader of MH-MMKG, elements and pierce pods are the same
entities everywhere, and columns with unknown titles are identified by position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import clean_name
from ku_rag.ingest.readers.graph_cells import parse_cell
from ku_rag.ingest.readers.graph_records import GraphPart
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.picture_paths import PICTURE_SUFFIXES
from ku_rag.text.tokens import name_key

NODES, RELATIONS = "Node.xlsx", "Relations.xlsx"
IMAGES, VIDEOS = "Knowledge_Images", "Knowledge_Videos"

NODE_TITLES = {
    "entity": ("name", "node", "entity", "node name", "entity name"),
    "id": ("id",),
    "kind": ("type", "kind", "category"),
    "topic": ("topic",),
    "aliases": ("aliases", "alias"),
    "caption": ("caption", "human caption", "action description", "description"),
    "text": ("text", "additional", "information", "additional information"),
    "texts": ("texts",),
    "images": ("image", "images", "picture", "pictures"),
    "videos": ("video", "videos"),
    "keyframes": ("keyframes", "keyframe", "key frames"),
    "unit": ("unit",),
    "metadata": ("metadata",),
    "match": ("match",),
}
RELATION_TITLES = {
    "head": ("head", "source", "from"),
    "relation": ("relation", "predicate"),
    "tail": ("tail", "target", "to"),
    "information": ("information", "additional information", "additional"),
    "condition": ("condition", "conditions"),
    "tail_kind": ("tail kind", "tail type"),
}
"""Titles of columns in lower case, by field. The first one is written."""
_NODE_POSITIONS = ("entity", "images", "videos", "caption", "text")
_RELATION_POSITIONS = ("head", "relation", "information", "condition", "tail")
"""The fields of sheets of five columns whose titles are unknown."""

_SHARED = re.compile(r"\bElement\b|\bPierce Pod\b")


def read_workbooks(path: Path, parsing: Parsing) -> list[GraphPart]:
    """Read the sub-graphs of a folder, or the sub-graph that the folder is."""
    folders = [path, *sorted(folder for folder in path.iterdir() if folder.is_dir())]
    parts = [
        GraphPart(folder / NODES, folder / RELATIONS, scope=clean_name(folder.name), has_ids=False)
        for folder in folders
        if (folder / NODES).is_file() or (folder / RELATIONS).is_file()
    ]
    if not parts:
        raise BadInput(
            f"{path} holds no {NODES} and no {RELATIONS}, nor does a folder in it: expected one "
            "folder a sub-graph with both"
        )
    for part in parts:
        for book in (part.path, part.relations_path):
            try:
                for where, row in _rows(book, parsing) if book.is_file() else ():
                    if book == part.path:
                        _add_node(part, row, where)
                    else:
                        part.add_relation(row, where)
                    parsing.advance()
            except BadInput as error:
                part.leave_out(book.as_posix(), str(error), unread=True)
    _add_topics(parts)
    return parts


def qualified_name(scope: str | None, name: str) -> str:
    """Return the name of an entity outside its sub-graph, if any: `Zinogre>Bite`, its id."""
    if scope is None or name == scope or _SHARED.search(name):
        return name
    return f"{scope}>{name}"


def is_shared(entity_id: str) -> bool:
    """Return whether an entity that belongs to no sub-graph is the same in all of them."""
    return ">" not in entity_id and bool(_SHARED.search(entity_id))


def _add_node(part: GraphPart, row: Mapping[str, str], where: str) -> None:
    folder = part.path.parent
    try:
        data = {field: parse_cell(field, text) for field, text in row.items()}
    except BadInput as error:
        part.leave_out(where, str(error), unread=True)
        return
    name = clean_name(data.get("entity", ""))
    if "id" in data:
        part.has_ids = True
    elif name:
        data["id"] = qualified_name(part.scope, name)
        if data["id"] != name:
            data["aliases"] = [*data.get("aliases", ()), f"{part.scope} {name}"]
    data.setdefault("topic", name == part.scope)
    for field in ("images", "keyframes"):
        data[field] = [path for entry in data.get(field, ()) for path in _pictures(folder, entry)]
    data["videos"] = [f"{VIDEOS}/{video}" for video in data.get("videos", ())]
    part.add_entity(data, where)


def _pictures(folder: Path, name: str) -> list[str]:
    """Return the picture that a cell names, or the pictures of the folder that it names."""
    name = name.replace("\\", "/")
    named = folder / IMAGES / name
    if named.is_dir() and named.resolve().is_relative_to(folder / IMAGES):
        files = sorted(file for file in named.iterdir() if file.suffix.lower() in PICTURE_SUFFIXES)
        return [f"{IMAGES}/{name}/{file.name}" for file in files]
    if not named.is_file() and (folder / VIDEOS / name).is_file():
        return [f"{VIDEOS}/{name}"]
    return [f"{IMAGES}/{name}"]


def _add_topics(parts: Sequence[GraphPart]) -> None:
    """Add the topics that relations mention and no row describes."""
    ends = {
        name_key(end)
        for part in parts
        for relation in part.relations
        for end in (relation.head, "" if relation.tail_kind else relation.tail)
    }
    described = {entity for part in parts for entity in part.entities}
    for part in parts:
        names = {entity.unit.name for entity in part.entities.values()} | described
        if part.scope and part.scope not in names and name_key(part.scope) in ends:
            part.add_entity({"entity": part.scope, "topic": True}, part.path.as_posix())


# ---- sheets ------------------------------------------------------------------------------------


def _rows(path: Path, parsing: Parsing) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield place and fields of the rows of the first sheet that hold something."""
    titles, positions, required = (
        (NODE_TITLES, _NODE_POSITIONS, ("entity",))
        if path.name == NODES
        else (RELATION_TITLES, _RELATION_POSITIONS, ("head", "relation", "tail"))
    )
    fields: list[str] = []
    for number, texts in parsing.rows("sheet:read_sheet", path):
        if not fields:
            fields = _fields(texts, titles, positions, required)
            continue
        row: dict[str, str] = {}
        for field, text in zip(fields, texts, strict=False):
            if field and text:
                row.setdefault(field, text)
        yield f"{path.as_posix()}:{number}", row


def _fields(
    header: Sequence[str],
    titles: Mapping[str, Sequence[str]],
    positions: Sequence[str],
    required: Sequence[str],
) -> list[str]:
    """Return the field of each column; a column with an unknown title is a field of that name."""
    by_title = {title: field for field, names in titles.items() for title in names}
    fields = [by_title.get(" ".join(t.casefold().replace("_", " ").split()), "") for t in header]
    missing = [field for field in required if field not in fields]
    if not missing:
        return [field or title.strip() for field, title in zip(fields, header, strict=True)]
    width = max((n for n, title in enumerate(header, 1) if title), default=0)
    pairs = zip(fields, positions, strict=False)
    if width == len(positions) and all(field in ("", position) for field, position in pairs):
        return list(positions)
    lacking = " and ".join(
        f"{titles[field][0].title()} (or {', '.join(name.title() for name in titles[field][1:])})"
        for field in missing
    )
    seen = ", ".join(repr(title[:40]) for title in header if title)
    raise BadInput(f"no column is called {lacking}; there are {seen}: name the columns so")
