"""The graph as it is given out: every unit an entity, its pictures beside it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ku_rag.errors import BadInput, ReadOnly, Refused
from ku_rag.graph.formats import graphml, jsonl, workbook
from ku_rag.graph.graph_records import Statement
from ku_rag.graph.model import CAPTION, TOPIC
from ku_rag.store.connection import Connection
from ku_rag.store.content_rows import content_hash
from ku_rag.store.database import snapshot
from ku_rag.store.layout import Layout
from ku_rag.store.unit_records import texts_of
from ku_rag.types import Quarantined

_EXPECTED = "a name that ends in .jsonl or .graphml, or has no ending for a folder of workbooks"


@dataclass(slots=True)
class Given:
    """What was written."""

    entities: int = 0
    relations: int = 0
    images: int = 0
    left_out: list[Quarantined] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku graph export --json` prints."""
        return {
            "entities": self.entities,
            "relations": self.relations,
            "images": self.images,
            "left_out": [{"item": one.item, "reason": one.reason} for one in self.left_out],
        }


def write(connection: Connection, layout: Layout, path: Path) -> Given:
    """Write the graph, one state of it; nothing is there before all of it is.

    Args:
        connection: to the store.
        layout: where pictures are.
        path: the file, or the folder of workbooks, new or empty; its ending tells the format.

    Raises:
        BadInput: the ending is another, or something cannot be held by the format.
        Refused: the folder holds something, or lies in the base.
        ReadOnly: it cannot be written.
        Corrupt: a row fails its checksum.
        MissingExtra: it is to be workbooks, and openpyxl is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in jsonl.SUFFIXES | graphml.SUFFIXES and suffix:
        raise BadInput(f"the graph is to go to {path}: expected {_EXPECTED}")
    given = Given()
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # fails where `resolve` would of a link that leads to itself
        if path.resolve().is_relative_to(layout.root.resolve()):
            raise Refused(f"{path} lies in the knowledge base itself: name a place outside of it")
        with snapshot(connection), _beside(path) as place:
            if not suffix:
                _workbooks(connection, layout, place, given)
            else:
                kept = f"{path.name}.pictures"
                (place / kept).mkdir()
                writer = jsonl.write if suffix in jsonl.SUFFIXES else graphml.write
                entities = _entities(connection, layout, lambda _: (place / kept, kept), given)
                writer(place / path.name, entities, _statements(connection, given))
    except OSError as error:
        raise ReadOnly(
            f"{path} cannot be written ({error.strerror or error}): make room, or name another"
        ) from error
    return given


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder whose contents come to the place of `path` when all went well."""
    folder = not path.suffix
    if path.exists() and path.is_dir() != folder:
        what = "a file" if folder else "a folder"
        raise Refused(f"{path} is {what} already: expected {_EXPECTED}")
    if folder and path.exists() and any(path.iterdir()):
        raise Refused(f"{path} holds something: name a new or empty folder")
    pictures = path.with_name(f"{path.name}.pictures")
    if not folder and not path.exists() and pictures.exists():
        raise Refused(
            f"{pictures} is there already, but {path.name} is not: pictures would go there; name "
            "another file, or move it away"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    place = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    place.chmod(0o755)
    try:
        yield place
        if folder:
            place.rename(path)
            return
        if pictures.is_dir():
            shutil.rmtree(pictures)
        if any((place / pictures.name).iterdir()):
            (place / pictures.name).rename(pictures)
        (place / path.name).replace(path)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _workbooks(connection: Connection, layout: Layout, place: Path, given: Given) -> None:
    names = [
        {"id": of, "entity": name, "topic": json.loads(metadata).get(TOPIC) is True}
        for of, name, metadata in connection.execute("SELECT id, name, metadata FROM units")
    ]
    folders = workbook.folders_of(names)
    for folder in set(folders.values()):
        (place / folder / workbook.IMAGES).mkdir(parents=True)

    def into(of: str) -> tuple[Path, str]:
        return place / folders[of] / workbook.IMAGES, ""

    entities: dict[str, list[dict[str, Any]]] = {}
    for entity in _entities(connection, layout, into, given):
        entities.setdefault(folders[entity["id"]], []).append(entity)
    statements: dict[str, list[Statement]] = {}
    for one in _statements(connection, given):
        statements.setdefault(folders[one[0]], []).append(one)
    for folder, described in entities.items():
        workbook.write(place, folder, described, statements.get(folder, ()))


def _entities(
    connection: Connection,
    layout: Layout,
    into: Callable[[str], tuple[Path, str]],
    given: Given,
) -> Iterator[dict[str, Any]]:
    """Every unit as the fields of an entity, its pictures copied.

    Args:
        connection: to the store.
        layout: where pictures are.
        into: for an id the folder of its pictures, and what its records call that.
        given: is added to.
    """
    for row, of, name, kind, aliases, stated, match in connection.execute(
        "SELECT row, id, name, kind, aliases, metadata, match FROM units ORDER BY id"
    ).fetchall():
        metadata = json.loads(stated)
        topic = metadata.get(TOPIC) is True
        caption = said if isinstance(said := metadata.get(CAPTION), str) else ""
        for key in (TOPIC,) * topic + (CAPTION,) * bool(caption):
            del metadata[key]
        texts = texts_of(connection, row)
        images = list(_pictures(connection, layout, row, into(of), given))
        entity = {
            "entity": name,
            "id": of,
            "kind": kind,
            **({"topic": True} if topic else {}),
            **({"aliases": found} if (found := json.loads(aliases)) else {}),
            **({"caption": caption} if caption else {}),
            **({"text": texts[0]} if len(texts) == 1 else {}),
            **({"texts": texts} if len(texts) > 1 else {}),
            **({"images": images} if images else {}),
            **({"metadata": metadata} if metadata else {}),
            **({"match": bool(match)} if bool(match) != topic else {}),
        }
        given.entities += 1
        yield entity


def _pictures(
    connection: Connection,
    layout: Layout,
    unit: int,
    into: tuple[Path, str],
    given: Given,
) -> Iterator[str]:
    folder, called = into
    for digest, file in connection.execute(
        "SELECT i.hash, i.file FROM unit_images l JOIN images i ON i.row = l.image "
        "WHERE l.unit = ? GROUP BY i.row ORDER BY min(l.source), min(l.position)",
        (unit,),
    ).fetchall():
        kept = layout.image(file)
        name = f"{digest[:16]}{kept.suffix}"
        try:
            data = kept.read_bytes()
        except OSError as error:
            given.left_out.append(Quarantined(str(kept), f"it cannot be read ({error.strerror})"))
            continue
        if content_hash(data) != digest:
            given.left_out.append(Quarantined(str(kept), "it is not what was stored"))
            continue
        (folder / name).write_bytes(data)
        given.images += 1
        yield f"{called}/{name}" if called else name


def _statements(connection: Connection, given: Given) -> Iterator[Statement]:
    """Every relation, between ids; those that wait for their target name it."""
    for head, tail, relation, target, kind, information, condition in connection.execute(
        "SELECT h.id, t.id, r.relation, r.target, r.target_kind, r.information, r.condition "
        "FROM relations r "
        "JOIN entities e ON e.row = r.head JOIN units h ON h.row = e.unit "
        "LEFT JOIN entities a ON a.row = r.tail LEFT JOIN units t ON t.row = a.unit "
        "ORDER BY h.id, r.row"
    ).fetchall():
        given.relations += 1
        yield head, relation, tail or target, information, condition, None if tail else kind
