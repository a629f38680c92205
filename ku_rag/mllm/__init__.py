"""Multimodal language models: the protocol, a client for endpoints, and test doubles."""

from __future__ import annotations

from ku_rag.mllm.base import MLLM, Message, Picture, Reply, Request
from ku_rag.mllm.scripted import RecordedMLLM, ScriptedMLLM
from ku_rag.settings import Settings

__all__ = [
    "MLLM",
    "Message",
    "Picture",
    "RecordedMLLM",
    "Reply",
    "Request",
    "ScriptedMLLM",
    "load_mllm",
]


def load_mllm(settings: Settings) -> MLLM | None:
    """Return the client of the model in the settings; None if they name no model.

    The limits (concurrency, budget) apply to each client, so create one and share it.

    Raises:
        ModelFailed: the address is not valid, or there is neither an address nor a key.
    """
    if not settings.mllm:
        return None
    from ku_rag.mllm.cache import ReplyCache
    from ku_rag.mllm.client import EndpointMLLM

    return EndpointMLLM(settings, cache=ReplyCache() if settings.mllm_cache else None)
