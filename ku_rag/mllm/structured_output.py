"""JSON objects in replies: find them in text, validate them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ku_rag.arguments import no_constant
from ku_rag.mllm.base import LONGEST_TEXT, remove_control_characters
from ku_rag.plugins import extra
from ku_rag.text.tokens import name_key

TEXT: Mapping[str, Any] = {"type": "string", "maxLength": 2_000}
LINE: Mapping[str, Any] = {"type": "string", "maxLength": 500}
BOOLEAN: Mapping[str, Any] = {"type": "boolean"}
"""Schemas of properties. A grammar of llama.cpp repeats a character at most 2,000 times."""

_MOST_ITEMS = 50
_MOST_STARTS = 50
_MAX_MESSAGE = 200
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")


def list_of(items: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": items, "maxItems": _MOST_ITEMS}


def choice(options: Iterable[str | int]) -> Mapping[str, Any]:
    """Return the schema of one of these texts or of one of these numbers, at least one."""
    options = [*dict.fromkeys(options)]
    return {"type": "integer" if isinstance(options[0], int) else "string", "enum": options}


def object_schema(*required: str, **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of an object with these properties, of which some may not be missing."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def extract_object(text: str, schema: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Find the object in a reply, which may stand in a code fence or between words.

    Properties that the schema does not name are dropped. Values of another type are converted where
    their meaning is plain, longer ones are cut, and a property that is not required is dropped if
    it does not fit. Choices in the items of a list are not checked: the caller drops unknown ones,
    so that one of them does not cost the others. Returns the last object that fits, and ""; or None
    and the problem, as a clause.

    Raises:
        MissingExtra: jsonschema is not installed.
    """
    jsonschema = extra("mllm", "jsonschema")
    validator = jsonschema.Draft202012Validator(schema)
    problem = ""
    required = schema.get("required", ())
    sources = dict.fromkeys((text, _TRAILING_COMMA.sub("", text)))
    for value in (item for source in sources for item in reversed([*_objects(source)])):
        data = _convert(value, schema)
        errors = [
            error
            for error in validator.iter_errors(data)
            if not (error.validator == "enum" and any(isinstance(part, int) for part in error.path))
        ]
        loose = {error.path[0] for error in errors if error.path and error.path[0] not in required}
        data = {name: item for name, item in data.items() if name not in loose}
        left = [error for error in errors if not (error.path and error.path[0] in loose)]
        error = jsonschema.exceptions.best_match(left)
        if error is None:
            return data, ""
        message = " ".join(error.message.split())[:_MAX_MESSAGE]
        problem = problem or f"the reply does not fit the schema ({error.json_path}: {message})"
    return None, problem or "the reply holds no JSON object"


def _convert(value: Any, schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with small slips mended: numbers as texts, one item without its list."""
    kind = schema.get("type")
    if kind == "object" and isinstance(value, dict):
        fields: Mapping[str, Any] = schema.get("properties", {name: {} for name in value})
        return {name: _convert(value[name], fields[name]) for name in fields if name in value}
    if kind == "array":
        items = value if isinstance(value, list) else [] if value in (None, "") else [value]
        most = schema.get("maxItems", _MOST_ITEMS)
        return [_convert(item, schema.get("items", {})) for item in items[:most]]
    if kind == "string" and isinstance(value, list):
        value = ", ".join(str(_convert(item, schema)) for item in value[:_MOST_ITEMS])
    if kind == "string" and not isinstance(value, str | dict):
        value = "" if value is None else json.dumps(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        value = remove_control_characters(value[: schema.get("maxLength", LONGEST_TEXT)])
        if kind == "string":
            options = (o for o in schema.get("enum", ()) if name_key(o) == name_key(value))
            return value if value in schema.get("enum", ()) else next(options, value)
        if kind in ("boolean", "integer", "number"):
            try:
                return _convert(json.loads(value.strip().lower()), schema)
            except (ValueError, RecursionError):
                return value
    return value


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Return the objects in a text, in order; of very many only the first and the last."""
    decoder = json.JSONDecoder(strict=False, parse_constant=no_constant)
    end, first, last = 0, [text.find("{")], [text.rfind("{")]
    for _ in range(_MOST_STARTS):
        first.append(text.find("{", first[-1] + 1) if first[-1] >= 0 else -1)
        last.append(text.rfind("{", 0, last[-1]) if last[-1] >= 0 else -1)
    for start in sorted({*first, *last} - {-1}):
        if start < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        yield value
