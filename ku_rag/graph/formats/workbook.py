"""A graph as folders of workbooks, the layout that MH-MMKG is published in.

One folder a sub-graph, named like its topic entity, with `Node.xlsx`, `Relations.xlsx`,
`Knowledge_Images` and `Knowledge_Videos`. Names hold within their sub-graph: what the others call
"Bite" is another bite. As in the loader that belongs to MH-MMKG, elements and pierce pods are the
same everywhere, and columns whose titles say nothing are told by their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag.errors import BadInput
from ku_rag.graph.formats import cells, sheets
from ku_rag.graph.graph_records import (
    STATED,
    Described,
    Part,
    Statement,
    clean,
    described,
    identity,
    optional,
    picture_in,
    video_in,
)
from ku_rag.pictures import PICTURE_SUFFIXES
from ku_rag.plugins import extra
from ku_rag.text.tokens import name_key

NODES, RELATIONS = "Node.xlsx", "Relations.xlsx"
IMAGES, VIDEOS = "Knowledge_Images", "Knowledge_Videos"
REST = "entities"
"""The folder of what belongs to no topic."""

_OF_NODES = {
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
_OF_RELATIONS = {
    "head": ("head", "source", "from"),
    "relation": ("relation", "predicate"),
    "tail": ("tail", "target", "to"),
    "information": ("information", "additional information", "additional"),
    "condition": ("condition", "conditions"),
    "tail_kind": ("tail kind", "tail type"),
}
_NODE_PLACES = ("entity", "images", "videos", "caption", "text")
_RELATION_PLACES = ("head", "relation", "information", "condition", "tail")
_SHARED = re.compile(r"\bElement\b|\bPierce Pod\b")

_Bearers = dict[str, str | None]
"""Ids by what they are called; None where several are called so."""
_Way = tuple[Callable[[str], str], _Bearers]
"""How a name is spelt to be looked up, and where."""


@dataclass(slots=True)
class _Folder:
    """One sub-graph as it is read."""

    path: Path
    part: Part
    ids: dict[str, str | None] = field(default_factory=dict)
    stated: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    has_ids: bool = False

    @property
    def name(self) -> str:
        return clean(self.path.name)

    def full(self, name: str) -> str:
        """The name of an entity outside its sub-graph."""
        if name == self.name or _SHARED.search(name):
            return name
        return f"{self.name}>{name}"


def read(path: Path, progress: Callable[[int], None] | None = None) -> list[Part]:
    """Read the sub-graphs of a folder, or the one that it is; what is broken is left out.

    Args:
        path: resolved.
        progress: called with the number of rows read so far, now and then.

    Raises:
        BadInput: no workbook is there.
        MissingExtra: openpyxl is not installed.
    """
    books = extra("graph", "openpyxl")
    inner = [path, *sorted(one for one in path.iterdir() if one.is_dir())]
    folders = [
        _Folder(one, Part(f"{one.as_posix()}/{NODES}", f"{one.as_posix()}/{RELATIONS}"))
        for one in inner
        if (one / NODES).is_file() or (one / RELATIONS).is_file()
    ]
    if not folders:
        raise BadInput(
            f"{path} holds no {NODES} and no {RELATIONS}, nor does a folder in it: expected one "
            "folder a sub-graph with both"
        )
    count = 0
    for folder in folders:
        for file, take in ((NODES, _take_node), (RELATIONS, _take_relation)):
            titles, places = (
                (_OF_NODES, _NODE_PLACES) if file == NODES else (_OF_RELATIONS, _RELATION_PLACES)
            )
            needed = ("entity",) if file == NODES else ("head", "relation", "tail")
            book = folder.path / file
            if not book.is_file():
                continue
            try:
                for number, row in sheets.rows(books, book, titles, places, needed):
                    take(folder, f"{book.as_posix()}:{number}", row)
                    count += 1
                    if progress:
                        progress(count)
            except BadInput as error:
                folder.part.leave_out(book.as_posix(), str(error), unread=True)
    _refer(folders)
    return [folder.part for folder in folders]


# ---- nodes -------------------------------------------------------------------------------------


def _take_node(folder: _Folder, where: str, row: Mapping[str, Any]) -> None:
    part = folder.part
    problems: list[str] = []
    try:
        data = {key: cells.read(key, text) for key, text in row.items()}
        name = identity(data, "entity")
        folder.has_ids = folder.has_ids or "id" in data
        if "id" not in data:
            data["id"] = folder.full(name)
            if data["id"] not in (name, folder.name):
                data.setdefault("aliases", []).append(f"{folder.name} {name}")
        if "topic" not in data:
            data["topic"] = name == folder.name
        entity = described(
            data,
            _pictures(folder.path),
            video_in(folder.path / VIDEOS),
            problems,
        )
    except BadInput as error:
        part.leave_out(where, str(error), unread=True)
        return
    part.describe(entity, where)
    known = folder.ids.setdefault(entity.name, entity.id)
    if known != entity.id:
        folder.ids[entity.name] = None
    for problem in problems:
        part.leave_out(where, f"{problem}; the rest of the row is kept")


def _pictures(folder: Path) -> Callable[[str], list[Path]]:
    """Finds pictures, or a folder of them, among a sub-graph's images or beside its videos."""
    images = folder / IMAGES
    locate, among_videos = picture_in(images), picture_in(folder / VIDEOS)

    def find(given: str) -> list[Path]:
        named = given.replace("\\", "/")
        inner = images / named
        if not inner.is_dir() or not inner.resolve().is_relative_to(images):
            try:
                return locate(named)
            except BadInput:
                if (folder / VIDEOS / named).is_file():
                    return among_videos(named)
                raise
        return [
            one
            for file in sorted(inner.iterdir())
            if file.suffix.lower() in PICTURE_SUFFIXES
            for one in locate(f"{named}/{file.name}")
        ]

    return find


