"""The steps of KU-RAG, sections 3.3.1 to 3.3.3, for reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from ku_rag.answering.correction import Material
from ku_rag.answering.evidence_retrieval import list_evidence
from ku_rag.answering.pipeline import Context, QuerySteps, measure
from ku_rag.errors import BadInput
from ku_rag.mllm.base import Reply
from ku_rag.papers.kurag.published_matching import match_pictures, rank_chunks
from ku_rag.store.connection import snapshot


class KuRagSteps(QuerySteps):
    """A query that matches units by their pictures and shows their texts in pages alone."""

    most = 3
    """Units and chunks (section 4.3)."""
    packages = ("ku_rag.answering", "ku_rag.papers.kurag")

    def find(self) -> tuple[Context, Reply | None]:
        """Match units with the region and rank their chunks (eq. 4 to 10).

        Raises:
            BadInput: there is no picture to match.
        """
        base, question = self.base, self.question
        if self.picture is None or not question.with_units or question.unit:
            raise BadInput(
                'strict="kurag" matches a picture with all units: give a picture, and leave out '
                "unit and units=False"
            )
        with measure(self.times, "search"), snapshot(base.database.connection):
            matched = match_pictures(base, self.picture, question.text, question.k_units)
            hits = rank_chunks(base.chunk_search, question.text, matched.units, question.k_chunks)
            evidence = list_evidence(base, hits, [unit.id for unit in matched.units])
            return self.with_pictures(Context(matched, evidence)), None

    def material(self, context: Context, pages: Sequence[Image], caption: Reply | None) -> Material:
        """Return the whole picture and the pages (eq. 11 to 13)."""
        return replace(super().material(context, pages, caption), crop=None, pages_only=True)
