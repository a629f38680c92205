"""A model behind an endpoint that speaks the chat-completions interface of OpenAI.

Tries are made here and not by the `openai` package: each counts in the budget, none holds one of
the places for calls while it waits, and how long it waits can be watched.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ku_rag.errors import ModelFailed
from ku_rag.mllm import schema, wire
from ku_rag.mllm.base import Reply, Request
from ku_rag.mllm.budget import Budget
from ku_rag.mllm.cache import ReplyCache, digest
from ku_rag.mllm.dialect import Dialect
from ku_rag.mllm.failures import LONGEST_ASKED_S, Failure, cut_off, explain, unreadable
from ku_rag.plugins import extra

_OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""Servers of one's own want no key, the package wants one."""

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0
_MOST_BYTES = 16 << 20
_SECRET = 12
"""Characters of a key that is one: servers that want none are given "x", "EMPTY" or "ollama",
which replies may hold."""


class EndpointMLLM:
    """A multimodal model behind an endpoint, such as OpenAI's, vLLM, Ollama or llama.cpp.

    The key is taken from OPENAI_API_KEY; it appears in no message, log or cache.

    Args:
        model: as the endpoint calls it.
        url: the endpoint's address; "" takes OPENAI_BASE_URL, or OpenAI's own.
        image_side: longest side in pixels of pictures that are sent.
        timeout_s: seconds to wait for a reply, each time.
        retries: how often a failed call is tried again.
        concurrency: most calls at once; further threads wait.
        budget: what it may use; None for no limit.
        cache: replies kept; None for none.
        wait: sleeps for so many seconds before a further try.

    Raises:
        ModelFailed: the address or the key is none, or there is neither of them.
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
        self.url = _address(given or _OPENAI)
        self._key = _key()
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
        self._dialect = Dialect()
        self._making = threading.Lock()
        self._made: Any = None

    def chat(self, request: Request) -> Reply:
        """Continue a conversation by one reply; see `MLLM`."""
        body = wire.body(request, self.model, self._image_side)
        key = digest({"url": self.url, "request": body})
        if self._cache and (kept := self._cache.get(key)):
            return kept
        reply = self._complete(body)
        if request.schema is not None:
            reply = self._checked(reply, body, request.schema)
        if self._cache:
            self._cache.put(key, reply)
        return reply

    def _checked(self, reply: Reply, body: Mapping[str, Any], wanted: Mapping[str, Any]) -> Reply:
        """The reply with the object in it, which may be asked for once more."""
        found, wrong = schema.extract(reply.text, wanted)
        if found is not None:
            return replace(reply, parsed=found)
        self._dialect.describe_objects()
        again = [
            {"role": "assistant", "content": reply.text},
            {"role": "user", "content": f"That cannot be used: {wrong}. Give the reply again."},
        ]
        second = self._complete({**body, "messages": [*body["messages"], *again]})
        found, wrong = schema.extract(second.text, wanted)
        if found is None:
            raise ModelFailed(
                f"the model {self.model!r} was asked for a JSON object twice, and {wrong}: "
                "use a model or an endpoint that can be held to a schema"
            )
        return replace(
            second,
            parsed=found,
            prompt_tokens=reply.prompt_tokens + second.prompt_tokens,
            completion_tokens=reply.completion_tokens + second.completion_tokens,
        )

    def _complete(self, body: Mapping[str, Any]) -> Reply:
        """Post a request, in other words where the endpoint does not understand some of it."""
        while True:
            sent = self._dialect.adapted(body)
            outcome = self._post(sent)
            if isinstance(outcome, Reply):
                return outcome
            if not self._dialect.learn(outcome, sent):
                raise ModelFailed(outcome.message)

    def _post(self, body: Mapping[str, Any]) -> Reply | Failure:
        attempt = 0
        while True:
            attempt += 1
            outcome = self._once(body)
            if isinstance(outcome, Reply):
                return outcome
            pause = _pause(attempt, outcome)
            if pause is None or self._dialect.concerns(outcome, body):
                return outcome
            if attempt > self._retries:
                tries = f" (tried {attempt} times)" if self._retries else ""
                return replace(outcome, message=outcome.message + tries)
            self._wait(pause)

    def _once(self, body: Mapping[str, Any]) -> Reply | Failure:
        with self._slots:
            self._budget.take_call()
            outcome = self._try(body)
            if isinstance(outcome, Reply):
                self._budget.add_tokens(outcome.prompt_tokens + outcome.completion_tokens)
        return outcome

    def _try(self, body: Mapping[str, Any]) -> Reply | Failure:
        """One call. What goes wrong is told in words of ours: errors of others hold secrets."""
        client = self._client()
        started = time.monotonic()
        try:
            with client.chat.completions.with_streaming_response.create(**body) as response:
                read = self._read(response, started)
        except extra("mllm", "openai").OpenAIError as error:
            failure = explain(error, self.url, self.model, has_key=bool(self._key))
            return replace(failure, message=self._hidden(failure.message, least=4))
        if isinstance(read, Failure):
            return read
        try:
            return wire.read_reply(self._hidden(read, least=_SECRET), body)
        except (ValueError, RecursionError):
            return unreadable(read, self.url)
        except ModelFailed as error:
            return Failure(f"{error} (model {self.model!r} at {self.url})")

    def _read(self, response: Any, started: float) -> str | Failure:  # noqa: ANN401 - the package's
        """The body; a server may neither drip for ever nor send without end."""
        data = bytearray()
        try:
            for piece in response.iter_bytes():
                data += piece
                if time.monotonic() - started > self._timeout_s:
                    return Failure(
                        f"{self.url} did not finish its reply within {self._timeout_s:g} s: "
                        "raise mllm_timeout_s",
                        again=True,
                    )
                if len(data) > _MOST_BYTES:
                    return Failure(f"{self.url} sent over {_MOST_BYTES:,} bytes, which is no reply")
        except Exception as error:  # the transport below the package raises its own kinds
            return cut_off(error, self.url)
        return data.decode("utf-8", "replace")

    def _hidden(self, text: str, *, least: int) -> str:
        """Without the key, should an endpoint repeat it, if it has at least so many characters."""
        return text.replace(self._key, "[key]") if len(self._key) >= least else text

    def _client(self) -> Any:  # noqa: ANN401 - the package's client, which is imported late
        with self._making:
            if self._made is None:
                package = extra("mllm", "openai")
                try:
                    self._made = package.OpenAI(
                        api_key=self._key or _NO_KEY,
                        base_url=self.url,
                        timeout=self._timeout_s,
                        max_retries=0,
                    )
                except Exception as error:  # the transport below the package raises its own kinds
                    kind = type(error).__name__
                    raise ModelFailed(
                        f"no client can be made for {self.url} ({kind}): check mllm_url, and the "
                        "OPENAI_* and proxy variables of the environment"
                    ) from None
                weakref.finalize(self, self._made.close)
            return self._made


def _pause(attempt: int, failure: Failure) -> float | None:
    """Seconds until a further try, half of them by chance; None where none would help."""
    if not failure.again or (failure.after_s or 0) > LONGEST_ASKED_S:
        return None
    step: float = min(_FIRST_WAIT_S * 2.0 ** (attempt - 1), _LONGEST_WAIT_S) * random.uniform(
        0.5, 1
    )
    return step if failure.after_s is None else failure.after_s + step / 4


def _address(given: str) -> str:
    try:
        parts = urlsplit(given)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or not given.isprintable() or " " in given:
        raise ModelFailed(
            "the address of the multimodal model's endpoint (mllm_url or OPENAI_BASE_URL) is no "
            "http:// or https:// address: expected one such as http://localhost:11434/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ModelFailed(
            f"the address of the endpoint at {parts.hostname} holds a name, a password or a "
            "query, which logs would show: give the plain address, and the key in OPENAI_API_KEY"
        )
    return given.rstrip("/")


def _key() -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ModelFailed(
            "OPENAI_API_KEY holds characters that no key has: copy the key into it again"
        )
    return key
