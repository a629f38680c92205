"""Optional parameters that an endpoint rejects, learned from its errors.

Some endpoints do not support JSON schemas; reasoning models reject `temperature` and expect
`max_completion_tokens` instead of `max_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ku_rag.mllm.call_errors import CallError
from ku_rag.mllm.structured_output import schema_instruction

_FORMAT = "response_format"
_REJECTING = frozenset({400, 404, 415, 422})
_FORMAT_FAILING = frozenset({500, 501})
"""Some servers report an unknown response_format as an internal error."""
_OPTIONAL = {
    _FORMAT: re.compile(r"response_format|json.?schema|structured output|grammar", re.I),
    "temperature": re.compile(r"\btemperature\b", re.I),
    "max_tokens": re.compile(r"\bmax_tokens\b", re.I),
    "seed": re.compile(r"\bseed\b", re.I),
}


class Capabilities:
    """Parameters that one endpoint rejects. The set only grows, so threads may share it."""

    def __init__(self) -> None:
        self._rejected: set[str] = set()

    def disable_schemas(self) -> None:
        """Request objects in words from now on."""
        self._rejected.add(_FORMAT)

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request without rejected parameters, or with their replacements."""
        sent = {name: value for name, value in body.items() if name not in self._rejected}
        if "max_tokens" in body and "max_tokens" in self._rejected:
            sent["max_completion_tokens"] = body["max_tokens"]
        if _FORMAT in body and _FORMAT in self._rejected:
            instruction = schema_instruction(body[_FORMAT]["json_schema"]["schema"])
            *before, last = body["messages"]
            content = last["content"]
            if isinstance(content, str):
                content = f"{content}\n\n{instruction}"
            else:
                content = [*content, {"type": "text", "text": instruction}]
            sent["messages"] = [*before, {**last, "content": content}]
        return sent

    def learn(self, error: CallError, sent: Mapping[str, Any]) -> bool:
        """Record the parameter that an error rejects; return whether there is one."""
        text = error.param or error.reason
        named = [n for n, pattern in _OPTIONAL.items() if n in sent and pattern.search(text)]
        if error.status in _FORMAT_FAILING:
            named = [name for name in named if name == _FORMAT]
        elif error.status not in _REJECTING:
            named = []
        self._rejected.update(named[:1])
        return bool(named)
