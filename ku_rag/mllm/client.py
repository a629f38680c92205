"""A model behind an endpoint with the chat-completions interface of OpenAI.

Retries are made here and not by the `openai` package: each counts in the budget, and a call that
waits for its retry leaves its slot to another thread.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from ku_rag.errors import KuError, ModelFailed
from ku_rag.mllm import call_errors, encoding
from ku_rag.mllm.base import Reply, Request
from ku_rag.mllm.budget import Budget
from ku_rag.mllm.cache import ReplyCache, digest
from ku_rag.mllm.call_errors import CallError
from ku_rag.mllm.capabilities import Capabilities
from ku_rag.mllm.structured_output import extract_object
from ku_rag.plugins import extra

_OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""Sent to servers that need no key: the `openai` package requires one."""

_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 8.0
_MAX_BYTES = 16 << 20
_MIN_SECRET = 12
"""Shorter keys ("x", "EMPTY", "ollama") are placeholders, which a reply may contain."""


class EndpointMLLM:
    """A multimodal model behind an endpoint, such as OpenAI's, vLLM, Ollama or llama.cpp.

    The key is read from OPENAI_API_KEY. It appears in no message, log or cache. Redirects are not
    followed.

    Args:
        model: the endpoint's name of the model.
        url: the endpoint's address; "" uses OPENAI_BASE_URL, or OpenAI's address.
        image_side: longest side in pixels of the pictures that are sent.
        timeout_s: seconds for each call, from the connection to the last byte.
        retries: how often a failed call is repeated.
        concurrency: most calls at the same time; further threads wait.
        budget: limits of calls and tokens; None for no limit.
        cache: of replies; None for none.
        wait: called with the seconds to wait before a retry.

    Raises:
        ModelFailed: the address or the key is not valid, or neither is given.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str = "",
        image_side: int = 1024,
        timeout_s: float = 60.0,
        retries: int = 3,
        concurrency: int = 4,
        budget: Budget | None = None,
        cache: ReplyCache | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.model = model
        given = url or os.environ.get("OPENAI_BASE_URL", "")
        self.url = _checked_address(given or _OPENAI)
        self._key = _key_from_environment()
        if not self._key and not given:
            raise ModelFailed(
                f"there is no endpoint for the model {model!r}: set OPENAI_API_KEY to use OpenAI, "
                "or mllm_url (or OPENAI_BASE_URL) to use another, such as "
                "http://localhost:11434/v1"
            )
        self._image_side, self._timeout_s, self._retries = image_side, timeout_s, retries
        self._slots = threading.BoundedSemaphore(concurrency)
        self._budget = budget or Budget()
        self._cache = cache
        self._wait = wait
        self._capabilities = Capabilities()

    def chat(self, request: Request) -> Reply:
        """Return the model's reply to a conversation; see `MLLM`."""
        body = encoding.encode_request(request, self.model, self._image_side)
        key = digest({"url": self.url, "request": body})
        if self._cache and (cached := self._cache.get(key)):
            return cached
        reply = self._complete(body)
        if request.schema is not None:
            reply = self._with_object(reply, body, request.schema)
        if self._cache:
            self._cache.put(key, reply)
        return reply

    def _with_object(
        self, reply: Reply, body: Mapping[str, Any], schema: Mapping[str, Any]
    ) -> Reply:
        """Return the reply with its object; ask once more if the first reply does not fit."""
        found, problem = extract_object(reply.text, schema)
        if found is not None:
            return replace(reply, parsed=found)
        self._capabilities.disable_schemas()
        correction = [
            {"role": "assistant", "content": reply.text},
            {"role": "user", "content": f"That cannot be used: {problem}. Give the reply again."},
        ]
        second = self._complete({**body, "messages": [*body["messages"], *correction]})
        found, problem = extract_object(second.text, schema)
        if found is None:
            raise ModelFailed(
                f"the model {self.model!r} was asked for a JSON object twice, and {problem}: "
                "use a model or an endpoint that supports JSON schemas"
            )
        return replace(
            second,
            parsed=found,
            prompt_tokens=reply.prompt_tokens + second.prompt_tokens,
            completion_tokens=reply.completion_tokens + second.completion_tokens,
        )

    def _complete(self, body: Mapping[str, Any]) -> Reply:
        """Send a request: retry after transient errors, and without rejected parameters."""
        failures = 0
        while True:
            sent = self._capabilities.adapt(body)
            try:
                return self._call(sent)
            except CallError as error:
                if self._capabilities.learn(error, sent):
                    failures = 0
                    continue
                pause = _pause(failures, error)
                failures += 1
                if pause is None or not self._retries:
                    raise
                if failures > self._retries:
                    raise ModelFailed(f"{error} (tried {failures} times)") from None
            self._wait(pause)

    def _call(self, body: Mapping[str, Any]) -> Reply:
        """Make one call; raise an error at the deadline, whatever the server still sends.

        The call runs in a thread of its own, because the timeouts of HTTP clients apply to single
        reads, and a server that sends its headers byte by byte would never exceed them.
        """
        with self._slots:
            self._budget.take_call()
            outcome: Future[Reply] = Future()
            deadline = time.monotonic() + self._timeout_s
            threading.Thread(target=self._run, args=(body, deadline, outcome), daemon=True).start()
            try:
                reply = outcome.result(self._timeout_s)
            except TimeoutError:
                raise call_errors.timed_out(self.url, self._timeout_s) from None
            self._budget.add_tokens(reply.prompt_tokens + reply.completion_tokens)
        return reply

    def _run(self, body: Mapping[str, Any], deadline: float, outcome: Future[Reply]) -> None:
        try:
            outcome.set_result(self._exchange(body, deadline))
        except BaseException as error:
            outcome.set_exception(error)

    def _exchange(self, body: Mapping[str, Any], deadline: float) -> Reply:
        """Send a request and decode the reply. Messages of other packages may hold secrets."""
        openai, client = extra("mllm", "openai"), self._client
        try:
            with client.chat.completions.with_streaming_response.create(**body) as response:
                text = self._read(response, deadline)
        except KuError:
            raise
        except openai.APIStatusError as error:
            failure = call_errors.status_error(error, self.url, self.model, has_key=bool(self._key))
            failure.args = (self._redacted(str(failure), min_length=4),)
            raise failure from None
        except Exception as error:
            if "Timeout" in type(error).__name__:
                raise call_errors.timed_out(self.url, self._timeout_s) from None
            raise call_errors.connection_error(error, self.url) from None
        try:
            return encoding.decode_reply(self._redacted(text, min_length=_MIN_SECRET), body)
        except (ValueError, RecursionError):
            raise call_errors.not_json(text, self.url) from None
        except ModelFailed as error:
            raise ModelFailed(f"{error} (model {self.model!r} at {self.url})") from None

    def _read(self, response: Any, deadline: float) -> str:  # noqa: ANN401 - of an optional package
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if time.monotonic() > deadline:
                raise call_errors.timed_out(self.url, self._timeout_s)
            if len(data) > _MAX_BYTES:
                raise ModelFailed(f"{self.url} sent over {_MAX_BYTES:,} bytes, which is no reply")
        return data.decode("utf-8", "replace")

    def _redacted(self, text: str, *, min_length: int) -> str:
        """Replace the key, if it has at least `min_length` characters."""
        return text.replace(self._key, "[key]") if len(self._key) >= min_length else text

    @cached_property
    def _client(self) -> Any:  # noqa: ANN401 - of an optional package
        openai = extra("mllm", "openai")
        try:
            transport = openai.DefaultHttpxClient(follow_redirects=False, timeout=self._timeout_s)
            client = openai.OpenAI(
                api_key=self._key or _NO_KEY,
                base_url=self.url,
                max_retries=0,
                http_client=transport,
            )
        except Exception as error:
            raise ModelFailed(
                f"no client can be made for {self.url} ({type(error).__name__}): check mllm_url, "
                "and the OPENAI_* and proxy variables of the environment"
            ) from None
        weakref.finalize(self, client.close)
        return client


def _pause(failures: int, error: CallError) -> float | None:
    """Return the seconds until the next retry, with jitter; None if no retry can help."""
    if not error.retryable or (error.pause_s or 0) > call_errors.MAX_PAUSE_S:
        return None
    step: float = min(_FIRST_PAUSE_S * 2.0**failures, _MAX_PAUSE_S) * random.uniform(0.5, 1)
    return step if error.pause_s is None else error.pause_s + step / 4


def _checked_address(given: str) -> str:
    try:
        parts = urlsplit(given)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not given.isprintable() or " " in given:
        raise ModelFailed(
            "the address of the multimodal model's endpoint (mllm_url or OPENAI_BASE_URL) is not "
            "an http:// or https:// address: expected one such as http://localhost:11434/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ModelFailed(
            f"the address of the endpoint at {parts.hostname} holds a name, a password or a "
            "query, which logs would show: give the plain address, and the key in OPENAI_API_KEY"
        )
    return given.rstrip("/")


def _key_from_environment() -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelFailed(
            "OPENAI_API_KEY holds characters that no key contains: copy the key into it again"
        )
    return key
