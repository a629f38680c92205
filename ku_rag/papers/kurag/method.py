"""The steps of KU-RAG, sections 3.3.1 to 3.3.3, for reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from ku_rag.answering.correction import Material
from ku_rag.answering.evidence_retrieval import evidence_near, list_evidence
from ku_rag.answering.passage import Card, compose
from ku_rag.answering.pipeline import Context, QuerySteps, measure
from ku_rag.encoders.base import encode_queries
from ku_rag.errors import BadInput
from ku_rag.mllm.base import Reply
from ku_rag.papers.kurag.content_words import load_content_words
from ku_rag.papers.kurag.published_matching import match_pictures, rank_chunks
from ku_rag.retrieval.base import Matched
from ku_rag.store.connection import snapshot

_PAGE_HEIGHT = 32_000
"""Pixels: the passage is one picture."""


class KuRagSteps(QuerySteps):
    """A query that matches units by their pictures and shows their texts in one picture."""

    most = 3
    """Units and chunks (section 4.3)."""
    packages = ("ku_rag.answering", "ku_rag.papers.kurag")

    def find(self) -> tuple[Context, Reply | None]:
        """Match units by the picture, or raise `BadInput`, and rank their chunks (eq. 4 to 10)."""
        base, question = self.base, self.question
        if self.picture is None:
            raise BadInput('strict="kurag" matches a picture with all units: give a picture')
        if not question.with_units:
            caption = self.chain.describe(self.picture) if self.chain else None
            text = f"{question.text}\n{caption.text}" if caption else question.text
            with measure(self.times, "search"), snapshot(base.database.connection):
                vector = encode_queries(base.chunk_search.encoder, [text])
                return Context(Matched(), evidence_near(base, vector, question.k_chunks)), caption
        content = load_content_words()
        with measure(self.times, "search"), snapshot(base.database.connection):
            matched = match_pictures(base, self.picture, question.text, question.k_units)
            chunks = rank_chunks(base, question.text, matched.units, question.k_chunks, content)
            hits = [(chunk.row, chunk.cosine) for chunk in chunks]
            unit_ids = {chunk.row: chunk.unit.id for chunk in chunks}
            evidence = [
                replace(e, unit_ids=tuple(dict.fromkeys((unit_ids[e.chunk], *e.unit_ids))))
                for e in list_evidence(base, hits, [unit.id for unit in matched.units])
            ]
            context = Context(matched, evidence, models={"content words": content.name})
            return self.with_pictures(context), None

    def compose(self, context: Context) -> list[Image]:
        """Stitch the cards into one picture: each chunk under the unit whose list brought it."""
        if not self.question.with_units:
            return super().compose(context)
        cards = []
        for unit in context.matched.units:
            texts = tuple(e.text for e in context.evidence if e.unit_ids[0] == unit.id)
            if texts:
                cards.append(Card(unit.name, context.pictures.get(unit.id), texts))
        return compose(cards, page_height=_PAGE_HEIGHT)

    def material(self, context: Context, pages: Sequence[Image], caption: Reply | None) -> Material:
        """Return the whole picture and the passage (eq. 12, 13)."""
        material = super().material(context, pages, caption)
        return replace(material, crop=None, pages_only=bool(material.pages))
