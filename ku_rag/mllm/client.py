"""Endpoints with the interface of OpenAI, and models that reply to conversations there.

All calls run in one event loop, in a thread of its own: a deadline then covers a whole call, with
its headers, and a call that ends early closes its connection.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ku_rag.addresses import OPENAI
from ku_rag.errors import ModelFailed
from ku_rag.mllm import call_errors, encoding
from ku_rag.mllm.base import LONGEST_TEXT, Message, Reply, Request
from ku_rag.mllm.budget import Budget
from ku_rag.mllm.cache import ReplyCache, digest, load_vision_support, store_vision_support
from ku_rag.mllm.call_errors import CallError
from ku_rag.mllm.prompts import without_control_tokens
from ku_rag.mllm.structured_output import extract_object
from ku_rag.plugins import extra
from ku_rag.settings import Settings

_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 8.0
_MAX_BYTES = 16 << 20
_MOST_MISFITS = 3  # Replies in a row after which objects are requested in words.
_MIN_SECRET = 12
"""Shorter keys ("x", "EMPTY", "ollama") are placeholders, which a reply may contain."""
_T = TypeVar("_T")


class Endpoint:
    """A server with the interface of OpenAI.

    The key is read from OPENAI_API_KEY, and sent if the settings trust the address, see `Address`.
    It appears in no message or log. Redirects are not followed.

    Args:
        settings: those of addresses, retries, concurrency and time; a call over it is not repeated.
        wait: called with the seconds to wait before a retry.
    """

    def __init__(
        self, settings: Settings, model: str, setting: str, wait: Callable[[float], None]
    ) -> None:
        self.model, self._settings, self._setting, self._wait = model, settings, setting, wait
        address = settings.address(setting)
        url = address.url or os.environ.get("OPENAI_BASE_URL", "")
        self.url = _checked_address(url or OPENAI, setting)
        self._key = address.secret().strip()
        if not (self._key.isascii() and self._key.isprintable()) or " " in self._key:
            raise ModelFailed(
                "OPENAI_API_KEY holds characters that no key contains: copy the key into it again"
            )
        if not self._key and not url:
            raise ModelFailed(
                f"there is no endpoint for {model or 'a model'}: set OPENAI_API_KEY to use "
                f"OpenAI, or {setting} (--{setting.replace('_', '-')}, OPENAI_BASE_URL) to use "
                "another, such as http://localhost:11434/v1"
            )
        self._slots = threading.BoundedSemaphore(settings.mllm_concurrency)

    def call_with_retries(self, call: Callable[[], _T]) -> _T:
        """Return what a call returns; repeat it after transient errors."""
        failures = 0
        while True:
            try:
                with self._slots:
                    return call()
            except CallError as error:
                pause = _pause(failures, error)
                failures += 1
                if pause is None or failures > self._settings.mllm_retries:
                    if failures > 1:
                        error.args = (f"{error} (tried {failures} times)",)
                    raise
            self._wait(pause)

    def fetch(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> object:
        """Return the JSON value of a response; an interrupt cancels the call."""
        future = asyncio.run_coroutine_threadsafe(self._exchange(method, path, body), _loop())
        try:
            status, text, headers = future.result()
        finally:
            future.cancel()
        return call_errors.checked_body(
            status, text, headers, url=self.url, model=self.model, setting=self._setting
        )

    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> tuple[int, str, Mapping[str, str]]:
        """Return status, text and headers of a response. Messages of others may hold secrets."""
        httpx = extra("mllm", "httpx")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with (
                asyncio.timeout(self._settings.mllm_timeout_s),
                httpx.AsyncClient(timeout=None, verify=_certificates()) as client,
                client.stream(method, self.url + path, json=body, headers=headers) as response,
            ):
                data = bytearray()
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > _MAX_BYTES:
                        raise ModelFailed(
                            f"{self.url} sent over {_MAX_BYTES:,} bytes, which is no reply"
                        )
        except TimeoutError:
            raise CallError(
                f"{self.url} did not reply within {self._settings.mllm_timeout_s:g} s: raise "
                "mllm_timeout_s, or check whether the endpoint is overloaded"
            ) from None
        except httpx.HTTPError as error:
            raise call_errors.connection_error(error, self.url, self._setting) from None
        except (httpx.InvalidURL, ValueError, OSError) as error:
            raise ModelFailed(
                f"no request can be sent to {self.url} ({type(error).__name__}): check "
                f"{self._setting}, and the proxy and SSL variables of the environment"
            ) from None
        text = data.decode("utf-8", "replace")
        # Errors quote keys in part, replies whole ones if at all.
        if len(self._key) >= (_MIN_SECRET if response.is_success else 4):
            text = text.replace(self._key, "[key]")
        return response.status_code, text, response.headers


class EndpointMLLM:
    """A model of an endpoint; `sees_pictures` is None for what was learned of it before."""

    def __init__(
        self,
        settings: Settings,
        *,
        cache: ReplyCache | None = None,
        wait: Callable[[float], None] = time.sleep,
        sees_pictures: bool | None = None,
    ) -> None:
        self.model, self._settings = settings.mllm, settings
        self._endpoint = Endpoint(settings, self.model, "mllm_url", wait)
        self.url = self._endpoint.url
        self._budget = Budget(settings.mllm_max_calls, settings.mllm_max_tokens)
        self._cache = cache
        self._sees_pictures = sees_pictures
        self._rejected_formats: frozenset[str] = frozenset()
        self._misfits = 0

    def chat(self, request: Request) -> Reply:
        """Return the model's reply to a conversation; see `MLLM`."""
        if request.max_tokens is None:
            limit = self._settings.mllm_max_reply_tokens
            request = replace(request, max_tokens=limit or None)
        rejected, key = self._rejected(), self._key(request)
        if self._cache and (cached := self._cache.get(key)):
            return cached
        reply = self._complete(request)
        if request.schema is None:
            reply = replace(reply, text=reply.text[:LONGEST_TEXT])
        else:
            reply = self._with_object(reply, request, request.schema)
        if self._cache:
            self._cache.put(key if self._rejected() == rejected else self._key(request), reply)
        return reply

    def models(self) -> list[str]:
        """Return the names of the endpoint's models; `ModelFailed` if it does not list them."""
        listed = self._endpoint.fetch("GET", "/models")
        entries = listed.get("data") if isinstance(listed, dict) else None
        names = [entry.get("id") for entry in entries or () if isinstance(entry, dict)]
        return [name for name in names if isinstance(name, str)]

    @property
    def sees_pictures(self) -> bool:
        """Whether the model sees pictures; True until it refuses them or a ping learns it."""
        if self._sees_pictures is not None:
            return self._sees_pictures
        return load_vision_support(self.url, self.model) is not False

    @property
    def object_format(self) -> str:
        """How objects are requested at present: "json_schema", "json_object" or "words"."""
        formats = (name for name in encoding.OBJECT_FORMATS if name not in self._rejected_formats)
        return next(formats, "words")

    def _with_object(self, reply: Reply, request: Request, schema: Mapping[str, Any]) -> Reply:
        """Return the reply with its object; ask once more if the first reply does not fit."""
        data, problem = extract_object(reply.text, schema)
        if data is not None:
            self._misfits = 0
            return replace(reply, parsed=data)
        self._misfits += 1
        if self._misfits >= _MOST_MISFITS:
            self._rejected_formats |= set(encoding.OBJECT_FORMATS)
        problem = without_control_tokens(problem)
        correction = (
            Message("assistant", (reply.text[:LONGEST_TEXT],)),
            Message("user", (f"That cannot be used: {problem}. Give the reply again.",)),
        )
        again = replace(request, messages=(*request.messages, *correction))
        second = self._complete(again, without=encoding.OBJECT_FORMATS)
        data, problem = extract_object(second.text, schema)
        if data is None:
            raise ModelFailed(
                f"the model {self.model!r} was asked for a JSON object twice, and {problem}: "
                "use a model or an endpoint that supports JSON schemas"
            )
        return replace(
            second,
            parsed=data,
            prompt_tokens=reply.prompt_tokens + second.prompt_tokens,
            completion_tokens=reply.completion_tokens + second.completion_tokens,
        )

    def _encode(self, request: Request, rejected: Collection[str] = ()) -> dict[str, Any]:
        side = self._settings.mllm_image_side
        return encoding.encode_request(request, self.model, side, rejected)

    def _key(self, request: Request) -> str:
        """Return the key of a cached reply: to a request without pictures if they were refused."""
        body = self._encode(request, self._rejected() & {"vision"})
        return digest({"url": self.url, "request": body})

    def _rejected(self) -> frozenset[str]:
        return self._rejected_formats | (set() if self.sees_pictures else {"vision"})

    def _complete(self, request: Request, without: Collection[str] = ()) -> Reply:
        """Send a request: retry after transient errors, and without what the endpoint rejects."""
        rejected = self._rejected()
        pictures = sum(len(message.pictures) for message in request.messages)

        def call() -> Reply:
            nonlocal rejected
            while True:
                body = self._encode(request, rejected.union(without))
                self._budget.take_call()
                try:
                    answer = self._endpoint.fetch("POST", "/chat/completions", body)
                    reply = encoding.decode_reply(answer, request, self.model)
                    self._budget.add_tokens(reply.prompt_tokens + reply.completion_tokens)
                    encoding.check_complete(answer, reply)
                except CallError as error:
                    feature = call_errors.rejected_feature(error, body, pictures)
                    if not feature or feature in rejected:
                        raise
                    rejected |= {feature}
                    if feature == "vision":
                        store_vision_support(
                            self.url, self.model, sees_pictures=False, for_today=True
                        )
                        if self.sees_pictures:  # as stated, or the cache cannot be written
                            self._sees_pictures = False
                except ModelFailed as error:
                    error.args = (f"{error} (model {self.model!r} at {self.url})",)
                    raise
                else:
                    return reply

        reply = self._endpoint.call_with_retries(call)
        self._rejected_formats |= rejected - {"vision"}
        return reply


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all calls; its thread does not keep the process from ending."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ku-mllm", daemon=True).start()
    return loop


os.register_at_fork(after_in_child=_loop.cache_clear)


@cache
def _certificates() -> Any:  # noqa: ANN401 - of an optional package
    return extra("mllm", "httpx").create_ssl_context()


def _pause(failures: int, error: CallError) -> float | None:
    """Return the seconds until the next retry, with jitter; None if no retry can help."""
    if not error.retryable or (error.pause_s or 0) > call_errors.MAX_PAUSE_S:
        return None
    step: float = min(_FIRST_PAUSE_S * 2.0**failures, _MAX_PAUSE_S) * random.uniform(0.5, 1)
    return step if error.pause_s is None else error.pause_s + step / 4


def _checked_address(address: str, setting: str) -> str:
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        valid = valid and not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        valid = False
    if not valid or not address.isprintable() or " " in address:
        raise ModelFailed(
            f"the address of the model's endpoint ({setting} or OPENAI_BASE_URL) is not "
            "an http:// or https:// address without a name, a password and a query, which logs "
            "would show: expected one such as http://localhost:11434/v1; a key belongs into "
            "OPENAI_API_KEY"
        )
    return address.rstrip("/")
