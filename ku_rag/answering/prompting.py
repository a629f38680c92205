"""The prompts of a query, and the evidence inserted into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ku_rag.mllm import prompts
from ku_rag.mllm.prompts import Placeholders, Prompt
from ku_rag.types import Evidence, Match, PathEvidence

_OF_EVIDENCE = frozenset({"evidence", "question", "pages", "region"})
_PLACEHOLDERS: Mapping[str, Placeholders] = {
    "draft": Placeholders(required=frozenset({"question"})),
    "correction": Placeholders(optional=_OF_EVIDENCE | {"believed"}),
    "single": Placeholders(required=frozenset({"question"}), optional=_OF_EVIDENCE),
    "caption": Placeholders(),
}
"""Evidence is optional: published prompts show it in pages alone."""


def load_prompt(name: str, folder: Path | None = None) -> Prompt:
    """Load a prompt of a query; see `ku_rag.mllm.prompts.load_prompt`."""
    return prompts.load_prompt("ku_rag.answering", name, _PLACEHOLDERS[name], folder)


def fenced(
    units: Sequence[Match], evidence: Sequence[Evidence], paths: Sequence[PathEvidence]
) -> str:
    """Return matches, evidence and paths as fenced data, without file paths."""
    names = {unit.id: unit.name for unit in units}
    lines: list[dict[str, Any]] = [{"unit": u.name, "match": u.why} for u in units]
    lines += [
        {"evidence": e.label, "about": [names.get(id, id) for id in e.unit_ids], "text": e.text}
        for e in evidence
    ]
    lines += [{"evidence": p.label, "about": list(p.entities), "text": p.text} for p in paths]
    return prompts.fenced(lines)
