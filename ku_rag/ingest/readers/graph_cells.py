"""Fields of entities as single texts, for GraphML attributes and cells of workbooks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ku_rag.errors import BadInput

_LISTS = frozenset({"aliases", "images", "videos", "keyframes", "texts"})
_TRUE = frozenset({"true", "yes", "1", "x"})
_FALSE = frozenset({"false", "no", "0", ""})
_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def parse_cell(field: str, text: str) -> Any:  # noqa: ANN401 - a text, list, object or boolean
    """Parse a field of an entity; lists are JSON, or parts between "|" or ";", objects JSON."""
    if field in _LISTS and not text.lstrip().startswith("["):
        separator = "|" if "|" in text else ";"
        if field == "texts":
            return [text]
        return [part.strip() for part in text.split(separator) if part.strip()]
    if field in ("topic", "match"):
        if (word := text.strip().casefold()) not in _TRUE | _FALSE:
            raise BadInput(f'"{field}" is {text[:60]!r}: expected true or false')
        return word in _TRUE
    if field not in _LISTS and field != "metadata":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f'"{field}" is {text[:60]!r}, which is no JSON ({error})') from error


def format_cells(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that have a value as texts that `parse_cell` reads and XML can hold."""
    return {
        key: _NOT_XML.sub(
            "\ufffd", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        for key, value in data.items()
        if value not in (None, "", [], {})
    }
