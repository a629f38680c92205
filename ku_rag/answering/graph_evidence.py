"""The evidence graph of a question: retrieval of its candidates, and its texts for an answer."""

from __future__ import annotations

from pathlib import Path

from ku_rag.answering import evidence_retrieval
from ku_rag.answering.evidence_retrieval import Matched, Retrieval
from ku_rag.errors import NotFound
from ku_rag.graph.evidence.construction import Candidates, EvidenceSearch, build
from ku_rag.graph.evidence.construction_settings import EvidenceSettings
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import load_prompts
from ku_rag.store.connection import snapshot

_POOL = 60
"""Chunks, among them rows of tables, that the candidates are taken from."""


def build_graph(
    base: Retrieval,
    question: str,
    matched: Matched,
    mllm: MLLM | None,
    prompts: Path | None,
    settings: EvidenceSettings | None = None,
) -> EvidenceSearch:
    """Build the evidence graph of a question from what the ordinary retrieval finds.

    Args:
        base: what is asked.
        question: not empty.
        matched: the units that the question and its picture point to.
        mllm: the model that builds it.
        prompts: the folder whose prompts replace those of the package.
        settings: how it is built; by default `EvidenceSettings()`.

    Raises:
        NotFound: there is no model.
        ModelFailed, BudgetSpent: the model did not reply with a pattern.
    """
    if mllm is None:
        raise NotFound("an evidence graph is built by a model for now: name one with --mllm")
    settings = settings or EvidenceSettings()
    with snapshot(base.database.connection):
        best, rows = evidence_retrieval.evidence(base, question, matched, _POOL)
    shown = {
        unit.id: unit.name
        for unit in matched.units
        if unit.image is not None and unit.id in matched.about
    }
    candidates = Candidates(
        base.database.connection, base.layout, base.image_search, [*best, *rows], shown
    )
    return build(question, candidates, mllm, load_prompts("ku_rag.graph", prompts), settings)
