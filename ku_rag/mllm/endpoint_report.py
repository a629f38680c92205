"""What a model and its endpoint support, found out by a few requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from PIL import Image

from ku_rag.errors import ModelFailed
from ku_rag.mllm.base import Message, Picture, Request
from ku_rag.mllm.cache import store_vision_support
from ku_rag.mllm.call_errors import CallError
from ku_rag.mllm.client import EndpointMLLM
from ku_rag.mllm.structured_output import TEXT, object_schema
from ku_rag.settings import Settings
from ku_rag.types import Serializable

_SIDE = 64
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EndpointReport(Serializable):
    """What was found out of a model: whether it names a colour, and how it returns an object."""

    url: str
    model: str
    models: tuple[str, ...] = ()
    replies: bool = False
    pictures: bool = False
    object_format: str = ""
    problems: tuple[str, ...] = ()


def ping(settings: Settings) -> EndpointReport:
    """Try the endpoint and the model by at most four uncached calls."""
    mllm = EndpointMLLM(replace(settings, mllm_retries=0), sees_pictures=True)
    problems: list[str] = []

    def attempt(call: Callable[[], _T]) -> _T | None:
        try:
            return call()
        except ModelFailed as error:
            if isinstance(error, CallError) and not error.status:
                raise
            problems.append(str(error))
            return None

    def request(*parts: str | Picture, schema: Mapping[str, Any] | None = None) -> Request:
        return Request((Message("user", parts),), schema=schema)

    report = EndpointReport(mllm.url, settings.mllm, tuple(attempt(mllm.models) or ()))
    if settings.mllm:
        red = Picture(Image.new("RGB", (_SIDE, _SIDE), "red"))
        question = "Which colour is this picture? Reply with one word."
        colour = attempt(lambda: mllm.chat(replace(request(red, question), needed_pictures=1)))
        sees_pictures = bool(colour and "red" in colour.text.casefold())
        if colour or not mllm.sees_pictures:
            store_vision_support(mllm.url, mllm.model, sees_pictures=sees_pictures)
        schema = object_schema("colour", colour=TEXT)
        reply = attempt(lambda: mllm.chat(request("Name a colour.", schema=schema)))
        report = replace(
            report,
            replies=bool(colour or reply),
            pictures=sees_pictures,
            object_format=mllm.object_format if reply else "",
        )
    return replace(report, problems=tuple(problems))
