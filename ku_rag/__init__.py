"""Questions about your own pictures, answered from your own knowledge.

import ku_rag

with ku_rag.KnowledgeBase.open("kb", create=True) as kb:
    kb.ingest("folder")
    answer = kb.query("picture.jpg", "Who built this bridge?")
    print(answer.answer, answer.citations)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ku_rag.encoders import load_encoder
    from ku_rag.errors import BadInput, KuError, Locked, Mismatch, NotFound
    from ku_rag.knowledge_base import KnowledgeBase
    from ku_rag.mllm import RecordedMLLM, ScriptedMLLM
    from ku_rag.regions import load_segmenter
    from ku_rag.rerankers import load_reranker
    from ku_rag.types import Answer, Evidence, Relation, Unit

__version__ = "0.4.0.dev0"

__all__ = [
    "Answer",
    "BadInput",
    "Evidence",
    "KnowledgeBase",
    "KuError",
    "Locked",
    "Mismatch",
    "NotFound",
    "RecordedMLLM",
    "Relation",
    "ScriptedMLLM",
    "Unit",
    "load_encoder",
    "load_reranker",
    "load_segmenter",
]

_MODULES = {
    "ku_rag.encoders": ("load_encoder",),
    "ku_rag.errors": ("BadInput", "KuError", "Locked", "Mismatch", "NotFound"),
    "ku_rag.knowledge_base": ("KnowledgeBase",),
    "ku_rag.mllm": ("RecordedMLLM", "ScriptedMLLM"),
    "ku_rag.regions": ("load_segmenter",),
    "ku_rag.rerankers": ("load_reranker",),
    "ku_rag.types": ("Answer", "Evidence", "Relation", "Unit"),
}
"""The module of each public name. It is imported when the name is first used, so that `import
ku_rag` takes a millisecond and an interrupt of `ku` finds `ku_rag.cli.main` running.
"""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - module attributes have any type
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(module), name)
            return value
    raise AttributeError(f"module 'ku_rag' has no attribute {name!r}")
