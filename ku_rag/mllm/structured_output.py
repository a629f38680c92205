"""JSON objects in replies: request them in words, find them in text, validate them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ku_rag.plugins import extra

_MAX_STARTS = 50
_MAX_MESSAGE = 200


def extract_object(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Find the object in a reply, which may stand in a code fence or between words.

    Properties that the schema does not name are dropped.

    Args:
        text: the reply.
        schema: a JSON schema, draft 2020-12.

    Returns:
        The first object that fits, and ""; or None and the problem, as a clause.

    Raises:
        MissingExtra: jsonschema is not installed.
    """
    jsonschema = extra("mllm", "jsonschema")
    validator = jsonschema.Draft202012Validator(schema)
    known = schema.get("properties")
    problem = "the reply holds no JSON object"
    for value in _objects(text):
        found = {k: v for k, v in value.items() if known is None or k in known}
        error = jsonschema.exceptions.best_match(validator.iter_errors(found))
        if error is None:
            return found, ""
        message = " ".join(error.message.split())[:_MAX_MESSAGE]
        problem = f"the reply does not fit the schema ({error.json_path}: {message})"
    return None, problem


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
    end = 0
    starts = [match.start() for match in re.finditer(r"\{", text)]
    for start in starts[:_MAX_STARTS]:
        if start < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is out of range")
    return number


def schema_instruction(schema: Mapping[str, Any]) -> str:
    """Return the instruction for endpoints that do not support JSON schemas."""
    return (
        "Reply with one JSON object and nothing else: no code fence, no words before or after it. "
        f"It must fit this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
