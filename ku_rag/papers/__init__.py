"""Published methods, each in a folder of its own, as steps of a query."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def load_steps(strict: str, method: str) -> type[QuerySteps] | None:
    """Return the steps of a published method; None for those of ku-rag.

    Args:
        strict: a key of `STRICT`, or "".
        method: that of `QueryInput`; "evidence" builds an evidence graph.

    Raises:
        BadInput: there is no such method, or two are named.
    """
    if strict and strict not in STRICT:
        names = ", ".join(map(repr, STRICT))
        raise BadInput(f"the method is {strict!r}: expected one of {names}")
    if strict and method:
        raise BadInput(f"strict={strict!r} answers by its own method: leave out {method!r}")
    if method == "evidence":
        strict, name = "graphrag", "EvidenceSteps"
    elif strict:
        name = STRICT[strict]
    else:
        return None
    steps: type[QuerySteps] = getattr(import_module(f"ku_rag.papers.{strict}.method"), name)
    return steps
