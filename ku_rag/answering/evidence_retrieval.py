"""Retrieval of units, evidence and graph paths for a picture and a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from PIL.Image import Image

from ku_rag.encoders.base import Vectors
from ku_rag.graph.model import Graph
from ku_rag.graph.traversal import best_paths, distinct_paths
from ku_rag.reading import mentions, sections
from ku_rag.reading.named_units import trace
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.names import parted
from ku_rag.retrieval.search import search
from ku_rag.store import table_rows, text_places, unit_records
from ku_rag.store.connection import as_json
from ku_rag.types import ChunkPlace, Evidence, PathEvidence, Reading

_MOST_PATHS = 5
_MOST_OWN = 20
_MOST_ROWS = 60
"""Chunks among which rows of tables are compared."""


def evidence(
    base: Retrieval, question: str, matched: Matched, k: int, pool: int = 0
) -> tuple[list[Evidence], list[Evidence]]:
    """Return the k chunks that bear on a question most, those of matched units first, and more."""
    rows = _MOST_ROWS if table_rows.are_stored(base.database.connection) else 0
    most = max(k, rows, pool)
    hits = search(
        base.chunk_search,
        question,
        [(unit.row, unit.name) for unit in matched.units],
        most,
        units_first=matched.region is not None,
        among=base.units.chunks(base.database.connection),
    )
    every = list_evidence(base, hits, [unit.id for unit in matched.units])
    return every[:k], every[k:]


def own_evidence(
    base: Retrieval,
    question: str,
    matched: Matched,
    evidence: Sequence[Evidence],
    rows: Sequence[Evidence],
    lines: Sequence[tuple[int, int, int]],
    *,
    first_label: int,
) -> list[Evidence]:
    """Further chunks: table rows, lines that answer, chunks of sections and units asked about."""
    units = [unit.row for unit in matched.units if unit.id in matched.about]
    listed = [piece.chunk for piece in (*evidence, *rows)]
    chunks = [chunk for chunk, *_ in lines if chunk not in listed]
    own = base.database.connection.column(
        "SELECT DISTINCT l.chunk FROM json_each(?) r CROSS JOIN unit_chunks l ON l.unit = r.value "
        "WHERE l.owned AND l.chunk NOT IN (SELECT value FROM json_each(?)) ORDER BY 1 LIMIT ?",
        (as_json(units), as_json(listed), _MOST_OWN),
    )
    connection, number = base.database.connection, sections.numbered(question)
    of_section = text_places.of_section(connection, number, units) if number else []
    chunks = list(dict.fromkeys([*chunks, *of_section, *own]))
    more = list_evidence(base, [(row, 0.0) for row in chunks], [unit.id for unit in matched.units])
    return [replace(piece, label=f"E{first_label + n}") for n, piece in enumerate((*rows, *more))]


def evidence_near(base: Retrieval, vector: Vectors, k: int) -> list[Evidence]:
    """The chunks of the whole base whose vectors are nearest to one, float32[1, dim]."""
    among = base.units.chunks(base.database.connection)
    rows, cosines = base.chunk_search.chunks.search(vector, k, among=among)
    hits = [
        (row, round(cosine, 4))
        for row, cosine in zip(rows[0].tolist(), cosines[0].tolist(), strict=True)
        if row >= 0
    ]
    return list_evidence(base, hits, ())


@dataclass(frozen=True, slots=True)
class Paths:
    """Evidence and answers from the graph, with labels and places of lines.

    `why` says where the answers come from, or why there are none.
    """

    evidence: Sequence[PathEvidence] = ()
    answers: tuple[str, ...] = ()
    cited: tuple[str, ...] = ()
    lines: tuple[tuple[int, int, int], ...] = ()
    why: str = ""


def paths(base: Retrieval, question: str, matched: Matched, *, first_label: int) -> Paths:
    """Graph paths from the matched units that bear on a question, best first."""
    graph = graph_of(base)
    if mentioned := mentions.read(base.database.connection, question, graph.among):
        documents, places = zip(*mentioned, strict=True)
        return Paths((), documents, (), places, "Their texts say it.")
    entities = graph.of_units([unit.row for unit in matched.units])
    starts = [entity for entity in entities if entity.has_relations]
    # A name in the clue tells which of the things in a picture is meant, and is not asked about.
    is_subject = matched.chosen or bool(matched.units and matched.units[0].image)
    asking = parted(question)[0] if is_subject else question
    names = None if is_subject else matched.names.spans
    traced = trace(graph, next(iter(entities), None) if is_subject else None, asking, names=names)
    every_way = traced.paths if traced else ()
    lines = dict.fromkeys(step.line for way in every_way for step in way.steps if step.line)
    ways = [*distinct_paths(w for w in every_way if not any(step.line for step in w.steps))]
    best = best_paths(graph, starts, question, k=_MOST_PATHS)
    every = [*distinct_paths((*ways, *best))][: max(_MOST_PATHS, len(ways))]
    evidence = [path.as_evidence(f"E{n}") for n, path in enumerate(every, first_label)]
    if not traced:
        return Paths(evidence)
    if traced.unlisted:
        remedy = "ask how many, ask for fewer, or use `ku list --where`"
        why = f"{traced.unlisted:,} units fit, more than an answer lists: {remedy}."
        return Paths(evidence, why=why)
    cited = tuple(piece.label for piece in evidence[: len(ways)])
    places = (
        ("in lines and sentences of texts", lines),
        ("in metadata", [way for way in ways if way.steps and way.steps[0].has_value]),
        (
            "by following relations in the graph",
            [w for w in ways if w.steps and not w.steps[0].has_value],
        ),
    )
    where = " and ".join(where for where, some in places if some)
    where = where or ("among names" if ways else "by counting units")
    why = f"Found {where}."
    return Paths(evidence, traced.answers, cited, tuple(filter(None, lines)), why)


def graph_of(base: Retrieval) -> Graph:
    """The graph, with the units that pass the filter."""
    rows = base.units.rows(base.database.connection)
    among = None if rows is None else frozenset(rows.tolist())
    return Graph(base.database.connection, base.layout, among)


def pictures(base: Retrieval, matched: Matched) -> dict[str, Image]:
    """Return the pictures by which units were seen, by their ids; `Corrupt` if one has changed."""
    return {
        unit.id: unit_records.picture(base.database.connection, base.layout, unit.image_row)
        for unit in matched.units
        if unit.image_row is not None
    }


def place_citations(
    base: Retrieval, evidence: Sequence[Evidence], reading: Reading
) -> list[Evidence]:
    """Return the evidence; cited pieces have the page, box and confidence of the cited span."""
    spans = dict(zip(reading.citations, reading.spans, strict=False))
    cited = {piece.chunk: spans[piece.label] for piece in evidence if piece.label in spans}
    places = text_places.of_chunks(base.database.connection, cited) if cited else {}
    return [
        replace(piece, **(place._asdict() | {"section": piece.section}))
        if (place := places.get(piece.chunk))
        else piece
        for piece in evidence
    ]


def list_evidence(
    base: Retrieval, hits: Sequence[tuple[int, float]], matched: Sequence[str]
) -> list[Evidence]:
    """Number the chunks that were found, (row, score), and say whose they are."""
    connection = base.database.connection
    wanted = as_json(row for row, _ in hits)
    stored = {
        chunk: (uri, text)
        for chunk, text, uri in connection.execute(
            "SELECT c.row, c.text, s.uri FROM json_each(?) r CROSS JOIN chunks c "
            "ON c.row = r.value CROSS JOIN sources s ON s.row = c.source",
            (wanted,),
        )
    }
    listing: dict[int, dict[str, bool]] = {}
    names: dict[str, str] = {}
    for chunk, unit_id, name, owned in connection.execute(
        "SELECT l.chunk, u.id, u.name, l.owned FROM json_each(?) r "
        "CROSS JOIN unit_chunks l ON l.chunk = r.value "
        "CROSS JOIN units u ON u.row = l.unit ORDER BY l.owned DESC, u.id",
        (wanted,),
    ):
        listing.setdefault(chunk, {})[unit_id] = bool(owned)
        names[unit_id] = name
    rows = table_rows.of_chunks(connection, list(stored))
    places = text_places.of_chunks(connection, dict.fromkeys(stored))
    pieces = []
    for number, (row, score) in enumerate(hits, 1):
        listed = listing.get(row, {})
        owners = tuple(unit for unit, owned in listed.items() if owned)
        meant = [unit for unit in matched if unit in listed]
        units = tuple(dict.fromkeys((*owners, *(meant or listed))))
        uri, text = stored[row]
        called = tuple(names[unit] for unit in owners)
        place = places.get(row, ChunkPlace())
        fields = (uri, text, score, owners, called, rows.get(row), *place)
        named = tuple(names[unit] for unit in units)
        pieces.append(Evidence(f"E{number}", row, units, *fields, unit_names=named))
    return pieces
