"""Failed calls of an endpoint: one sentence each, and whether a retry can help."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ku_rag.errors import ModelFailed
from ku_rag.mllm.base import remove_control_characters
from ku_rag.mllm.encoding import count_pictures

MAX_PAUSE_S = 60.0
"""Calls are not retried if the endpoint asks for a longer pause."""

_RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_REJECTING = frozenset({400, 405, 406, 415, 422})
_FAILING = frozenset({500, 501})
"""Some servers report a response format that they do not know as an internal error."""
_OPTIONAL_PARAMETERS = frozenset({"temperature", "max_tokens", "max_completion_tokens", "seed"})
_FORMATS = re.compile(r"response_format|json.?schema|structured output|grammar", re.I)
_PICTURES = re.compile(
    r"\b(at most|only|one|single|multiple|many|more than|maximum|up to|limit)\b.*\bimages?\b", re.I
)


class CallError(ModelFailed):
    """One call failed.

    Args:
        message: what happened and what to do.
        retryable: whether the same call may succeed later.
        pause_s: seconds that the endpoint asks to wait; None if it does not say.
        status: of the HTTP response, 0 if there was none.
        param: the request parameter that the endpoint rejects, if it names one.
        reason: the endpoint's own error message.
    """

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


def timed_out(url: str, seconds: float) -> CallError:
    """Return the error of a call that did not end before its deadline."""
    return CallError(
        f"{url} did not reply within {seconds:g} s: raise mllm_timeout_s, or check whether the "
        "endpoint is overloaded"
    )


def connection_error(error: BaseException, url: str) -> CallError:
    """Return the error of a connection that could not be made, or was lost."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    reason = " ".join(remove_control_characters(str(error)).split())[:200] or type(error).__name__
    if isinstance(error, ConnectionRefusedError):
        return CallError(
            f"nothing answers at {url} (connection refused): start it, or set mllm_url"
        )
    return CallError(
        f"the connection to {url} failed ({reason}): check the address, and whether the endpoint "
        "is running",
        retryable=True,
    )


def checked_body(
    status: int, text: str, headers: Mapping[str, str], *, url: str, model: str, has_key: bool
) -> object:
    """Return the JSON value of a response; some endpoints report an error with status 200.

    Args:
        status: of the response.
        text: its body.
        headers: its headers.
        url: the endpoint's address.
        model: the model's name in the request.
        has_key: whether a key was sent.

    Raises:
        CallError: the response reports an error, or is not JSON.
    """
    try:
        body: object = json.loads(text)
    except (ValueError, RecursionError):
        if 200 <= status < 300:
            raise _not_json(text, url) from None
        body = None
    choices = _field(body, "choices")
    source = choices[0] if isinstance(choices, list) and choices else body
    reason, error = _error_reason(source), _field(source, "error")
    if 200 <= status < 300:
        if not reason or (choices and not error):
            return body
        code = _field(error, "code") or _field(body, "code")
        status = code if type(code) is int and 400 <= code < 600 else 500
    quota = _field(error, "code") == "insufficient_quota"
    message = _status_message(status, reason, url, model, has_key=has_key, quota=quota)
    pause = _requested_pause(headers)
    retryable = status in _RETRYABLE and not quota
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
    found = body
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    if not isinstance(found, str):
        return ""
    return " ".join(remove_control_characters(found).split())[:300]


def _field(value: object, name: str) -> Any:  # noqa: ANN401 - JSON
    return value.get(name) if isinstance(value, dict) else None


def _status_message(
    status: int, reason: str, url: str, model: str, *, has_key: bool, quota: bool
) -> str:
    quoted = f": {reason}" if reason else ""
    if status in (401, 403):
        problem = "rejects the key" if has_key else "requires a key"
        return f"{url} {problem} ({status}){quoted}; set OPENAI_API_KEY to a valid one"
    if status == 404:
        return (
            f"{url} has no model {model!r}, or is not the complete address (404){quoted}; "
            "addresses often end in /v1"
        )
    if status == 413:
        return f"the request is too large for {url} (413){quoted}; lower mllm_image_side"
    if status == 429:
        advice = "check the account's plan" if quota else "lower mllm_concurrency or try later"
        return f"{url} accepts no more calls at present (429){quoted}; {advice}"
    if 300 <= status < 400:
        return (
            f"{url} redirects to another address ({status}), which is not followed: set mllm_url "
            "to the final address"
        )
    if status in _RETRYABLE or status >= 500:
        return f"{url} failed ({status}){quoted}; try later, or check its log"
    return f"{url} rejects the request ({status}){quoted}"


def rejected_feature(error: CallError, sent: Mapping[str, Any]) -> str:
    """Return what an error says, or may mean, that the endpoint does not support.

    Args:
        error: the error of a call.
        sent: the body of the request.

    Returns:
        A parameter of the request, "json_schema" or "json_object" as its response format, or
        "pictures" for more than one picture; "" if a request without it would fail as well.
    """
    said = error.param or error.reason
    if error.status in _REJECTING:
        for name in _OPTIONAL_PARAMETERS & sent.keys():
            if re.search(rf"\b{name}\b", said):
                return name
    if error.status in _REJECTING | _FAILING and _PICTURES.search(said):
        return "pictures" if count_pictures(sent) > 1 else ""
    if _FORMATS.search(said) or (error.status in _REJECTING | _FAILING and not error.param):
        return str(sent.get("response_format", {}).get("type", ""))
    return ""


def _not_json(text: str, url: str) -> CallError:
    """Return the error of a response that is not JSON."""
    start = " ".join(remove_control_characters(text[:200]).split())[:60]
    if start.startswith("<"):
        return CallError(
            f"{url} replied with a web page: give the complete address, often ending in /v1"
        )
    return CallError(f"the reply of {url} is not JSON (it starts with {start!r})", retryable=True)


def _requested_pause(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in Retry-After, which may be a date."""
    value = headers.get("retry-after", "")
    try:
        if value.strip().isdigit():
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
