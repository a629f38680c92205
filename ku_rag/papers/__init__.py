"""Published methods, each in a folder of its own, as steps of a query."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from ku_rag import arguments
from ku_rag.errors import BadInput

if TYPE_CHECKING:
    from ku_rag.answering.pipeline import QuerySteps

STRICT = {
    "kurag": "KuRagSteps",
    "mhmmkg": "AgentSearchSteps",
    "graphrag": "GraphRagSteps",
    "cogplanner": "CogPlannerSteps",
}
"""The published methods, by the names of their folders, and the classes of their steps."""
_USED = {
    "kurag": {"k", "passage", "kcc", "units", "kind", "where"},
    "mhmmkg": set[str](),
    "graphrag": {"k", "construction", "kind", "where", "unit"},
    "cogplanner": {"k", "plan", "searchers", "kind", "where"},
}
"""The options of a query that the published methods use, beside the report."""
_SWITCHES = {"kcc", "units", "graph"}


def load_steps(options: Mapping[str, object]) -> type[QuerySteps] | None:
    """Return the steps of a published method or of "evidence"; None for those of ku-rag."""
    strict = arguments.text(options.get("strict", ""), "strict")
    if strict and strict not in STRICT:
        names = ", ".join(map(repr, STRICT))
        raise BadInput(f"the method is {strict!r}: expected one of {names}")
    if strict:
        for name in sorted(options.keys() - _USED[strict] - {"strict", "report"}):
            if bool(options[name]) != (name in _SWITCHES):
                option = f"{name}=False (--no-{name})" if name in _SWITCHES else name
                raise BadInput(f"strict={strict!r} does not use {option}: leave it out")
        name = STRICT[strict]
    elif options.get("method") == "evidence":
        strict, name = "graphrag", "EvidenceSteps"
    else:
        return None
    steps: type[QuerySteps] = getattr(import_module(f"ku_rag.papers.{strict}.method"), name)
    return steps
