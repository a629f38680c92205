"""The steps of a query that builds an evidence graph and answers with its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ku_rag.answering.correction import Answered, Chain, Material
from ku_rag.answering.pipeline import Context, QuerySteps, measure
from ku_rag.mllm.base import Reply
from ku_rag.mllm.structured_output import LINE, list_of
from ku_rag.papers.graphrag import graph_evidence
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.types import Evidence, Reading


class EvidenceSteps(QuerySteps):
    """A query with an evidence graph beside what the ordinary retrieval finds."""

    def with_graph(self, context: Context) -> Context:
        """Build the graph, and add its nodes and edges to the paths."""
        question, matched, has_model = self.question, context.matched, self.chain is not None
        if matched.none_identified:
            return context
        search = self.build(context, question.construction)
        k, first = len(context.evidence), len(context.evidence) + len(context.paths.evidence) + 1
        if matched.region is None:
            every = graph_evidence.ranked(search, (*context.evidence, *context.rest))
            best = [replace(piece, label=f"E{n}") for n, piece in enumerate(every[:k], 1)]
            chunks = {piece.chunk for piece in best}
            own = [p for p in (*context.evidence, *context.own) if p.chunk not in chunks]
            own = [replace(piece, label=f"E{n}") for n, piece in enumerate(own, first)]
            context = replace(context, evidence=best, own=own, rest=every[k:])
        statements = graph_evidence.statements(search.graph, first_label=first + len(context.own))
        cited = (*context.paths.cited, *(path.label for path in statements if has_model))
        paths = replace(context.paths, evidence=[*context.paths.evidence, *statements], cited=cited)
        return replace(context, paths=paths, evidence_graph=search)

    def build(self, context: Context, settings: object) -> EvidenceSearch:
        """Build the evidence graph of the question."""
        question, mllm = self.question, self.chain.mllm if self.chain else None
        with measure(self.times, "evidence graph"):
            return graph_evidence.build_graph(
                self.base, question.text, context.matched, mllm, question.prompts, settings
            )

    def read_graph(self, context: Context, evidence: Sequence[Evidence]) -> Reading | None:
        """Return what the text of the one entity that the best row gives states."""
        search = context.evidence_graph
        if not isinstance(search, EvidenceSearch):
            return None
        return graph_evidence.read_wanted(self.question.text, search, evidence)


class GraphRagSteps(EvidenceSteps):
    """The published method: the answer rests on the question and the evidence graph G4 alone."""

    packages = ("ku_rag.answering", "ku_rag.papers.graphrag")
    needs_model = True
    drafts = False

    def identify(self) -> None:
        """Identify nothing: the paper does not."""

    def with_graph(self, context: Context) -> Context:
        """Build the graph, with updates of the pattern and all rounds of algorithm 1."""
        settings = self.question.construction or EvidenceSettings()
        if isinstance(settings, EvidenceSettings):
            settings = replace(settings, pattern_updates=True, stop_unchanged=False)
        search = self.build(context, settings)
        statements = graph_evidence.statements(search.graph, first_label=1)
        paths = replace(context.paths, evidence=statements)
        return replace(context, evidence=(), own=(), paths=paths, evidence_graph=search)

    def answer(
        self, chain: Chain, context: Context, material: Material, draft: Reply | None
    ) -> Answered:
        """Return the answer of the model from the graph."""
        search = context.evidence_graph
        lines = [*search.graph.lines()] if isinstance(search, EvidenceSearch) else []
        return chain.answer_from(material, "evidence_answer", lines, {"items": list_of(LINE)})
