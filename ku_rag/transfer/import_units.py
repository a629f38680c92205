"""From tables to whole units: all that an export says of one, together, one unit after another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from ku_rag.ingest.assembly import Declaration
from ku_rag.store import relations
from ku_rag.store.content_rows import content_hash
from ku_rag.transfer import row_checks
from ku_rag.transfer.parquet_reader import Chunk, Found, Halves
from ku_rag.transfer.tables import CHUNKS, RELATIONS, SHOWINGS, SOURCES, UNITS
from ku_rag.types import Relation, Unit

INCOMPLETE = "incomplete"
"""Stands for the hash of content of which something was lost, so that ingesting brings it back."""


@dataclass(slots=True)
class Part:
    """One source of a unit.

    Args:
        uri: its place.
        origin: "ingest", "add", "join" or "update".
        texts: hash of its texts.
        pictures: hash of its pictures.
        declared: what it says of its unit, as it is stored.
        chunks: (number of the document, text).
        vectors: of the chunks, float16[dim] each, or None.
        images: content hashes of the pictures that it shows.
        stated: its relations.
        text_order: when its texts were stored, compared with those of other sources.
        relation_order: when its relations were.
    """

    uri: str
    origin: str = "ingest"
    texts: str = INCOMPLETE
    pictures: str = INCOMPLETE
    declared: str = "{}"
    chunks: list[tuple[int, str]] = field(default_factory=list)
    vectors: list[Halves | None] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    stated: list[Relation] = field(default_factory=list)
    text_order: int = 0
    relation_order: int = 0

    @property
    def digest(self) -> str:
        """Both hashes, as they are stored and compared."""
        return f"{self.texts}:{self.pictures}" if self.pictures else self.texts

    def documents(self) -> list[str]:
        """Its texts, whole."""
        texts: dict[int, str] = {}
        for document, text in self.chunks:
            texts[document] = texts.get(document, "") + text
        return list(texts.values())


@dataclass(slots=True)
class Whole:
    """A unit with all its sources; without an id, texts that belong to no unit."""

    unit: str | None
    parts: list[Part]


class Gathering:
    """The whole units of an export.

    Args:
        found: the export. Everything but its chunks and vectors is held in memory.
    """

    def __init__(self, found: Found) -> None:
        self._found = found
        self._units = {row["id"]: row for row in found.rows(UNITS)}
        self._owners: dict[str, str | None] = {}
        self._sources: dict[str | None, list[dict[str, Any]]] = {}
        for row in found.rows(SOURCES):
            self._owners[row["uri"]] = row["unit"]
            self._sources.setdefault(row["unit"], []).append(row)
        self._mentioned: dict[str | None, dict[str, None]] = {}
        self._images: dict[tuple[str | None, str | None], list[str]] = {}
        for row in found.rows(SHOWINGS):
            self._images.setdefault(self._key(row), []).append(row["image"])
        self._stated: dict[tuple[str | None, str | None], list[Relation]] = {}
        for row in found.rows(RELATIONS):
            self._stated.setdefault(self._key(row), []).append(row_checks.relation(row))
        named = [unit for unit in self._sources if unit is not None]
        self._order: dict[str | None, int] = {
            unit: n for n, unit in enumerate(dict.fromkeys([*self._units, *named]))
        }
        self._order[None] = len(self._order)

    def __iter__(self) -> Iterator[Whole]:
        """Unit after unit, then the texts that belong to none, source by source."""
        by_unit = groupby(self._chunks(), key=lambda one: self._place(one.unit, one.source))
        coming = next(by_unit, None)
        for unit, place in self._order.items():
            chunks: Iterator[Chunk] = iter(())
            if coming and coming[0] == place:
                chunks = iter(list(coming[1]))
                coming = next(by_unit, None)
            parts = self._parts(unit, chunks)
            if unit is not None:
                yield Whole(unit, parts)
            else:
                yield from (Whole(None, [part]) for part in parts)

    def _chunks(self) -> Iterator[Chunk]:
        """The chunks of units and sources that are known."""
        if not self._found.has(CHUNKS):
            return
        for chunk in self._found.chunks(self._place):
            if self._place(chunk.unit, chunk.source) < 0:
                self._found.leave_out(
                    f"chunks: {chunk.source or chunk.unit or 'a row'}",
                    f"the unit {chunk.unit!r} is in no other table",
                )
            else:
                yield chunk

    def _place(self, unit: str | None, source: str | None) -> int:
        """The number of a unit; -1 when it is not known."""
        if unit is None and source is None:
            return -1
        return self._order.get(self._owners.get(source, unit) if source else unit, -1)

    def _parts(self, unit: str | None, chunks: Iterator[Chunk]) -> list[Part]:
        known = self._sources.get(unit, [])
        parts = {row["uri"]: _known(row) for row in known}
        for uri in self._mentioned.get(unit, ()):
            parts.setdefault(uri, Part(uri))
        own = f"import:{unit}"
        if not parts and unit is not None:
            parts[own] = Part(own)
        first = next(iter(parts), own)
        for chunk in chunks:
            part = parts.setdefault(chunk.source or first, Part(chunk.source or first))
            document = len(part.chunks) if chunk.document is None else chunk.document
            part.chunks.append((document, chunk.text))
            part.vectors.append(chunk.vector)
        for part in parts.values():
            for key in ((unit, part.uri), *([(unit, None)] if part.uri == first else [])):
                part.images += self._images.get(key, [])
                part.stated += self._stated.get(key, [])
        made = list(parts.values())
        if known:
            for row in known:
                _mark_lost(parts[row["uri"]], row)
            for part in made:
                _restate(part, shared=unit is None)
        elif unit is not None:
            _describe(made, row_checks.unit(self._units[unit]))
        return made

    def _key(self, row: dict[str, Any]) -> tuple[str | None, str | None]:
        source, unit = row.get("source"), row.get("unit")
        if source:
            unit = self._owners.get(source, unit)
            self._mentioned.setdefault(unit, {})[source] = None
        return unit, source


def _known(row: dict[str, Any]) -> Part:
    texts, _, pictures = (row.get("hash") or f"{INCOMPLETE}:{INCOMPLETE}").partition(":")
    declared = row.get("declared") or "{}"
    return Part(
        row["uri"],
        row.get("origin") or "ingest",
        texts,
        pictures,
        declared,
        text_order=row.get("text_order") or 0,
        relation_order=row.get("relation_order") or 0,
    )


def _mark_lost(part: Part, row: dict[str, Any]) -> None:
    """Let content of which something is lost count as changed at the next ingest."""
    if row.get("chunks") not in (None, len(part.chunks)):
        part.texts = INCOMPLETE
    if row.get("images") not in (None, len(part.images)):
        part.pictures = INCOMPLETE


def _restate(part: Part, *, shared: bool) -> None:
    """See that a source declares the relations that there are of it."""
    if shared:
        part.declared, part.stated = "{}", []
        return
    found = relations.digest(relations.said(part.stated))
    try:
        declared = Declaration.from_json(part.declared)
    except (KeyError, TypeError):  # it is not there
        declared = Declaration(relations=found)
        part.declared = declared.to_json()
    if declared.relations != found:
        part.declared = replace(declared, relations=found).to_json()


def _describe(parts: list[Part], unit: Unit) -> None:
    """Let the sources of a unit, of which no table speaks, declare what its row says."""
    for part in parts:
        part.declared = Declaration.from_unit(unit, tuple(part.stated)).to_json()
        part.texts = content_hash(json.dumps(part.documents()))
        part.pictures = content_hash(json.dumps(part.images))
