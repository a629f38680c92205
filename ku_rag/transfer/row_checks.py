"""What the rows of each table of an export may hold; nothing of a file is trusted before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ku_rag import arguments
from ku_rag.errors import BadInput
from ku_rag.ingest.assembly import Declaration
from ku_rag.store.content_rows import content_hash
from ku_rag.types import Relation, Unit

_ORIGINS = ("ingest", "add", "join", "update")
_DIGEST = re.compile("[0-9a-f]{64}")

Row = Mapping[str, Any]


def unit(row: Row) -> Unit:
    """The unit that a row of `units` describes.

    Raises:
        BadInput: it holds what it may not.
    """
    match = row.get("match")
    return Unit(
        name=arguments.identity(row["name"], "the name"),
        id=arguments.identity(row["id"], "the id"),
        kind=arguments.optional_text(row.get("kind"), "kind"),
        aliases=arguments.texts(row.get("aliases") or (), "aliases"),
        metadata=_object(row.get("metadata"), "metadata"),
        match=True if match is None else match,
    )


def declaration(row: Row) -> Declaration:
    """What a row of `sources` says of its unit.

    Raises:
        BadInput: it holds what it may not.
    """
    said = row.get("declared")
    if row.get("unit") is None or said is None:
        return Declaration()
    try:
        found = Declaration.from_json(said)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"what the source declares cannot be read: {error!r}") from error
    for name in ("name", "kind"):
        arguments.optional_text(getattr(found, name), name)
    if found.aliases is not None:
        arguments.texts(found.aliases, "aliases")
    if found.metadata is not None:
        arguments.json_object(found.metadata, "metadata")
    arguments.text(found.relations, "relations")
    for name in ("match", "replaces"):
        if not isinstance(getattr(found, name), bool):
            raise BadInput(f"{name} is {getattr(found, name)!r}: expected true or false")
    return found


def relation(row: Row) -> Relation:
    """The relation of a row of `relations`.

    Raises:
        BadInput: it holds what it may not.
    """
    return Relation(
        row["relation"],
        row["target"],
        row.get("target_kind"),
        row.get("information"),
        row.get("condition"),
    )


def _source(row: Row) -> None:
    arguments.identity(row["uri"], "the uri")
    _optional_identity(row["unit"], "the unit")
    arguments.optional_text(row.get("hash"), "the hash")
    if row.get("origin") not in (None, *_ORIGINS):
        raise BadInput(f"the origin is {row['origin']!r}: expected one of {', '.join(_ORIGINS)}")
    for name in ("chunks", "images", "text_order", "relation_order"):
        _number(row.get(name), name)
    declaration(row)


def _chunk(row: Row) -> None:
    arguments.text(row["text"], "the text")
    _optional_identity(row.get("unit"), "the unit")
    _optional_identity(row.get("source"), "the source")
    digest = row.get("hash")
    if digest is not None and digest != content_hash(row["text"]):
        raise BadInput("the text is not what its hash says")
    _number(row.get("document"), "the document")


def _image(row: Row) -> None:
    _digest(row["hash"])
    arguments.optional_text(row["file"], "the file")
    _number(row.get("order"), "the order")


def _showing(row: Row) -> None:
    _optional_identity(row.get("unit"), "the unit")
    _optional_identity(row.get("source"), "the source")
    _digest(row["image"])


def _related(row: Row) -> None:
    _optional_identity(row.get("unit"), "the unit")
    _optional_identity(row.get("source"), "the source")
    relation(row)


def _digest(value: object) -> None:
    if not _DIGEST.fullmatch(arguments.text(value, "the hash")):
        raise BadInput(f"the hash is {value!r}: expected 64 hexadecimal digits")


def _number(value: object, what: str) -> None:
    if value is not None and not (isinstance(value, int) and 0 <= value < 1 << 62):
        raise BadInput(f"{what} is {value!r}: expected a whole number from 0 on")


def _optional_identity(value: object, what: str) -> None:
    if value is not None:
        arguments.identity(value, what)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    try:
        found = json.loads(arguments.text(value, what))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{what} is no JSON: {error}") from error
    return arguments.json_object(found, what)


CHECKS: Mapping[str, Callable[[Row], object]] = {
    "units": unit,
    "sources": _source,
    "chunks": _chunk,
    "images": _image,
    "showings": _showing,
    "relations": _related,
    "entities": lambda _: None,
}
