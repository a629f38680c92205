"""Tables and pictures of the store, as the nodes of an evidence graph need them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from ku_rag.arguments import LONGEST_NAME
from ku_rag.graph.model import Graph
from ku_rag.graph.summary import shortened
from ku_rag.papers.graphrag.evidence_graph import EvidenceEdge, EvidenceGraph, EvidenceNode, text_id
from ku_rag.retrieval.base import Retrieval
from ku_rag.store import table_rows
from ku_rag.store.connection import Connection, as_json
from ku_rag.text.tokens import name_key
from ku_rag.types import Evidence, TableRow

_MOST_ROWS = 100
"""Rows of a table that a model is shown."""
_MOST_PICTURES = 3
"""Pictures of one unit."""
_LONGEST = 300
"""Characters of a cell."""

TableRows = Sequence[tuple[int, TableRow]]
"""Rows of a table, each with the row of its chunk in the store."""


def row_graph(
    graph: Graph,
    table: EvidenceNode,
    chunk: int,
    row: TableRow,
    named: Iterable[str],
    ids: Container[str] = (),
) -> EvidenceGraph:
    """Return a table, one of its rows, and the cells that are named or lead to units or nodes."""
    described = "; ".join(f"{column}: {text}" for column, text in cells_of(row).items())
    id, name = f"row:{table.id}.{row.row}", f"{table.name}, row {row.row + 1}"
    nodes = [table, EvidenceNode(id, name, "row", "row", described, (chunk,))]
    edges = [EvidenceEdge(table.id, "has row", id, chunk=chunk)]
    keys = [name_key(cell.text) for _, cell in row.cells]
    entity_keys = {name_key(name) for name in named} | graph.with_keys(keys).keys()
    linked = dict(
        graph.connection.execute(
            "SELECT u.id, u.name FROM json_each(?) w CROSS JOIN units u ON u.id = w.value",
            (as_json([cell.link for _, cell in row.cells if cell.link]),),
        ).fetchall()
    )
    for (column, cell), key in zip(row.cells, keys, strict=True):
        end = text_id(linked.get(cell.link or "", cell.text))
        is_entity = key in entity_keys or cell.link or end in ids
        if is_entity and 0 < len(key) <= LONGEST_NAME:
            nodes.append(EvidenceNode(end, cell.text.strip(), column, "text", "", (chunk,)))
            edges.append(EvidenceEdge(id, column, end, chunk=chunk))
    return EvidenceGraph().joined(nodes, edges)


def cells_of(row: TableRow) -> dict[str, str]:
    """Return column → text, or its beginning, of the cells of a row that are not empty."""
    cells = ((column, shortened(cell.text.strip(), _LONGEST)) for column, cell in row.cells)
    return {column: text for column, text in cells if text}


def tables_of(
    connection: Connection, evidence: Sequence[Evidence], most: int
) -> list[EvidenceNode]:
    """Return the first tables that have rows among the evidence; those rows come first."""
    names: dict[int, tuple[str, ...]] = {
        piece.chunk: piece.owner_names for piece in evidence if piece.table
    }
    places: dict[tuple[int, int], list[int]] = {}
    for chunk, source, place in connection.execute(
        "SELECT c.row, t.source, t.place FROM json_each(?) w CROSS JOIN chunks c "
        "ON c.row = w.value JOIN table_rows t ON t.source = c.source AND t.document = c.document",
        (as_json(names),),
    ):
        places.setdefault((source, place), []).append(chunk)
    tables = []
    for (source, place), hits in list(places.items())[:most]:
        others = connection.column(
            "SELECT c.row FROM chunks c CROSS JOIN table_rows t "
            "ON t.source = c.source AND t.document = c.document "
            "WHERE c.source = ? AND t.place = ? ORDER BY c.position LIMIT ?",
            (source, place, _MOST_ROWS),
        )
        chunks = list(dict.fromkeys([*hits, *others]))[:_MOST_ROWS]
        rows = table_rows.of_chunks(connection, chunks)
        # A long row is several chunks.
        first = {row.row: (chunk, row) for chunk, row in reversed(rows.items())}
        own = rows[hits[0]].name
        titles = tuple(filter(None, dict.fromkeys((own, *names[hits[0]]))))
        numbered = tuple(first[number] for number in sorted(first))
        columns = ", ".join(numbered[0][1].columns)
        node = EvidenceNode(
            f"table:{source}.{place}",
            titles[0] if titles else "table",
            "table",
            "table",
            f"A table with the columns {columns}.",
            titles=titles,
            rows=numbered,
        )
        tables.append(node)
    return tables


def pictures_of(
    base: Retrieval, units: Mapping[str, str], names: Sequence[str]
) -> list[EvidenceNode]:
    """Return pictures of units, given as id → a further title or "", and of units by name."""
    connection, layout = base.database.connection, base.layout
    rows = base.units.rows(connection)
    among = None if rows is None else frozenset(rows)
    titles = {unit: [title] for unit, title in units.items()}
    for key, entities in Graph(connection, layout).with_keys([*map(name_key, names)]).items():
        for unit in (entity.unit for entity in entities if entity.unit):
            titles.setdefault(unit, []).append(key)
    pictures: dict[int, EvidenceNode] = {}
    count: dict[str, int] = {}
    for number, unit, name, row, file in connection.execute(
        "SELECT u.row, u.id, u.name, i.row, i.file FROM json_each(?) w CROSS JOIN units u "
        "ON u.id = w.value JOIN unit_images l ON l.unit = u.row JOIN images i ON i.row = l.image "
        "ORDER BY w.key, l.source, l.position",
        (as_json(titles),),
    ):
        if among is not None and number not in among:
            continue
        if row not in pictures and count.get(unit, 0) < _MOST_PICTURES:
            count[unit] = count.get(unit, 0) + 1
            pictures[row] = EvidenceNode(
                f"image:{row}",
                name,
                "image",
                "image",
                image=row,
                titles=(name, *titles[unit]),
                file=layout.image(file),
            )
    return list(pictures.values())
