"""The steps of CogPlanner: a plan with the published actions, then one answer (eq. 6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ku_rag.answering.correction import Answered, Chain, Material
from ku_rag.answering.pipeline import Context, QuerySteps
from ku_rag.mllm.base import Reply
from ku_rag.papers.cogplanner.plan import Plan
from ku_rag.pictures import load_picture

_PICTURE_SIDE = 512


class CogPlannerSteps(QuerySteps):
    """A query that a model plans, and answers in one turn from the queries and the evidence."""

    packages = ("ku_rag.answering", "ku_rag.papers.cogplanner")
    actions = ("text", "image", "none")
    needs_model = True
    drafts = False

    def find(self) -> tuple[Context, Reply | None]:
        """Return the evidence of the plan."""
        assert self.planned
        longest = self._plan.settings.longest_text
        evidence = [
            replace(piece, label=f"E{n}", text=piece.text[:longest])
            for n, piece in enumerate(self.planned.evidence, 1)
        ]
        return Context(self.planned.matched, evidence), None

    @property
    def _plan(self) -> Plan:
        assert self.planned
        assert isinstance(self.planned.plan, Plan)
        return self.planned.plan

    def answer(
        self, chain: Chain, context: Context, material: Material, draft: Reply | None
    ) -> Answered:
        """Return the answer of the model from the question, the last queries and the evidence."""
        captions = self._plan.pictures()
        lines: list[dict[str, Any]] = [{"query": query} for query in self._plan.queries]
        lines += [{"picture": n, "shows": name} for n, name in enumerate(captions.values(), 1)]
        for piece in context.evidence:
            lines.append({"evidence": piece.label, "about": piece.origin, "text": piece.text})
        pictures = [load_picture(Path(file), _PICTURE_SIDE) for file in captions]
        return chain.answer_from(material, "generate", lines, {}, pictures=pictures)
