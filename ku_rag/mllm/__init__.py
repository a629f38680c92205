"""Multimodal language models: the protocol, a client for endpoints, and test doubles."""

from __future__ import annotations

from dataclasses import replace

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


def load_mllm(settings: Settings, role: str = "mllm") -> MLLM | None:
    """Return a new client of the model in a setting, with its limits; None without a model."""
    model, url = getattr(settings, role), getattr(settings, f"{role}_url") or settings.mllm_url
    if not model:
        return None
    settings = replace(settings, mllm=model, mllm_url=url)
    from ku_rag.mllm.cache import ReplyCache
    from ku_rag.mllm.client import EndpointMLLM

    return EndpointMLLM(settings, cache=ReplyCache() if settings.mllm_cache else None)
