"""The evidence graph of a question: retrieval of its candidates, and its texts for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ku_rag import arguments
from ku_rag.answering import evidence_retrieval
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import load_prompts
from ku_rag.papers.graphrag.construction import EvidenceSearch, build
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.papers.graphrag.evidence_agents import EvidenceAgents
from ku_rag.papers.graphrag.evidence_graph import EvidenceGraph
from ku_rag.papers.graphrag.fact_graph import build_from_facts
from ku_rag.reading import cells, prose
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.store.connection import snapshot
from ku_rag.text.question import analyse, comparison
from ku_rag.text.stems import stems
from ku_rag.types import Evidence, PathEvidence, Reading

_POOL = 60
"""Chunks, among them rows of tables, that the candidates are taken from."""


def build_graph(
    base: Retrieval,
    question: str,
    matched: Matched,
    mllm: MLLM | None,
    prompts: Path | None,
    construction: object = None,
) -> EvidenceSearch:
    """Build the evidence graph of a question from what is retrieved, without a model from facts."""
    settings = EvidenceSettings() if construction is None else construction
    settings = arguments.check(settings, "construction", EvidenceSettings)
    with snapshot(base.database.connection):
        evidence, _ = evidence_retrieval.evidence(base, question, matched, _POOL)
    if mllm is None:
        return build_from_facts(evidence_retrieval.graph_of(base), question, evidence, settings)
    subjects = {
        unit.id: unit.name
        for unit in matched.units
        if unit.image is not None and unit.id in matched.about
    }
    by_model = EvidenceAgents(mllm, load_prompts("ku_rag.papers.graphrag", prompts), question)
    return build(base, evidence, subjects, by_model, settings)


def ranked(search: EvidenceSearch, evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return evidence with the texts of the entities that the question asks for before the rest."""
    nodes = [search.graph.nodes[edge.target] for edge in search.answer_edges]
    chunks = list(dict.fromkeys(chunk for node in nodes for chunk in node.chunks))
    place = {chunk: n for n, chunk in enumerate(chunks)}
    last = len(chunks)
    return sorted(evidence, key=lambda piece: last if piece.table else place.get(piece.chunk, last))


def read_wanted(
    question: str, search: EvidenceSearch, evidence: Sequence[Evidence]
) -> Reading | None:
    """State a value from the text of the one entity that the best row gives, or abstain."""
    nodes = search.graph.nodes
    texts = {
        edge: [e for e in evidence if not e.table and e.chunk in nodes[edge.target].chunks]
        for edge in search.answer_edges
    }
    best = next((edge for edge, pieces in texts.items() if pieces), None)
    row = next((piece for piece in evidence if best and piece.chunk == best.chunk), None)
    # "The stadium of the oldest club": several rows would have to be compared.
    if best is None or row is None or not search.enough or comparison(analyse(question)):
        return None
    others = {e.target for e in texts if e.source == best.source and texts[e]} - {best.target}
    if others or not cells.is_about(row, question, stems(best.relation), texts[best]):
        return None
    reading = prose.read(question, texts[best], ())
    if not reading.answer:
        return None
    name, cited = nodes[best.target].name, (*reading.citations, row.label)
    spans = (*reading.spans, cells.cell_span(row, best.relation, name))
    why = f"{reading.citations[0]} states it of {name}, the {best.relation!r} of {row.label}."
    return replace(reading, citations=cited, spans=spans, why=why)


def statements(graph: EvidenceGraph, *, first_label: int) -> list[PathEvidence]:
    """Return described nodes and all edges of a graph as evidence, labelled from a number on."""
    described = [node for node in graph.nodes.values() if node.description]
    paths = [PathEvidence("", (node.name,), (), node.text) for node in described]
    for edge in graph.edges:
        ends = graph.nodes[edge.source].name, graph.nodes[edge.target].name
        paths.append(PathEvidence("", ends, (edge.relation,), graph.edge_text(edge)))
    return [replace(path, label=f"E{n}") for n, path in enumerate(paths, first_label)]
