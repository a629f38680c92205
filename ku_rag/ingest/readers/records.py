"""From an object, a JSON line or a table row, to a record with one unit and one source.

A part that is wrong (a picture path, a relation) is left out and reported; the record is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import PartialSource, clean_name
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.picture_paths import locate_picture
from ku_rag.types import Cell, Quarantined, Record, Relation, Source, Table, Unit

_FIELDS = frozenset(
    {"id", "name", "kind", "aliases", "images", "text", "texts", "tables"}
) | frozenset({"metadata", "relations", "match"})

_A_LIST = "a list in square brackets"

T = TypeVar("T")


def is_storable(value: object) -> bool:
    """Whether no text in a JSON value holds a NUL character or half a surrogate pair."""
    if isinstance(value, str):
        return arguments.is_storable(value)
    if isinstance(value, dict):
        return all(is_storable(key) and is_storable(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(is_storable, value))


def read_record(data: Mapping[str, Any], path: Path, where: str) -> Iterator[Item]:
    """Yield what is wrong with parts of an object, then the record; see `Reader` on paths."""
    name = _name(data)
    stated_id = read_field(data, "id")
    identity = clean_name(stated_id) if stated_id is not None else name
    if not identity:
        raise BadInput('the "id" is empty: give one, or leave it out to use the name')
    texts = ([text] if (text := read_field(data, "text")) else []) + read_texts(data, "texts")
    metadata = {key: value for key, value in data.items() if key not in _FIELDS}
    metadata |= checked_field(data, "metadata", dict, {}, "an object in curly brackets")
    match = checked_field(data, "match", bool, True, "true or false")
    relations, wrong_relations = _convert(
        checked_field(data, "relations", list, [], _A_LIST), "relations", _relation
    )
    tables, wrong_tables = _convert(
        checked_field(data, "tables", list, [], _A_LIST), "tables", _table
    )
    paths = read_texts(data, "images")
    images, wrong_images = _convert(paths, "images", lambda p: locate_picture(path.parent, p))
    unit = Unit(
        name=name,
        id=identity,
        kind=clean_name(read_field(data, "kind") or "") or None,
        aliases=tuple(dict.fromkeys(filter(None, map(clean_name, read_texts(data, "aliases"))))),
        metadata=metadata,
        relations=tuple(relations),
        match=match,
    )
    source = (PartialSource if wrong_images else Source)(
        f"{path.as_posix()}#{identity}",
        tuple(text for text in texts if text.strip()),
        tuple(dict.fromkeys(images)),
        tuple(tables),
    )
    for problem in wrong_relations + wrong_images + wrong_tables:
        yield Quarantined(where, f"{problem}; the rest of the record is kept")
    yield Record(unit, (source,))


def _name(data: Mapping[str, Any]) -> str:
    name = clean_name(read_field(data, "name") or "")
    if not name:
        seen = "is empty" if data.get("name") is not None else "is missing"
        graph = "; `ku graph import` reads graphs" if data.keys() & {"entity", "head"} else ""
        keys = ", ".join(repr(key[:40]) for key in list(data)[:8]) or "no fields"
        raise BadInput(f'"name" {seen}: every record needs a name; it has {keys}{graph}')
    return arguments.name(name, '"name"')


def _relation(data: object) -> Relation:
    if not isinstance(data, dict):
        raise BadInput(f'is {describe_value(data)}: expected {{"relation": …, "target": …}}')
    for key in ("relation", "target"):
        if not (read_field(data, key) or "").strip():
            raise BadInput(f'has no "{key}": expected {{"relation": …, "target": …}}; name it')
    return Relation(
        relation=clean_name(data["relation"]),
        target=clean_name(data["target"]),
        target_kind=(read_field(data, "target_kind") or "").strip() or None,
        information=read_field(data, "information") or None,
        condition=read_field(data, "condition") or None,
    )


def _table(data: object) -> Table:
    if not isinstance(data, dict):
        raise BadInput(
            f'is {describe_value(data)}: expected {{"name": …, "header": […], "rows": [[…]]}}'
        )
    rows = []
    for number, row in enumerate(checked_field(data, "rows", list, [], _A_LIST)):
        if not isinstance(row, list):
            raise BadInput(f"rows[{number}] is {describe_value(row)}: expected a list of cells")
        rows.append(tuple(map(_cell, row)))
    return Table(
        tuple(read_texts(data, "header")), tuple(rows), clean_name(read_field(data, "name") or "")
    )


def _cell(data: object) -> Cell:
    if isinstance(data, dict):
        return Cell(read_field(data, "text") or "", read_field(data, "link") or None)
    if isinstance(data, str | int | float | None):
        return Cell("" if data is None else str(data))
    raise BadInput(
        f'holds {describe_value(data)} as a cell: expected a text or {{"text": …, "link": …}}'
    )


def _convert(
    items: Sequence[Any], field: str, convert: Callable[[Any], T]
) -> tuple[list[T], list[str]]:
    """Convert the items of a field; return what was made and the problems of the others."""
    values, problems = [], []
    for number, item in enumerate(items):
        try:
            values.append(convert(item))
        except BadInput as error:
            problems.append(f"{field}[{number}] {error}")
    return values, problems


def read_field(data: Mapping[str, Any], key: str) -> str | None:
    """Return a text, or None where it is missing or null."""
    value: str | None = checked_field(data, key, str, None, "a text in quotation marks")
    return value


def read_texts(data: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts; an empty one where it is missing or null."""
    values: list[Any] = checked_field(data, key, list, [], _A_LIST)
    for value in values:
        if not isinstance(value, str):
            raise BadInput(f'"{key}" holds {describe_value(value)}: expected a list of texts')
    return values


def checked_field(
    data: Mapping[str, Any], key: str, kind: type, default: object, expected: str
) -> Any:  # noqa: ANN401 - of that type
    """Return a field, or the default where it is missing or null."""
    value = data.get(key)
    if not isinstance(value, kind | None):
        raise BadInput(f'"{key}" is {describe_value(value)}: expected {expected}')
    return default if value is None else value


def describe_value(value: object) -> str:
    """Describe a value in the terms of JSON, with its first characters, for a message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    kinds = {bool: "", int: "the number ", float: "the number ", str: "the text "}
    text = json.dumps(value, ensure_ascii=False)
    return kinds.get(type(value), "") + (text if len(text) <= 60 else text[:60] + "…")
