"""Objects in replies: asked for in words, found in text, checked against a JSON schema.

The checker knows the words below and no others; a schema that uses more is refused when a request
is made, so that nothing passes unchecked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}
_WORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "description"}
    | {"minItems", "maxItems", "minimum", "maximum"}
)
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_MOST_STARTS = 50


def unknown_words(schema: Mapping[str, Any]) -> list[str]:
    """The words of a schema that replies are not checked for."""
    found = {word for part in _parts(schema) for word in part if word not in _WORDS}
    extra = {
        f"additionalProperties: {part['additionalProperties']!r}"
        for part in _parts(schema)
        if not isinstance(part.get("additionalProperties", False), bool)
    }
    return sorted(found | extra)


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from _parts(inner)
    if "items" in schema:
        yield from _parts(schema["items"])


def problem(value: object, schema: Mapping[str, Any], at: str = "the reply") -> str:
    """What of a value does not fit a schema, as a clause; "" where it fits.

    Args:
        value: as `json.loads` gives it.
        schema: of the words that this module knows.
        at: what the value is called.
    """
    wanted = schema.get("type", list(_TYPES))
    kinds = [wanted] if isinstance(wanted, str) else wanted
    if not any(_TYPES[kind](value) for kind in kinds):
        return f"{at} is {_short(value)}, expected {' or '.join(kinds)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return f"{at} is {_short(value)}, expected one of {json.dumps(schema['enum'])}"
    if isinstance(value, dict):
        return _object_problem(value, schema, at)
    if isinstance(value, list):
        return _array_problem(value, schema, at)
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = schema.get("minimum", value), schema.get("maximum", value)
        if not least <= value <= most:
            return f"{at} is {value}, expected {least} to {most}"
    return ""


def _object_problem(value: dict[str, Any], schema: Mapping[str, Any], at: str) -> str:
    properties = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"{at} has no {json.dumps(missing[0])}"
    more = [name for name in value if name not in properties]
    if more and schema.get("additionalProperties") is False:
        return f"{at} has {_short(more[0])}, which is not expected"
    found = (
        problem(value[name], inner, f"{at}'s {json.dumps(name)}")
        for name, inner in properties.items()
        if name in value
    )
    return next(filter(None, found), "")


def _array_problem(value: list[Any], schema: Mapping[str, Any], at: str) -> str:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        return f"{at} has {len(value)} items, expected {least} to {most}"
    inner = schema.get("items", {})
    found = (problem(one, inner, f"item {n} of {at}") for n, one in enumerate(value, 1))
    return next(filter(None, found), "")


def _same(a: object, b: object) -> bool:
    """Equal as JSON has it: true is not 1."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def extract(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Find the object in a reply: the whole of it, in a code fence, or among other words.

    Returns:
        The first object that fits, and ""; or None and what is wrong, as a clause.
    """
    wrong = "the reply holds no JSON object"
    known = schema.get("properties")
    for every in _objects(text):
        # What a model says beyond what it was asked does no harm.
        found = {k: v for k, v in every.items() if known is None or k in known}
        reason = problem(found, schema)
        if not reason:
            return found, ""
        wrong = reason
    return None, wrong


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    for body in [text, *_FENCED.findall(text)]:
        end = 0
        starts = [match.start() for match in re.finditer(r"\{", body)]
        for start in starts[:_MOST_STARTS]:
            if start < end:
                continue
            try:
                value, end = decoder.raw_decode(body, start)
            except (ValueError, RecursionError):
                continue
            yield value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is beyond what a number can be")
    return number


def in_words(schema: Mapping[str, Any]) -> str:
    """The instruction that asks for an object where an endpoint takes no schema."""
    return (
        "Reply with one JSON object and nothing else: no code fence, no words before or after it. "
        f"It must fit this JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
    )
