"""What of a request an endpoint does not understand, found out once and remembered.

Not all endpoints take a JSON schema; models that reason take no temperature, and call the longest
reply by another name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ku_rag.mllm import schema
from ku_rag.mllm.failures import Failure

_FORMAT = "response_format"
_REFUSING = frozenset({400, 404, 415, 422})
_FAILING = frozenset({500, 501})
"""What some servers say about a response_format that they do not know."""
_OPTIONAL = {
    _FORMAT: re.compile(r"response_format|json.?schema|structured output|grammar", re.I),
    "temperature": re.compile(r"\btemperature\b", re.I),
    "max_tokens": re.compile(r"\bmax_tokens\b", re.I),
    "seed": re.compile(r"\bseed\b", re.I),
}


class Dialect:
    """What one endpoint does not take. Threads may share it: it only ever grows."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def describe_objects(self) -> None:
        """Ask for objects in words from now on: a schema was taken and not kept to."""
        self._refused.add(_FORMAT)

    def adapted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A request as the endpoint takes it, as far as it is known."""
        sent = {name: value for name, value in body.items() if name not in self._refused}
        if "max_tokens" in body and "max_tokens" in self._refused:
            sent["max_completion_tokens"] = body["max_tokens"]
        if _FORMAT in body and _FORMAT in self._refused:
            words = schema.in_words(body[_FORMAT]["json_schema"]["schema"])
            *before, last = body["messages"]
            sent["messages"] = [*before, {**last, "content": _longer(last["content"], words)}]
        return sent

    def concerns(self, failure: Failure, sent: Mapping[str, Any]) -> bool:
        """Whether a failure is about a part of the request that can be said otherwise."""
        return self._blamed(failure, sent) is not None

    def learn(self, failure: Failure, sent: Mapping[str, Any]) -> bool:
        """Remember what a failure is about; False where it is about nothing that can be changed."""
        blamed = self._blamed(failure, sent)
        if blamed is None:
            return False
        self._refused.add(blamed)
        return True

    def _blamed(self, failure: Failure, sent: Mapping[str, Any]) -> str | None:
        said = failure.param or failure.said
        blamed = [n for n, words in _OPTIONAL.items() if n in sent and words.search(said)]
        if failure.status in _REFUSING:
            return next(iter(blamed), None)
        return _FORMAT if failure.status in _FAILING and _FORMAT in blamed else None


def _longer(content: str | list[dict[str, Any]], words: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return f"{content}\n\n{words}"
    return [*content, {"type": "text", "text": words}]
