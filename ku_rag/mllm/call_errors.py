"""Failed calls of an endpoint: one sentence each, and whether a retry can help."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ku_rag.errors import ModelFailed
from ku_rag.mllm.encoding import error_reason, remove_control_characters

MAX_PAUSE_S = 60.0
"""Calls are not retried if the endpoint asks for a longer pause."""

_RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


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


def timed_out(url: str, seconds: float) -> CallError:
    """Return the error of a call that did not end before its deadline."""
    return CallError(
        f"{url} did not reply within {seconds:g} s: raise mllm_timeout_s, or check whether the "
        "endpoint is overloaded",
        retryable=True,
    )


def connection_error(error: BaseException, url: str) -> CallError:
    """Return the error of a connection that could not be made, or was lost."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    reason = " ".join(remove_control_characters(str(error)).split())[:200] or type(error).__name__
    if "refused" in reason:
        return CallError(
            f"nothing answers at {url} (connection refused): start it, or set mllm_url"
        )
    return CallError(
        f"the connection to {url} failed ({reason}): check the address, and whether the endpoint "
        "is running",
        retryable=True,
    )


def status_error(error: Any, url: str, model: str, *, has_key: bool) -> CallError:  # noqa: ANN401
    """Return the error of a response that reports a failure.

    Args:
        error: an `openai.APIStatusError`.
        url: the endpoint's address.
        model: the model's name in the request.
        has_key: whether a key was sent.
    """
    status, reason = int(error.status_code), error_reason(error.body)
    quoted = f": {reason}" if reason else ""
    retryable = status in _RETRYABLE
    if status in (401, 403):
        problem = "rejects the key" if has_key else "requires a key"
        message = f"{url} {problem} ({status}){quoted}; set OPENAI_API_KEY to a valid one"
    elif status == 404:
        message = (
            f"{url} has no model {model!r}, or is not the complete address (404){quoted}; "
            "addresses often end in /v1"
        )
    elif status == 413:
        message = f"the request is too large for {url} (413){quoted}; lower mllm_image_side"
    elif status == 429:
        retryable = error.code != "insufficient_quota"
        message = f"{url} accepts no more calls at present (429){quoted}; " + (
            "lower mllm_concurrency or try later" if retryable else "check the account's plan"
        )
    elif 300 <= status < 400:
        message = (
            f"{url} redirects to another address ({status}), which is not followed: set mllm_url "
            "to the final address"
        )
    elif retryable or status >= 500:
        message = f"{url} failed ({status}){quoted}; try later, or check its log"
    else:
        message = f"{url} rejects the request ({status}){quoted}"
    pause = _requested_pause(error.response.headers)
    if retryable and (pause or 0) > MAX_PAUSE_S:
        message += f" (it asks for a pause of {pause:,.0f} s)"
    return CallError(
        message,
        retryable=retryable,
        pause_s=pause,
        status=status,
        param=str(error.param or ""),
        reason=reason,
    )


def not_json(text: str, url: str) -> CallError:
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
