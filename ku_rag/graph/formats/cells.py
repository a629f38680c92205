"""What formats without lists and objects write into one text: a cell, an attribute."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ku_rag.errors import BadInput

LISTS = frozenset({"aliases", "images", "videos", "keyframes", "texts"})
_TRUE = frozenset({"true", "yes", "1", "x"})
_FALSE = frozenset({"false", "no", "0", ""})


def read(field: str, value: str) -> Any:  # noqa: ANN401 - a text, list, object or truth
    """The value of a field of an entity, from its text.

    Lists are JSON or parts between "|" or ";", objects are JSON.

    Raises:
        BadInput: it is none.
    """
    if field in LISTS:
        return _list(field, value)
    if field in ("topic", "match"):
        return _truth(field, value)
    if field == "metadata":
        return _json(field, value)
    return value


def write(value: Any) -> str:  # noqa: ANN401 - as in `read`
    """The text of a value, as `read` reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def storable(text: str) -> str:
    """A text without the characters that XML cannot hold; "�" stands for them."""
    return _UNSTORABLE.sub("\ufffd", text)


_UNSTORABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def fields(data: Mapping[str, Any]) -> dict[str, str]:
    """The fields of an entity as texts; those that say nothing are left out."""
    return {
        key: storable(write(value))
        for key, value in data.items()
        if value is not None and value != "" and value != [] and value != {}
    }


def _list(field: str, value: str) -> list[str]:
    if value.lstrip().startswith("["):
        found = _json(field, value)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise BadInput(f'"{field}" is {value[:60]!r}: expected a list of texts')
        return found
    if field == "texts":
        return [value]
    mark = "|" if "|" in value else ";"
    return [part.strip() for part in value.split(mark) if part.strip()]


def _truth(field: str, value: str) -> bool:
    said = value.strip().casefold()
    if said not in _TRUE | _FALSE:
        raise BadInput(f'"{field}" is {value[:60]!r}: expected true or false')
    return said in _TRUE


def _json(field: str, value: str) -> Any:  # noqa: ANN401 - whatever stands there
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise BadInput(f'"{field}" is {value[:60]!r}, which is no JSON ({error})') from error
