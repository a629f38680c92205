"""Export of the graph: every unit as an entity, every relation, the pictures beside them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from xml.sax.saxutils import escape

from ku_rag.errors import BadInput, ReadOnly, Refused
from ku_rag.graph.model import CAPTION, TOPIC
from ku_rag.ingest.readers.graph_cells import format_cells
from ku_rag.ingest.readers.graph_records import RelationRecord
from ku_rag.ingest.readers.registry import GRAPH_READERS
from ku_rag.ingest.readers.workbook import IMAGES, NODE_TITLES, NODES, RELATION_TITLES, RELATIONS
from ku_rag.plugins import extra
from ku_rag.store.connection import Connection, snapshot
from ku_rag.store.layout import Layout
from ku_rag.store.unit_records import texts_of
from ku_rag.transfer import atomic_folder
from ku_rag.types import Quarantined, Serializable

_EXPECTED = "a name that ends in .jsonl or .graphml, or has no ending for a folder of workbooks"
_REST = "entities"
"""The folder of entities that belong to no topic."""
_MAX_CELL = 32_767
_ESCAPED = re.compile("_(?=x[0-9A-Fa-f]{4}[_\r])")

Entities = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class GraphExport(Serializable):
    """Numbers of what an export wrote, and pictures that are missing or damaged."""

    entities: int
    relations: int
    images: int
    left_out: tuple[Quarantined, ...] = ()


def export_graph(connection: Connection, layout: Layout, path: Path) -> GraphExport:
    """Write one state of the graph in the format of the suffix, without one as workbooks."""
    suffix = path.suffix.lower()
    if suffix and suffix not in GRAPH_READERS:
        raise BadInput(f"the graph cannot be written to {path}: expected {_EXPECTED}")
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # unlike `resolve`, raises an error for a link to itself
        if path.resolve().is_relative_to(layout.root.resolve()):
            raise Refused(f"{path} is inside the knowledge base: name a place outside of it")
        with snapshot(connection), _temporary_folder(path) as folder:
            entities = list(_entities(connection))
            relations = list(_relations(connection))
            if suffix:
                pictures = f"{path.name}.pictures"
                folders = dict.fromkeys((entity["id"] for entity in entities), pictures)
            else:
                folders = {entity: f"{of}/{IMAGES}" for entity, of in _sub_graphs(entities).items()}
            count, left_out = _copy_pictures(connection, layout, folder, entities, folders)
            if not suffix:
                _write_workbooks(folder, entities, relations)
            elif suffix == ".graphml":
                _write_graphml(folder / path.name, entities, relations)
            else:
                _write_jsonl(folder / path.name, entities, relations)
    except OSError as error:
        raise ReadOnly(
            f"{path} cannot be written ({error.strerror or error}): make room, or name another"
        ) from error
    return GraphExport(len(entities), len(relations), count, tuple(left_out))


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a folder whose contents replace `path` and its folder of pictures at the end."""
    is_folder = not path.suffix
    pictures = path.with_name(f"{path.name}.pictures")
    if path.exists() and (path.is_dir() != is_folder or (is_folder and any(path.iterdir()))):
        kind = "a file" if path.is_file() else "a folder that is not empty"
        raise Refused(f"{path} is {kind} already: expected {_EXPECTED}")
    if not is_folder and not path.exists() and pictures.exists():
        raise Refused(
            f"{pictures} exists, but {path.name} does not: pictures would be written there; name "
            "another file, or move the folder away"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    folder.chmod(0o755)
    try:
        yield folder
        if is_folder:
            folder.rename(path)
            return
        if pictures.is_dir():
            shutil.rmtree(pictures)
        if (folder / pictures.name).exists():
            (folder / pictures.name).rename(pictures)
        (folder / path.name).replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _entities(connection: Connection) -> Iterator[dict[str, Any]]:
    """Yield every unit as the fields of an entity, without pictures."""
    for row, unit, name, kind, aliases, declared, match in connection.execute(
        "SELECT row, id, name, kind, aliases, metadata, match FROM units ORDER BY id"
    ).fetchall():
        metadata = json.loads(declared)
        topic = metadata.get(TOPIC) is True
        caption = metadata.get(CAPTION)
        texts = texts_of(connection, row)
        optional = {
            "topic": metadata.pop(TOPIC) if topic else None,
            "aliases": json.loads(aliases),
            "caption": metadata.pop(CAPTION) if caption and isinstance(caption, str) else None,
            "text": texts[0] if len(texts) == 1 else None,
            "texts": texts if len(texts) > 1 else None,
            "metadata": metadata,
        }
        entity = {"entity": name, "id": unit, "kind": kind}
        entity |= {key: value for key, value in optional.items() if value}
        yield entity | ({"match": bool(match)} if bool(match) != topic else {})


def _relations(connection: Connection) -> Iterator[RelationRecord]:
    """Yield every relation, between ids; a tail that no unit describes is a name with a kind."""
    for head, tail, relation, target, kind, information, condition in connection.execute(
        "SELECT h.id, t.id, r.relation, r.target, a.kind, r.information, r.condition "
        "FROM relations r "
        "JOIN entities e ON e.row = r.head JOIN units h ON h.row = e.unit "
        "JOIN entities a ON a.row = r.tail LEFT JOIN units t ON t.row = a.unit "
        "ORDER BY h.id, r.row"
    ).fetchall():
        yield RelationRecord(
            head, relation, tail or target, information, condition, None if tail else kind
        )


def _copy_pictures(
    connection: Connection,
    layout: Layout,
    target: Path,
    entities: Entities,
    folders: Mapping[str, str],
) -> tuple[int, list[Quarantined]]:
    """Copy pictures of entities and list them; return their number and those left out."""
    left_out: list[Quarantined] = []
    for entity in entities:
        folder = folders[entity["id"]]
        entity["images"] = []
        for digest, file in connection.execute(
            "SELECT i.hash, i.file FROM units u JOIN unit_images l ON l.unit = u.row "
            "JOIN images i ON i.row = l.image "
            "WHERE u.id = ? GROUP BY i.row ORDER BY min(l.source), min(l.position)",
            (entity["id"],),
        ).fetchall():
            stored = layout.image(file)
            name = f"{digest[:16]}{stored.suffix}"
            if problem := atomic_folder.copy_picture(stored, target / folder / name, digest):
                left_out.append(problem)
                continue
            entity["images"].append(name if folder.endswith(f"/{IMAGES}") else f"{folder}/{name}")
    return sum(len(entity["images"]) for entity in entities), left_out


def _write_jsonl(path: Path, entities: Entities, relations: Iterable[RelationRecord]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in (*entities, *(relation._asdict() for relation in relations)):
            data = {key: value for key, value in record.items() if value not in (None, [])}
            file.write(json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n")


_NODE_KEYS = (
    *("name", "id", "kind", "topic", "aliases", "caption", "text", "texts", "images"),
    *("metadata", "match", "declared"),
)
_EDGE_KEYS = ("relation", "information", "condition")


def _write_graphml(path: Path, entities: Entities, relations: Iterable[RelationRecord]) -> None:
    nodes: dict[tuple[str, str | None], str] = {}
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        )
        for domain, keys in (("node", _NODE_KEYS), ("edge", _EDGE_KEYS)):
            for key in keys:
                kind = "boolean" if key in ("topic", "match", "declared") else "string"
                file.write(
                    f'<key id="{domain} {key}" for="{domain}" attr.name="{key}" '
                    f'attr.type="{kind}"/>\n'
                )
        file.write('<graph edgedefault="directed">\n')

        named = {(row.tail, row.tail_kind): row for row in relations if row.tail_kind}
        for node, data in (
            *(((entity["id"], None), {"name": entity["entity"], **entity}) for entity in entities),
            *((k, {"name": k[0], "kind": k[1], "declared": False}) for k in named),
        ):
            nodes[node] = f"n{len(nodes)}"
            file.write(f'<node id="{nodes[node]}">{_graphml_data("node", data)}</node>\n')
        for row in relations:
            ends = nodes[row.head, None], nodes[row.tail, row.tail_kind]
            fields = _graphml_data("edge", row._asdict())
            file.write(f'<edge source="{ends[0]}" target="{ends[1]}">{fields}</edge>\n')
        file.write("</graph>\n</graphml>\n")


def _graphml_data(domain: str, data: Mapping[str, Any]) -> str:
    keys = _NODE_KEYS if domain == "node" else _EDGE_KEYS
    return "".join(
        f'<data key="{domain} {key}">{escape(text, {chr(13): "&#13;"})}</data>'
        for key, text in format_cells(data).items()
        if key in keys
    )


def _sub_graphs(entities: Entities) -> dict[str, str]:
    """Return the folder of each entity, by id: that of its topic, or one for the rest."""
    taken = {_REST}
    topics: dict[str, str] = {}
    for entity in entities:
        if entity.get("topic"):
            plain = re.sub(r"[^\w .()-]+", "_", entity["entity"]).strip(" .")[:100] or "topic"
            names = (plain, *(f"{plain} {n}" for n in range(2, len(entities) + 3)))
            name = next(name for name in names if name.casefold() not in taken)
            taken.add(name.casefold())
            topics[entity["id"]] = name
    ids = [entity["id"] for entity in entities]
    return {key: topics.get(key) or topics.get(key.partition(">")[0]) or _REST for key in ids}


def _write_workbooks(target: Path, entities: Entities, relations: Iterable[RelationRecord]) -> None:
    folders = _sub_graphs(entities)
    nodes: dict[str, list[Mapping[str, Any]]] = {}
    stated: dict[str, list[Mapping[str, Any]]] = {}
    for entity in entities:
        # An entity with the name of its folder would be read as its topic.
        nodes.setdefault(folders[entity["id"]], []).append({"topic": False, **entity})
    for relation in relations:
        stated.setdefault(folders[relation.head], []).append(relation._asdict())
    for folder, rows in nodes.items():
        (target / folder / IMAGES).mkdir(parents=True, exist_ok=True)
        _write_sheet(target / folder / NODES, NODE_TITLES, rows)
        _write_sheet(target / folder / RELATIONS, RELATION_TITLES, stated.get(folder, ()))


def _write_sheet(
    path: Path, titles: Mapping[str, Sequence[str]], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write a workbook of one sheet, with the first title of each field, every cell a text."""
    # Cells are formatted first, because an unfinished workbook leaves temporary files behind.
    lines = [[_cell(data.get(key, "")) for key in titles] for data in map(format_cells, rows)]
    book = extra("graph", "openpyxl").Workbook(write_only=True)
    cell_type = extra("graph", "openpyxl.cell").WriteOnlyCell
    sheet = book.create_sheet(path.stem)
    sheet.append([names[0].title() for names in titles.values()])
    for line in lines:
        cells = [cell_type(sheet, value=text or None) for text in line]
        for cell in cells:
            cell.data_type = "s"  # never a formula, whatever the text begins with
        sheet.append(cells)
    book.save(path)


def _cell(text: str) -> str:
    """Escape carriage returns, which XML reads as line feeds, and text that looks escaped."""
    if len(text) > _MAX_CELL:
        raise BadInput(
            f"a text of {len(text):,} characters begins with {text[:40]!r}, a cell holds "
            f"{_MAX_CELL:,}: export as .jsonl or .graphml"
        )
    return _ESCAPED.sub("_x005F_", text).replace("\r", "_x000D_")
