"""What can go wrong at an endpoint, told in one sentence each, and whether to try again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ku_rag.mllm.wire import plain, reason_in

LONGEST_ASKED_S = 60.0
"""An endpoint that asks to be left alone for longer is not waited for."""

_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that brought no reply.

    Args:
        message: what happened and what to do.
        again: whether the same call may go well later.
        after_s: seconds that the endpoint asks to be left alone for; None if it names none.
        status: of the HTTP response, 0 where there was none.
        param: the parameter that the endpoint blames, if it names one.
        said: what it said in its own words.
    """

    message: str
    again: bool = False
    after_s: float | None = None
    status: int = 0
    param: str = ""
    said: str = ""


def explain(error: Any, url: str, model: str, *, has_key: bool) -> Failure:  # noqa: ANN401
    """What an error of the `openai` package means.

    Args:
        error: an `openai.OpenAIError`.
        url: the endpoint's address.
        model: as it was asked for.
        has_key: whether a key was sent.
    """
    response = getattr(error, "response", None)
    if response is None:
        return _unreached(error, url)
    status = int(response.status_code)
    body = getattr(error, "body", None)
    said = reason_in(body)
    quoted = f": {said}" if said else ""
    again = status in _BUSY
    if status in (401, 403):
        wants = "refuses the key" if has_key else "wants a key"
        message = f"{url} {wants} ({status}){quoted}; set OPENAI_API_KEY to one that it takes"
    elif status == 404:
        message = (
            f"{url} knows no model {model!r}, or is not the whole address (404){quoted}; "
            "addresses often end in /v1"
        )
    elif status == 413:
        message = f"the request is too large for {url} (413){quoted}; lower mllm_image_side"
    elif status == 429:
        again = getattr(error, "code", None) != "insufficient_quota"
        message = f"{url} takes no more calls for now (429){quoted}; " + (
            "lower mllm_concurrency or try later" if again else "see the account's plan"
        )
    elif again or status >= 500:
        message = f"{url} failed ({status}){quoted}; try later, or see its log"
    else:
        message = f"{url} refuses the request ({status}){quoted}"
    pause = _asked_pause(response.headers)
    if again and (pause or 0) > LONGEST_ASKED_S:
        message += f" (it asks for a pause of {pause:,.0f} s)"
    return Failure(
        message,
        again=again,
        after_s=pause,
        status=status,
        param=str(getattr(error, "param", None) or ""),
        said=said,
    )


def _unreached(error: BaseException, url: str) -> Failure:
    kinds = [type(one).__name__ for one in _causes(error)]
    if any("Timeout" in kind for kind in kinds):
        return Failure(
            f"{url} did not reply in time: raise mllm_timeout_s, or see whether it is overloaded",
            again=True,
        )
    refused = any(isinstance(one, ConnectionRefusedError) for one in _causes(error))
    if refused or any("refused" in str(one) for one in _causes(error)):
        return Failure(f"nothing answers at {url} (connection refused): start it, or set mllm_url")
    return cut_off(error, url)


def cut_off(error: BaseException, url: str) -> Failure:
    """The connection could not be made, or broke before the reply was whole."""
    *_, cause = _causes(error)
    reason = " ".join(plain(str(cause)).split())[:200] or type(cause).__name__
    return Failure(
        f"the connection to {url} failed ({reason}): see whether the address is right and the "
        "endpoint is up",
        again=True,
    )


def _causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while (above := found[-1].__cause__ or found[-1].__context__) and above not in found:
        found.append(above)
    return found


def unreadable(text: str, url: str) -> Failure:
    """A reply that is no JSON."""
    start = " ".join(plain(text[:200]).split())[:60]
    if start.startswith("<"):
        return Failure(
            f"{url} replied with a web page: give the whole address, often ending in /v1"
        )
    return Failure(
        f"{url} replied with what is no JSON (it starts with {start!r}): see its log", again=True
    )


def _asked_pause(headers: Mapping[str, str]) -> float | None:
    """Seconds in Retry-After, which may be a date."""
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        try:
            then = parsedate_to_datetime(given)
            seconds = (then - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if not math.isnan(seconds) else None
