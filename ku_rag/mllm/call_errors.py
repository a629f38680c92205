"""Failed calls of an endpoint: one sentence each, and whether a retry can help."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ku_rag.errors import ModelFailed
from ku_rag.mllm.base import Reply, remove_control_characters

MAX_PAUSE_S = 60.0
"""Calls are not retried if the endpoint asks for a longer pause."""

_RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_REJECTING = frozenset({400, 405, 406, 415, 422})
_FAILING = frozenset({500, 501})
"""Some servers report a response format that they do not know as an internal error."""
_ADVICE = {
    300: "redirects are not followed; set {setting} to the final address",
    400: "change the request, or use another model",
    401: "set OPENAI_API_KEY to a valid key",
    403: "set OPENAI_API_KEY to a key that may use the model",
    404: "name a model that `ku models ping` lists, or the complete address, often ending in /v1",
    413: "lower mllm_image_side",
    429: "lower mllm_concurrency, try later, or check the account's plan",
    500: "try later, or check the endpoint's log",
}
_OPTIONAL_PARAMETERS = frozenset({"temperature", "max_tokens", "max_completion_tokens"})
_FORMATS = re.compile(r"response_format|json.?schema|structured output|grammar", re.I)
_PICTURES = re.compile(
    r"\b(at most|only|one|single|multiple|many|more than|maximum|up to|limit)\b.*\bimages?\b", re.I
)
_NO_PICTURES = re.compile(
    r"at most 0 image|image input is not supported|not a multi-?modal|data required for image|"
    r"(?:not|n't) support (?:images?(?: inputs?)?(?=[.,;:!)\"']|\s*$)|vision|multi-?modal)|"
    r"unknown variant .image_url|"
    r"image_url is only supported|image_url.{0,20}not supported|content must be a string",
    re.I,
)
"""What llama.cpp, vLLM, Ollama, OpenAI, DeepSeek and Groq say of pictures for models of text."""
BOUNDS = ("maxLength", "maxItems", "minItems")
"""Limits of lengths in schemas."""


class PicturesNotSeen(ModelFailed):
    """The model sees fewer pictures than the request needs."""


class TruncatedReply(ModelFailed):
    """The model reached the limit of tokens; `reply` is the truncated reply."""

    def __init__(self, message: str, reply: Reply) -> None:
        super().__init__(message)
        self.reply = reply


class CallError(ModelFailed):
    """One call failed; the endpoint may name a pause in seconds and a parameter that it rejects."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        pause_s: float | None = None,
        status: int = 0,
        param: str = "",
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.retryable, self.pause_s = retryable, pause_s
        self.status, self.param, self.reason = status, param, reason

    @property
    def is_of_request(self) -> bool:
        """Whether the endpoint answered, and another request may succeed."""
        return self.status in _REJECTING | _FAILING | {413}


def connection_error(error: BaseException, url: str, setting: str) -> CallError:
    """Return the error of a connection that could not be made, or was lost."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    reason = " ".join(remove_control_characters(str(error)).split())[:200] or type(error).__name__
    if isinstance(error, ConnectionRefusedError):
        return CallError(
            f"nothing answers at {url} (connection refused): start it, or set {setting}"
        )
    return CallError(
        f"the connection to {url} failed ({reason}): check the address, and whether the endpoint "
        "is running",
        retryable=True,
    )


def checked_body(
    status: int, text: str, headers: Mapping[str, str], *, url: str, model: str, setting: str
) -> object:
    """Return the JSON value of a response; some endpoints report an error with status 200."""
    try:
        body: object = json.loads(text)
    except (ValueError, RecursionError):
        if 200 <= status < 300:
            start = " ".join(remove_control_characters(text[:200]).split())[:60]
            if start.startswith("<"):
                raise CallError(
                    f"{url} replied with a web page: give the complete address, often ending in /v1"
                ) from None
            raise CallError(
                f"the reply of {url} is not JSON (it starts with {start!r})", retryable=True
            ) from None
        body = None
    choices = _field(body, "choices")
    source = choices[0] if isinstance(choices, list) and choices else body
    reason, error = _error_reason(source), _field(source, "error")
    if 200 <= status < 300:
        if not reason or (choices and not error):
            return body
        code = _field(error, "code") or _field(body, "code")
        status = code if type(code) is int and 400 <= code < 600 else 500
    retryable = status in _RETRYABLE and _field(error, "code") != "insufficient_quota"
    advice = _ADVICE.get(status, _ADVICE[min(status // 100 * 100, 500)]).format(setting=setting)
    message = f"{url} replied with status {status} to a request for {model!r}"
    message += f" ({reason}): {advice}" if reason else f": {advice}"
    after = headers.get("retry-after", "").strip()
    pause = float(after) if after.isascii() and after.isdigit() else None  # not for a date
    if retryable and (pause or 0) > MAX_PAUSE_S:
        message += f" (it asks for a pause of {pause:,.0f} s)"
    raise CallError(
        message,
        retryable=retryable,
        pause_s=pause,
        status=status,
        param=str(_field(error, "param") or ""),
        reason=reason,
    )


def _error_reason(body: object) -> str:
    """Return the message in an error body, one line of at most 300 characters; "" if none."""
    value = body
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    if not isinstance(value, str):
        return ""
    return " ".join(remove_control_characters(value).split())[:300]


def _field(value: object, name: str) -> Any:  # noqa: ANN401 - JSON
    return value.get(name) if isinstance(value, dict) else None


def rejected_feature(error: CallError, sent: Mapping[str, Any], pictures: int) -> str:
    """Return what an error says, or may mean, that the endpoint does not support.

    It is a parameter of the request, "bounds" of lengths in its schema, "json_schema" or
    "json_object" as its response format, "pictures" for more than one, or "vision" for any; or "".
    """
    text = error.param or error.reason
    if error.status in _REJECTING:
        for name in _OPTIONAL_PARAMETERS & sent.keys():
            if re.search(rf"\b{name}\b", text):
                return name
    if pictures and error.status in _REJECTING | _FAILING and _NO_PICTURES.search(error.reason):
        return "vision"
    if error.status in _REJECTING | _FAILING and _PICTURES.search(text):
        return "pictures" if pictures > 1 else ""
    schema = json.dumps(sent.get("response_format", {}))
    if any(bound in error.reason and f'"{bound}"' in schema for bound in BOUNDS):
        return "bounds"
    if _FORMATS.search(text) or (error.status in _REJECTING | _FAILING and not error.param):
        return str(sent.get("response_format", {}).get("type", ""))
    return ""