# ---- relations ---------------------------------------------------------------------------------


def _take_relation(folder: _Folder, where: str, row: Mapping[str, Any]) -> None:
    folder.stated.append((where, row))


def _refer(folders: Sequence[_Folder]) -> None:
    """Write the ends of all relations as ids, now that all sub-graphs are known."""
    ids: _Bearers = {of: of for folder in folders for of in folder.part.entities}
    exact = any(folder.has_ids for folder in folders)
    topics: _Bearers = {one.name: one.ids.get(one.name) or one.name for one in folders}
    first: list[_Way] = [(str, ids)] if exact else []
    of_topics, spelt_anywhere = _everywhere(folders, topics)
    for folder in folders:
        aliases, spelt = _inside(folder)
        ways: list[_Way] = [
            *first,
            *((str, one) for one in (folder.ids, topics, ids, aliases, of_topics)),
            *((name_key, one) for one in (spelt, spelt_anywhere)),
        ]
        for where, row in folder.stated:
            try:
                head, relation, tail = (identity(row, key) for key in STATED[:3])
                kind = clean(optional(row, "tail_kind") or "") or None
                head = _meant(folder, head, ways)
                if kind is None:
                    tail = _meant(folder, tail, ways)
                notes = optional(row, "information"), optional(row, "condition")
            except BadInput as error:
                folder.part.leave_out(where, str(error), unread=True)
            else:
                folder.part.statements.append((head, relation, tail, *notes, kind))
    spoken_of = {
        end
        for folder in folders
        for head, _, tail, _, _, kind in folder.part.statements
        for end in ((head, tail) if kind is None else (head,))
    }
    for folder in folders:
        name = folder.name
        # A topic that relations speak of and no row describes is one all the same.
        if name not in ids and name in spoken_of:
            folder.part.entities[name] = Described(id=name, name=name, topic=True)


def _inside(folder: _Folder) -> tuple[_Bearers, _Bearers]:
    """Who bears an alias in a sub-graph, and who a name or alias by its key."""
    aliases: _Bearers = {}
    spelt: _Bearers = {}
    for entity in folder.part.entities.values():
        for alias in entity.aliases:
            _bear(aliases, alias, entity.id)
        for name in (entity.name, *entity.aliases):
            _bear(spelt, name_key(name), entity.id)
    return aliases, spelt


