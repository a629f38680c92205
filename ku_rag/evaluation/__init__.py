"""Evaluation of answers: datasets, methods, measures, resumable runs and their pages."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ku_rag.evaluation.captions import judge_captions
    from ku_rag.evaluation.harness import compare, evaluate, query_batch

__all__ = ["compare", "evaluate", "judge_captions", "query_batch"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - module attributes have any type
    # `ku --help` imports the names of the methods, and no more.
    if name in __all__:
        module = "captions" if name == "judge_captions" else "harness"
        return getattr(import_module(f"ku_rag.evaluation.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
