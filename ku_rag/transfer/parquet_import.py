"""An import: the rows of an export as prepared records, which the ingest pipeline stores.

A source that is stored replaces its own content; another source of the same unit adds to it. What
is stored already exactly so is skipped, so that an interrupted import continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from ku_rag import arguments
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, KuError
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.pipeline import Pipeline, Progress
from ku_rag.ingest.preparation import (
    PreparedPicture,
    PreparedRecord,
    PreparedSource,
    hash_pictures,
    hash_texts,
    read_picture,
)
from ku_rag.pictures import locate_picture
from ku_rag.store import relations
from ku_rag.store.vectors import Kind
from ku_rag.transfer.parquet_reader import Export, FoundRow, Vector
from ku_rag.transfer.tables import CHUNKS, IMAGES, RELATIONS, SHOWINGS, SOURCES, UNITS
from ku_rag.types import IngestReport, Quarantined, Relation, Unit

_ORIGINS = ("ingest", "add", "join", "update")
_COMPUTED = "import-"
"""Begins the hash of content that is not whole: the next ingest of its file restores it."""

_Key = tuple[str | None, str | None]
"""A unit and a source; without a source the first one of the unit."""


def import_export(
    export: Export, pipeline: Pipeline, progress: Progress | None = None
) -> IngestReport:
    """Store everything in an export that is sound.

    Args:
        export: The export.
        pipeline: Stores the records.
        progress: Called with the number of units read so far.

    Raises:
        BadInput: A table cannot be read, or has vectors of another length.
    """
    records = _Records(export, pipeline)
    return pipeline.run(records, progress=progress)


@dataclass(slots=True)
class _Content:
    """What the tables hold of one source."""

    chunks: list[tuple[int, str]] = field(default_factory=list)
    vectors: list[Vector | None] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)

    def documents(self) -> list[str]:
        """Return the whole texts."""
        texts: dict[int, str] = {}
        for document, text in self.chunks:
            texts[document] = texts.get(document, "") + text
        return list(texts.values())


class _Records:
    """The records of an export, unit by unit. Everything but chunks is held in memory."""

    def __init__(self, export: Export, pipeline: Pipeline) -> None:
        self._export = export
        self._encoder = pipeline.encoder
        limit = export.manifest.get("max_tokens", pipeline.max_tokens)
        self._takes_images = self._fits("image")
        self._takes_chunks = self._fits("chunk") and limit == pipeline.max_tokens
        self._broken: set[str] = set()
        self._units = self._read_units()
        self._sources: dict[str | None, dict[str, Mapping[str, Any]]] = {}
        self._owners: dict[str, str | None] = {}
        for row, _ in export.rows(SOURCES):
            self._owners[row["uri"]] = row["unit"]
            self._sources.setdefault(row["unit"], {})[row["uri"]] = row
        self._files: dict[str, tuple[str | None, Vector | None]] = {}
        for row, vector in export.rows(IMAGES):
            self._check_length(vector, "image")
            self._files[row["hash"]] = row["file"], vector
        self._images: dict[_Key, list[str]] = {}
        for row, _ in export.rows(SHOWINGS):
            self._images.setdefault(self._key(row), []).append(row["image"])
        self._relations: dict[_Key, list[Relation]] = {}
        for row, _ in export.rows(RELATIONS):
            notes = (row.get(key) for key in ("target_kind", "information", "condition"))
            try:
                stated = Relation(row["relation"], row["target"], *notes)
            except BadInput as error:
                export.leave_out(f"relations: {row.get('source') or row.get('unit')}", str(error))
            else:
                self._relations.setdefault(self._key(row), []).append(stated)
        named = [unit for unit in self._sources if unit is not None]
        units = dict.fromkeys([*self._units, *named])
        self._order: dict[str | None, int] = {unit: n for n, unit in enumerate([*units, None])}
        for table, keys in (("showings", self._images), ("relations", self._relations)):
            for unit, source in keys:
                if unit not in self._order or (unit, source) == (None, None):
                    self._leave_out_unknown(table, unit, source)

    def __iter__(self) -> Iterator[PreparedRecord | Quarantined]:
        """Yield unit after unit, the texts that belong to no unit, and what was left out."""
        by_unit = groupby(self._chunks(), key=lambda found: self._place(found[0]))
        following = next(by_unit, None)
        for unit, place in self._order.items():
            chunks: Sequence[FoundRow] = ()
            if following and following[0] == place:
                chunks = list(following[1])
                following = next(by_unit, None)
            sources = self._prepare_unit(unit, chunks)
            if unit is not None:
                yield PreparedRecord(unit, sources)
            else:
                yield from (PreparedRecord(None, [source]) for source in sources)
        yield from self._export.left_out

    # ---- tables --------------------------------------------------------------------------------

    def _fits(self, kind: Kind) -> bool:
        """Whether the vectors of the export were made by the encoder of the base.

        Without a manifest they are taken to be.
        """
        made, _ = self._export.encoder.get("sides", {}).get(kind, (None, 0))
        return not self._export.manifest or made == side(self._encoder, kind).fingerprint

    def _read_units(self) -> dict[str, Unit]:
        units: dict[str, Unit] = {}
        for row, _ in self._export.rows(UNITS):
            try:
                units[row["id"]] = Unit(
                    name=row["name"],
                    id=row["id"],
                    kind=row.get("kind"),
                    aliases=row.get("aliases") or (),
                    metadata=arguments.STRICT_JSON.decode(row.get("metadata") or "{}"),
                    match=row.get("match") is not False,
                )
            except (BadInput, ValueError, RecursionError) as error:
                self._export.leave_out(f"units: {row['id']}", str(error))
        return units

    def _leave_out_unknown(self, table: str, unit: str | None, source: str | None) -> None:
        reason = f"the unit {unit!r} is in no other table"
        self._export.leave_out(f"{table}: {source or unit or 'a row'}", reason)

    def _key(self, row: Mapping[str, Any]) -> _Key:
        """Return the unit and the source of a row; the unit remembers the source."""
        source, unit = row.get("source"), row.get("unit")
        if source:
            unit = self._owners.setdefault(source, unit)
            self._sources.setdefault(unit, {}).setdefault(source, {})
        return unit, source

    def _chunks(self) -> Iterator[FoundRow]:
        """Yield the chunks of known units and sources, in the order of the units."""
        for row, vector in self._export.rows(CHUNKS, self._place):
            if self._place(row) < 0:
                self._leave_out_unknown("chunks", row.get("unit"), row.get("source"))
                continue
            self._check_length(vector, "chunk")
            yield row, vector

    def _place(self, row: Mapping[str, Any]) -> int:
        """Return the number of a row's unit; -1 for an unknown unit."""
        source, unit = row.get("source"), row.get("unit")
        if not source and unit is None:
            return -1
        return self._order.get(self._owners.get(source, unit) if source else unit, -1)

    # ---- sources -------------------------------------------------------------------------------

    def _prepare_unit(self, unit: str | None, chunks: Sequence[FoundRow]) -> list[PreparedSource]:
        known = self._sources.get(unit, {})
        own = f"import:{unit}"
        contents = {uri: _Content() for uri in known}
        if not contents and unit is not None:
            contents[own] = _Content()
        first = next(iter(contents), own)
        for row, vector in chunks:
            content = contents.setdefault(row.get("source") or first, _Content())
            document = row.get("document")
            number = len(content.chunks) if document is None else document
            content.chunks.append((number, row["text"]))
            content.vectors.append(vector)
        sources = []
        for uri, content in contents.items():
            for key in ((unit, uri), *([(unit, None)] if uri == first else [])):
                content.images += self._images.get(key, [])
                content.relations += self._relations.get(key, [])
            try:
                sources.append(self._prepare(unit, uri, content, known.get(uri, {})))
            except BadInput as error:
                self._export.leave_out(f"sources: {uri}", str(error))
        return sources

    def _prepare(
        self, unit: str | None, uri: str, content: _Content, row: Mapping[str, Any]
    ) -> PreparedSource:
        """Return a source as it is stored.

        Raises:
            BadInput: The row of the source holds what it may not.
        """
        origin = row.get("origin") or "ingest"
        if origin not in _ORIGINS:
            raise BadInput(f"the origin is {origin!r}: expected one of {', '.join(_ORIGINS)}")
        texts = content.documents()
        pictures = [one for one in map(self._picture, content.images) if one is not None]
        texts_hash, _, pictures_hash = (row.get("hash") or "").partition(":")
        if not self._export.is_whole or row.get("chunks") != len(content.chunks):
            texts_hash = _COMPUTED + hash_texts(texts)
        expected = row.get("images")
        lost = len(pictures) != (len(content.images) if expected is None else expected)
        if lost or not self._export.is_whole:
            pictures_hash = _COMPUTED + hash_pictures(one.digest for one in pictures)
        source = PreparedSource(
            uri,
            origin,
            self._declaration(unit, content, row),
            texts,
            pictures,
            texts_hash,
            pictures_hash,
            content.relations if unit is not None else (),
            partial=lost,
        )
        found = [vector for vector in content.vectors if vector is not None]
        if self._takes_chunks and (self._export.manifest or found):
            source.texts = ()
            source.chunks = content.chunks
            if found and len(found) == len(content.chunks):
                source.chunk_vectors = np.stack(found).astype(np.float32)
        return source

    def _declaration(
        self, unit: str | None, content: _Content, row: Mapping[str, Any]
    ) -> Declaration | None:
        if unit is None:
            return None
        stated = relations.digest(content.relations)
        if row.get("declared"):
            try:
                found = replace(Declaration.from_json(row["declared"]), relations=stated)
                Unit(
                    name=unit if found.name is None else found.name,
                    kind=found.kind,
                    aliases=found.aliases or (),
                    metadata=found.metadata or {},
                    match=found.match,
                )
                arguments.check(found.replaces, "replaces", bool)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise BadInput(f"what the source declares cannot be read: {error!r}") from error
            return found
        declares = unit in self._units and not any(
            other.get("declared") for other in self._sources.get(unit, {}).values()
        )
        if declares:
            return Declaration.from_unit(self._units[unit], stated)
        return Declaration(relations=stated)

    # ---- pictures ------------------------------------------------------------------------------

    def _picture(self, digest: str) -> PreparedPicture | None:
        """Return a picture; None for one that is missing or damaged, which is reported once."""
        if digest in self._broken:
            return None
        file, vector = self._files.get(digest, (None, None))
        try:
            if not file:
                raise BadInput("the picture was not exported: add it to its unit again")
            picture = read_picture(locate_picture(self._export.folder.resolve(), file))
            if picture.digest != digest:
                raise BadInput(f"{picture.path} is another picture: its content has changed")
        except KuError as error:
            self._export.leave_out(f"images: {digest}", str(error))
            self._broken.add(digest)
            return None
        if self._takes_images and vector is not None:
            picture.vector = vector.astype(np.float32)
        return picture

    def _check_length(self, vector: Vector | None, kind: Kind) -> None:
        takes = {"image": self._takes_images, "chunk": self._takes_chunks}[kind]
        dim = side(self._encoder, kind).dim
        if takes and vector is not None and len(vector) != dim:
            raise BadInput(
                f"{self._export.folder} has vectors of {len(vector)} numbers for each {kind}, the "
                f"encoder of the knowledge base makes {dim}: leave the column out, so that they "
                "are made anew"
            )
