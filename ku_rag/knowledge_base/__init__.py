"""The one object that a user holds."""

from __future__ import annotations

from ku_rag.knowledge_base.exploring import Exploring
from ku_rag.knowledge_base.keeping import Keeping
from ku_rag.knowledge_base.looking import Looking

__all__ = ["KnowledgeBase"]


class KnowledgeBase(Exploring, Looking, Keeping):
    """A folder that holds knowledge units and answers questions from them.

    Make one with `KnowledgeBase.open`; it is a context manager. Any number of processes may read a
    knowledge base while one writes to it. An object may be used by one thread at a time.
    """