def _everywhere(folders: Sequence[_Folder], topics: _Bearers) -> tuple[_Bearers, _Bearers]:
    """Which topic bears an alias; and which topic, or what is shared, a name by its key."""
    aliases: _Bearers = {}
    spelt: _Bearers = {}
    for entity in (one for folder in folders for one in folder.part.entities.values()):
        if entity.topic:
            for alias in entity.aliases:
                _bear(aliases, alias, entity.id)
        if entity.topic or (entity.id == entity.name and _SHARED.search(entity.name)):
            for name in (entity.name, *entity.aliases):
                _bear(spelt, name_key(name), entity.id)
    # Nobody describes these: what is described, or was stated first, counts.
    said = (str(row.get(end)) for one in folders for _, row in one.stated for end in STATED[:3:2])
    shared: _Bearers = {name: name for name in map(clean, said) if _SHARED.search(name)}
    for name, of in {**topics, **shared}.items():
        if key := name_key(name):
            spelt.setdefault(key, of)
    return aliases, spelt


def _bear(bearers: _Bearers, name: str, of: str) -> None:
    if name and bearers.setdefault(name, of) != of:
        bearers[name] = None


def _meant(folder: _Folder, name: str, ways: Sequence[_Way]) -> str:
    """The id of what a name means in a sub-graph.

    Args:
        folder: the sub-graph.
        name: as a relation gives it.
        ways: tried one after the other.

    Raises:
        BadInput: several entities are called so.
    """
    for spelling, bearers in ways:
        if (key := spelling(name)) in bearers:
            if (found := bearers[key]) is None:
                raise BadInput(f"several entities here are called {name!r}: name one by its id")
            return found
    full = folder.full(name)
    folder.part.names[full] = name
    return full


# ---- writing -----------------------------------------------------------------------------------

_WRITTEN = {
    "entity": "Name",
    "id": "ID",
    "kind": "Type",
    "topic": "Topic",
    "caption": "Caption",
    "text": "Text",
    "texts": "Texts",
    "images": "Image",
    "aliases": "Aliases",
    "metadata": "Metadata",
    "match": "Match",
}
_STATED = {key: key.replace("_", " ").title() for key in STATED}


def folders_of(entities: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The folder of each entity, by id: that of its topic, or one for the rest.

    Args:
        entities: with "id", "entity" and "topic".
    """
    listed = list(entities)
    taken = {REST}
    topics: dict[str, str] = {}
    for entity in listed:
        if entity.get("topic"):
            plain = re.sub(r"[^\w .()-]+", "_", entity["entity"]).strip(" .")[:100] or "topic"
            name = next(
                one
                for one in (plain, *(f"{plain} {n}" for n in range(2, len(listed) + 3)))
                if one.casefold() not in taken
            )
            taken.add(name.casefold())
            topics[entity["id"]] = name
    return {
        entity["id"]: topics.get(entity["id"]) or topics.get(entity["id"].partition(">")[0]) or REST
        for entity in listed
    }


def write(
    path: Path,
    name: str,
    entities: Iterable[Mapping[str, Any]],
    statements: Iterable[Statement],
) -> None:
    """Write one sub-graph.

    Args:
        path: the folder of all.
        name: of the sub-graph's folder.
        entities: fields of each, pictures by their names in its images.
        statements: between ids of entities, and names.

    Raises:
        BadInput: a text is longer than a cell.
        MissingExtra: openpyxl is not installed.
    """
    folder = path / name
    folder.mkdir(exist_ok=True)
    # Of one that is called as its folder it would else be read that it is a topic.
    told = ({"topic": False, **one} for one in entities)
    sheets.write(folder / NODES, _WRITTEN, told)
    sheets.write(
        folder / RELATIONS, _STATED, (dict(zip(STATED, one, strict=True)) for one in statements)
    )
