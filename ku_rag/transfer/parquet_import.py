"""An import: the rows of an export as prepared records, which the ingest pipeline stores.

The content of a stored source is replaced; another source of the same unit is added. What is
already stored unchanged is skipped, so that an interrupted import continues.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag import arguments
from ku_rag.encoders.base import is_same
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, KuError, reason
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.pipeline import Pipeline
from ku_rag.ingest.preparation import (
    PreparedPicture,
    PreparedRecord,
    PreparedSource,
    hash_pictures,
    hash_texts,
    read_picture,
)
from ku_rag.picture_paths import locate_picture
from ku_rag.store import facts, relations, table_rows, text_places
from ku_rag.store.database import Database
from ku_rag.store.facts import ExtractedFact
from ku_rag.store.text_places import PlaceRow
from ku_rag.store.vectors import KINDS, Kind
from ku_rag.text.statements import Statement, locate
from ku_rag.transfer import tables
from ku_rag.transfer.parquet_reader import TUNING, TUNING_RANGES, Export, RowBatch
from ku_rag.transfer.tables import TableFile
from ku_rag.types import Quarantined, Relation, Unit, Word

_ORIGINS = ("ingest", "add", "join", "update")
_COMPUTED = "import-"
"""Prefix of the hash of incomplete content: the next ingest of its file restores it."""

_Vectors = NDArray[np.float16]


@dataclass(slots=True)
class _Source:
    """The rows of one source of a unit, or of text that belongs to no unit.

    Chunks are (number of the document, text), with vectors float16[n, dim]; rows are number of the
    document → place and name of its table, and cells in JSON.
    """

    uri: str
    unit: str | None
    row: Mapping[str, Any]
    chunks: list[tuple[int, str]] = field(default_factory=list)
    vectors: list[_Vectors] = field(default_factory=list)
    without_vector: int = 0
    images: list[str] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    rows: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    places: list[PlaceRow] = field(default_factory=list)

    def add_chunks(self, batch: RowBatch, start: int, end: int) -> None:
        """Add rows of a batch; a chunk without the number of its document is a document."""
        documents, texts = batch.column("document"), batch.columns["text"]
        for number in range(start, end):
            document = documents[number]
            here = len(self.chunks) if document is None else document
            self.chunks.append((here, texts[number]))
        self.vectors.append(batch.vectors[start:end])
        self.without_vector += sum(n in batch.without_vector for n in range(start, end))

    def documents(self) -> list[str]:
        """Return the whole texts, with empty ones before and between the rows of tables."""
        numbers = [*range(min(self.rows, default=0)), *self.rows]
        texts: dict[int, str] = dict.fromkeys(numbers, "")
        for document, text in self.chunks:
            texts[document] = texts.get(document, "") + text
        return [texts[document] for document in sorted(texts)]


def add_extracted(database: Database, export: Export) -> list[Quarantined]:
    """Store the facts that models have read from texts; return those that no text supports."""
    left_out = []
    by_model: dict[str, list[ExtractedFact]] = {}
    with database.change() as connection:
        for row in export.rows(tables.EXTRACTED):
            stored = connection.execute(
                "SELECT u.row, c.row, c.text FROM sources s JOIN chunks c ON c.source = s.row, "
                "units u WHERE s.uri = ? AND c.position = ? AND u.id = ?",
                (row["source"], row["position"], row["unit"]),
            ).fetchone()
            unit, chunk, text = stored or (0, 0, "")
            first, last, value = row["first"] or 0, row["last"] or 0, row["value"] or ""
            begin, _, model = (row["origin"] or "").partition(facts.EXTRACTED)
            if begin or not model or locate(value, text, first, last) is None:
                item = f"extracted_facts: {row['label']} of {row['unit']}"
                left_out.append(Quarantined(item, "the text that states it was not imported"))
                continue
            stated = Statement(row["label"] or "", value, "", first, last)
            by_model.setdefault(model, []).append(ExtractedFact(unit, stated, chunk))
        for model, supported in by_model.items():
            facts.add_extracted(connection, model, supported)
    return left_out


def restore_renamed(database: Database, export: Export) -> None:
    """Restore what relations mean whose target has been renamed since they were stated."""
    with database.change() as connection:
        rows: list[int] = []
        for row in export.rows(tables.RELATIONS):
            unit, target = row.get("tail_unit"), row["target"]
            is_name = relations.target_key(target) == relations.target_key(row.get("tail") or "")
            if not unit or is_name or target == unit:
                continue
            rows += connection.column(
                "UPDATE relations SET renamed = u.row FROM units u, sources s "
                "WHERE u.id = ? AND s.uri = ? AND relations.source = s.row "
                "AND relations.relation = ? AND relations.target = ? RETURNING relations.row",
                (unit, row.get("source"), row["relation"], target),
            )
        relations.resolve(connection, rows)


def add_tuning(database: Database, export: Export) -> None:
    """Store what `ku tune` measured on labels of the same units, and nothing else."""
    with database.change():
        for key, expected in TUNING.items():
            tuning = export.manifest.get(key) or {}
            is_sound = expected.keys() <= tuning.keys() and all(
                low <= tuning[name] <= high
                for name, (low, high) in TUNING_RANGES.items()
                if name in expected
            )
            if is_sound:
                database.set_meta(key, {name: tuning[name] for name in expected})


class ExportRecords:
    """The sound records of an export, unit by unit. Everything but chunks is held in memory."""

    def __init__(self, export: Export, pipeline: Pipeline) -> None:
        self._export = export
        self._encoder = pipeline.encoder
        # Vectors are used if the base computes them in the same way, or if there is no manifest.
        sides = export.encoder.get("sides", {}) if export.manifest else None
        self._dims: dict[Kind, int] = {}
        """Lengths of the vectors; 0 if they are not used."""
        for kind in KINDS:
            ours = side(pipeline.encoder, kind)
            taken = sides is None or is_same(sides.get(kind, [""])[0], ours.fingerprint)
            self._dims[kind] = ours.dim if taken else 0
        if export.manifest.get("max_tokens", pipeline.max_tokens) != pipeline.max_tokens:
            self._dims["chunk"] = 0
        self._broken: set[str] = set()
        self._units = self._read_units()
        self._of_unit: dict[str | None, list[_Source]] = {unit: [] for unit in self._units}
        self._by_uri: dict[str, _Source] = {}
        for row in export.rows(tables.SOURCES):
            self._add(row["uri"], row["unit"], row)
        self._of_unit[None] = self._of_unit.pop(None, [])
        self._files: dict[str, tuple[str | None, _Vectors | None]] = {}
        for batch in export.batches(tables.IMAGES, self._dims["image"]):
            for number, digest in enumerate(batch.columns["hash"]):
                vector = None if number in batch.without_vector else batch.vectors[number]
                self._files[digest] = batch.columns["file"][number], vector
        self._printed = {row["image"]: row for row in export.rows(tables.IMAGE_WORDS)}
        self._add_to_sources()

    def __iter__(self) -> Iterator[PreparedRecord | Quarantined]:
        """Yield unit after unit, the texts that belong to no unit, and what was left out."""
        with_chunks = self._add_chunks()
        following = next(with_chunks, None)
        for unit, sources in self._of_unit.items():
            # Chunks of an export are in the order of the units; other tables are read completely.
            while following and (following.unit == unit or not self._export.is_whole):
                following = next(with_chunks, None)
            if unit is not None:
                if not sources:
                    self._add(f"import:{unit}", unit)
                yield PreparedRecord(unit, list(self._prepare_all(sources)))
            else:
                yield from (PreparedRecord(None, [source]) for source in self._prepare_all(sources))
        yield from self._export.left_out

    # ---- tables --------------------------------------------------------------------------------

    def _read_units(self) -> dict[str, Mapping[str, Any]]:
        units: dict[str, Mapping[str, Any]] = {}
        for row in self._export.rows(tables.UNITS):
            try:
                arguments.identity(row["id"], "the id")
                if not self._export.is_whole:  # else sources declare the fields, which are checked
                    _unit(row)
                units[row["id"]] = row
            except BadInput as error:
                self._export.leave_out(f"units: {row['id']}", str(error))
        return units

    def _add_to_sources(self) -> None:
        """Add the rows of the small tables to their sources."""
        for row, source in self._rows_of_sources(tables.SHOWINGS):
            source.images.append(row["image"])
        for row, source in self._rows_of_sources(tables.TABLE_ROWS):
            fields = row.get("place") or 0, row.get("name") or "", row["cells"]
            source.rows[row["document"]] = fields
        for row, source in self._rows_of_sources(tables.TEXT_PLACES):
            try:
                lines = text_places.checked_lines(row.get("lines") or "[]")
                source.places.append((row["document"], row.get("section") or "", lines))
            except ValueError as error:
                self._export.leave_out(f"text_places: {source.uri}", str(error))
        for row in self._export.rows(tables.RELATIONS):
            notes = (row.get(key) for key in ("target_kind", "information", "condition"))
            uri, unit = row.get("source"), row.get("unit")
            try:
                stated = Relation(row["relation"], row["target"], *notes)
            except BadInput as error:
                self._export.leave_out(f"relations: {uri or unit}", str(error))
            else:
                if owner := self._source(uri, unit, "relations"):
                    owner.relations.append(stated)

    def _rows_of_sources(self, table: TableFile) -> Iterator[tuple[Mapping[str, Any], _Source]]:
        """Yield the rows of a table, each with its source."""
        for row in self._export.rows(table):
            if source := self._source(row.get("source"), row.get("unit"), table.name):
                yield row, source

    def _add(self, uri: str, unit: str | None, row: Mapping[str, Any] | None = None) -> _Source:
        source = self._by_uri[uri] = _Source(uri, unit, row or {})
        self._of_unit.setdefault(unit, []).append(source)
        return source

    def _source(self, uri: str | None, unit: str | None, table: str) -> _Source | None:
        """Return the source of a row, by default the first of its unit; report an unknown unit."""
        if uri in self._by_uri:
            return self._by_uri[uri]
        if unit not in self._of_unit or (uri is None and unit is None):
            reason = f"the unit {unit!r} is in no other table"
            self._export.leave_out(f"{table}: {uri or unit or 'a row'}", reason)
            return None
        if uri is None and (of_unit := self._of_unit[unit]):
            return of_unit[0]
        return self._add(uri or f"import:{unit}", unit)

    def _add_chunks(self) -> Iterator[_Source]:
        """Add chunks to their sources; yield the source after each run of its chunks."""
        for batch in self._export.batches(tables.CHUNKS, self._dims["chunk"]):
            owners, end = zip(batch.column("source"), batch.column("unit"), strict=True), 0
            for (uri, unit), run in groupby(owners):
                start, end = end, end + sum(1 for _ in run)
                if source := self._source(uri, unit, "chunks"):
                    source.add_chunks(batch, start, end)
                    yield source

    # ---- sources -------------------------------------------------------------------------------

    def _prepare_all(self, sources: Iterable[_Source]) -> Iterator[PreparedSource]:
        """Yield sources as they are stored, without those that have an invalid row."""
        for source in sources:
            try:
                yield self._prepare(source)
            except BadInput as error:
                self._export.leave_out(f"sources: {source.uri}", str(error))
            source.chunks, source.vectors = [], []  # one unit is held at a time

    def _prepare(self, source: _Source) -> PreparedSource:
        row, origin = source.row, source.row.get("origin") or "ingest"
        if origin not in _ORIGINS:
            raise BadInput(f"the origin is {origin!r}: expected one of {', '.join(_ORIGINS)}")
        try:
            rows = (source.rows[number] for number in sorted(source.rows))
            read_tables = table_rows.tables(rows)
        except (ValueError, TypeError) as error:
            raise BadInput(f"a row of a table cannot be read ({error})") from error
        pictures = [picture for picture in map(self._picture, source.images) if picture is not None]
        expected = row.get("images")
        lost = len(pictures) != (len(source.images) if expected is None else expected)
        hashes = (row.get("hash") or "").split(":")
        whole = self._export.is_whole and not lost and row.get("chunks") == len(source.chunks)
        has_vectors = source.without_vector < len(source.chunks)
        as_chunks = self._dims["chunk"] and (self._export.manifest or has_vectors)
        texts = [] if whole and as_chunks else source.documents()
        if not whole:
            hashes = [
                hash_texts(texts, read_tables, source.places),
                hash_pictures(p.digest for p in pictures),
            ]
            hashes = [_COMPUTED + digest for digest in hashes]
        # The hash shows whether the source names pictures that could not be read.
        part = hash_pictures((p.digest for p in pictures), partial=True)
        prepared = PreparedSource(
            source.uri,
            origin,
            self._declaration(source),
            () if as_chunks else texts,
            pictures,
            hashes[0],
            "".join(hashes[1:2]),
            source.relations if source.unit is not None else (),
            partial=lost or "".join(hashes[1:2]) == part,
            tables=read_tables,
            first_row=min(source.rows, default=0),
            places=source.places,
            file_hash="".join(hashes[2:3]),
        )
        if as_chunks:
            prepared.chunks = source.chunks
            if has_vectors and not source.without_vector:
                prepared.chunk_vectors = np.concatenate(source.vectors)
        return prepared

    def _declaration(self, source: _Source) -> Declaration | None:
        unit, stated = source.unit, relations.digest(source.relations)
        if unit is None:
            return None
        if source.row.get("declared"):
            try:
                declaration = Declaration.from_json(source.row["declared"])
                if declaration.relations != stated:
                    declaration = replace(declaration, relations=stated)
                Unit(
                    name=unit if declaration.name is None else declaration.name,
                    kind=declaration.kind,
                    aliases=declaration.aliases or (),
                    metadata=declaration.metadata or {},
                    match=declaration.match,
                )
                arguments.check(declaration.replaces, "replaces", bool)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise BadInput(f"what the source declares cannot be read: {error!r}") from error
            return declaration
        if unit in self._units and not any(o.row.get("declared") for o in self._of_unit[unit]):
            return Declaration.from_unit(_unit(self._units[unit]), stated)
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
        except (KuError, ValueError, TypeError) as error:
            self._export.leave_out(f"images: {digest}", str(error))
            self._broken.add(digest)
            return None
        if row := self._printed.get(digest):
            try:
                picture.printed = row["recogniser"], [Word(**w) for w in json.loads(row["words"])]
            except (BadInput, ValueError, TypeError, RecursionError) as error:
                self._export.leave_out(f"image_words: {digest}", reason(error))
        if vector is not None:
            picture.vector = vector.astype(np.float32)
        return picture


def _unit(row: Mapping[str, Any]) -> Unit:
    """Return the unit of a row; `BadInput` if a field is invalid."""
    try:
        metadata = arguments.STRICT_JSON.decode(row.get("metadata") or "{}")
    except (ValueError, RecursionError) as error:
        raise BadInput(str(error)) from error
    aliases, match = row.get("aliases") or (), row.get("match") is not False
    return Unit(row["name"], row["id"], row.get("kind"), aliases, metadata=metadata, match=match)
