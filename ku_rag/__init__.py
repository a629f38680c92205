"""Questions about your own pictures, answered from your own knowledge.

import ku_rag

with ku_rag.KnowledgeBase.open("kb", create=True) as kb:
    kb.ingest("folder")
    answer = kb.query("picture.jpg", "Who built this bridge?")
    print(answer.answer, answer.citations)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ku_rag.errors import BadInput, KuError, Locked, Mismatch, NotFound
from ku_rag.types import Answer, Evidence, Relation, Unit

if TYPE_CHECKING:
    from ku_rag.encoders import load_encoder
    from ku_rag.knowledge_base import KnowledgeBase
    from ku_rag.mllm import RecordedMLLM, ScriptedMLLM
    from ku_rag.regions import load_segmenter

__version__ = "0.1.0"

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
    "load_segmenter",
]

_LATE = {
    "KnowledgeBase": "ku_rag.knowledge_base",
    "RecordedMLLM": "ku_rag.mllm",
    "ScriptedMLLM": "ku_rag.mllm",
    "load_encoder": "ku_rag.encoders",
    "load_segmenter": "ku_rag.regions",
}
"""Imported at their first use: `import ku_rag` brings none of numpy, faiss and PIL."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as the language has it
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module 'ku_rag' has no attribute {name!r}")
