"""Evidence graphs without a model: facts, relations and cells that a question asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ku_rag.graph.model import Graph
from ku_rag.graph.summary import shortened
from ku_rag.graph.unit_facts import FactReader
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.papers.graphrag.evidence_graph import (
    EvidenceEdge,
    EvidenceGraph,
    EvidenceNode,
    PatternGraph,
    text_id,
)
from ku_rag.papers.graphrag.media import cells_of, row_graph, tables_of
from ku_rag.store.connection import as_json
from ku_rag.text.question import ASKING, analyse, names_and_numbers
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import every_stem, label_stems, stems
from ku_rag.text.tokens import content_words
from ku_rag.types import Evidence

_MOST_RELATIONS = 400
"""Relations of an entity that are read, the first ones."""
_MOST_ROWS = 3
"""Retrieved rows that become nodes."""
_COVERED = 0.8
"""Share of the question's words that a graph has which is enough."""
_MOST_CHARACTERS = 20_000
"""Of a text, no more is read."""
_LONGEST = 1000
"""Characters of a description."""


def build_from_facts(
    graph: Graph, question: str, evidence: Sequence[Evidence], settings: EvidenceSettings
) -> EvidenceSearch:
    """Build the evidence graph of a question from what the store knows of its evidence.

    The nodes are the best rows of tables with their cells, and the units of texts; facts and
    relations count if the question asks for them. The graph is enough if it has the names, the
    numbers and most other words of the question.
    """
    terms = stems(question)
    rows = [piece for piece in evidence if piece.table][: _MOST_ROWS * settings.table_mining]
    columns = dict.fromkeys(c for row in rows if row.table for c in row.table.columns)
    named = tuple(c for c in columns if stems(c) and stems(c) <= terms)
    pattern = PatternGraph(named, (), tuple(content_words(question)))
    of_rows = of_texts = EvidenceGraph()
    for table in tables_of(graph.connection, rows, settings.tables):
        stored = dict(table.rows)
        for chunk in (row.chunk for row in rows if row.chunk in stored):
            cells = cells_of(stored[chunk]).items()
            named_cells = [text for column, text in cells if stems(f"{column} {text}") & terms]
            part = row_graph(graph, table, chunk, stored[chunk], named_cells)
            of_rows = of_rows.joined(part.nodes.values(), part.edges)
    for place, piece in enumerate(piece for piece in evidence if not piece.table):
        is_in_row = any(text_id(name) in of_rows.nodes for name in piece.owner_names)
        if place < settings.passages or is_in_row:
            for part in _of_text(graph, question, piece, terms):
                of_texts = of_texts.joined(part.nodes.values(), part.edges)
    built = of_texts.joined(of_rows.nodes.values(), of_rows.edges)
    relations = (edge.relation for edge in built.edges)
    covered = every_stem(" ".join((*relations, *(node.text for node in built.nodes.values()))))
    content_stems = terms - ASKING or terms
    uncovered = sorted(content_stems - covered)
    exact = stems(" ".join(names_and_numbers(question)))
    is_covered = exact <= covered and len(uncovered) <= (1 - _COVERED) * len(content_stems)
    enough = bool(content_stems and built.nodes) and is_covered
    stopped = "the graph is enough" if enough else "the graph is not enough"
    if uncovered:
        stopped += f", without: {', '.join(uncovered)}"
    sizes = {"retrieval": built.sizes, "evidence": built.sizes}
    return EvidenceSearch(built, pattern, sizes, enough, stopped, (), "embedded")


def _of_text(
    graph: Graph, question: str, piece: Evidence, terms: frozenset[str]
) -> Iterator[EvidenceGraph]:
    """Yield the units that a text is of, each with what the question asks for."""
    query = "SELECT u.row FROM json_each(?) w CROSS JOIN units u ON u.id = w.value ORDER BY w.key"
    units = graph.connection.column(query, (as_json(piece.owners),))
    facts, description = FactReader(graph.connection, graph.among), _description(piece.text, terms)
    for entity in graph.of_units(units):
        id = text_id(entity.name)
        nodes = [EvidenceNode(id, entity.name, entity.kind, "text", description, (piece.chunk,))]
        edges, analysis = [], analyse(question, (entity.name,))
        for step in (*graph.hop(entity, _MOST_RELATIONS), *facts.of_unit(entity)):
            if analysis.remaining(label_stems(step.relation), agents=not step.has_value):
                at, end = step.line[0] if step.line else piece.chunk, step.tail
                kind = end.kind or step.relation
                nodes.append(EvidenceNode(text_id(end.name), end.name, kind, "text", "", (at,)))
                edges.append(EvidenceEdge(id, step.relation, nodes[-1].id, step.notes, at))
        yield EvidenceGraph().joined(nodes, edges)


def _description(text: str, terms: frozenset[str]) -> str:
    """Return the first sentence of a text, and those with further words of the question."""
    covered: frozenset[str] = frozenset()
    chosen: list[str] = []
    for start, end in sentences(text[:_MOST_CHARACTERS]):
        shared = every_stem(text[start:end]) & terms
        if not (chosen and shared <= covered):
            chosen.append(" ".join(text[start:end].split()))
            covered |= shared
    return shortened(" ".join(chosen), _LONGEST)
