"""The steps of a query that builds an evidence graph and answers with its statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ku_rag.answering.pipeline import Context, QuerySteps, measure
from ku_rag.papers.graphrag import graph_evidence
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.types import Evidence, Reading


class EvidenceSteps(QuerySteps):
    """A query with an evidence graph beside what the ordinary retrieval finds."""

    def with_graph(self, context: Context) -> Context:
        """Build the graph, and add its nodes and edges to the paths.

        It ranks the evidence, unless a picture does.
        """
        question, matched = self.question, context.matched
        if matched.none_identified:
            return context
        mllm = self.chain.mllm if self.chain else None
        with measure(self.times, "evidence graph"):
            search = graph_evidence.build_graph(
                self.base, question.text, matched, mllm, question.prompts, question.construction
            )
        k, first = len(context.evidence), len(context.evidence) + len(context.paths.evidence) + 1
        if matched.region is None:
            every = graph_evidence.ranked(search, (*context.evidence, *context.rest))
            best = [replace(piece, label=f"E{n}") for n, piece in enumerate(every[:k], 1)]
            chunks = {piece.chunk for piece in best}
            own = [p for p in (*context.evidence, *context.own) if p.chunk not in chunks]
            own = [replace(piece, label=f"E{n}") for n, piece in enumerate(own, first)]
            context = replace(context, evidence=best, own=own, rest=every[k:])
        stated = graph_evidence.statements(search.graph, first_label=first + len(context.own))
        cited = (*context.paths.cited, *(path.label for path in stated if mllm))
        paths = replace(context.paths, evidence=[*context.paths.evidence, *stated], cited=cited)
        return replace(context, paths=paths, evidence_graph=search)

    def read_graph(self, context: Context, evidence: Sequence[Evidence]) -> Reading | None:
        """Return what the text of the one entity that the best row gives states."""
        search = context.evidence_graph
        if not isinstance(search, EvidenceSearch):
            return None
        return graph_evidence.read_wanted(self.question.text, search, evidence)
