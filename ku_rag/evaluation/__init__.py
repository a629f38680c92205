"""Evaluation of answers: datasets, methods, measures, resumable runs and their pages."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ku_rag.evaluation.harness import compare, evaluate, query_batch

__all__ = ["compare", "evaluate", "query_batch"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - module attributes have any type
    # `ku --help` imports the names of the methods, and no more.
    if name in __all__:
        return getattr(import_module("ku_rag.evaluation.harness"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
