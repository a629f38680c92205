"""Rerankers: the order of retrieved evidence, before the best of it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from ku_rag.plugins import load

if TYPE_CHECKING:
    from ku_rag.rerankers.base import Reranker

_OWN = {
    "embedded": "ku_rag.rerankers.implementations:UnitMatchReranker",
    "cross-encoder": "ku_rag.rerankers.implementations:CrossEncoderReranker",
    "mllm": "ku_rag.rerankers.implementations:RelevanceReranker",
}


def load_reranker(
    spec: str, *, device: str = "auto", batch_size: int = 0, prompts: Path | None = None
) -> Reranker:
    """Create a reranker.

    Args:
        spec: "name" or "name:argument": "embedded", "cross-encoder:PATH", "mllm", or an installed
            one.
        device: "auto", "cpu", "cuda" or "mps", for those that run a model.
        batch_size: texts in a batch; 0 chooses it.
        prompts: folder whose prompts replace those of the package, for "mllm".

    Raises:
        NotFound: there is no such reranker, or its weights are not on this machine.
        BadInput: its weights are damaged or of another kind.
        MissingExtra: a package that it needs is not installed.
    """
    options = {"device": device, "batch_size": batch_size, "prompts": prompts}
    return cast("Reranker", load("reranker", _OWN, spec, **options))
