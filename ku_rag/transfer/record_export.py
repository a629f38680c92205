"""Export of prepared records: the tables of an export, written from memory without a store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag import arguments
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.ingest.preparation import PreparedPicture, PreparedRecord, PreparedSource
from ku_rag.store import table_rows
from ku_rag.store.connection import as_json
from ku_rag.store.layout import image_file
from ku_rag.transfer import tables
from ku_rag.transfer.tables import Row, TableFile, write_table


def write_records(
    folder: Path, records: Sequence[PreparedRecord], encoder: Encoder
) -> dict[str, Any]:
    """Write the tables and pictures of an export; return "counts", "bytes" and "sha256" by file."""
    pictures = {picture.digest: picture for record in records for picture in record.pictures()}
    for picture in pictures.values():
        file = folder / tables.PICTURES / image_file(picture.digest, picture.suffix)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture.data)
    sources = [(record.unit, source) for record in records for source in record.sources]
    contents: dict[TableFile, list[Row]] = {
        tables.UNITS: list(_units(records)),
        tables.SOURCES: [_source(*pair) for pair in sources],
        tables.CHUNKS: [row for pair in sources for row in _chunks(*pair)],
        tables.IMAGES: [_image(picture) for _, picture in sorted(pictures.items())],
        tables.SHOWINGS: [
            (unit, source.uri, position, picture.digest)
            for unit, source in sources
            for position, picture in enumerate(source.pictures)
        ],
        tables.RELATIONS: [row for pair in sources for row in _relations(*pair)],
        tables.TABLE_ROWS: [
            (unit, source.uri, *row)
            for unit, source in sources
            for row in table_rows.stored_rows(source.tables, source.first_row)
        ],
        tables.TEXT_PLACES: [
            (unit, source.uri, *row) for unit, source in sources for row in source.places
        ],
    }
    for table, rows in contents.items():
        dim = side(encoder, table.vectors).dim if table.vectors else None
        if rows or table in (tables.UNITS, tables.SOURCES, tables.CHUNKS):
            write_table(folder, table, rows, dim)
    files = sorted(folder.glob("*.parquet"))
    return {
        "counts": {table.name: len(rows) for table, rows in contents.items()},
        "bytes": {file.name: file.stat().st_size for file in files},
        "sha256": {file.name: arguments.file_hash(file) for file in files},
    }


def _units(records: Iterable[PreparedRecord]) -> Iterator[Row]:
    for record in records:
        declared = record.sources[0].declared
        if record.unit is not None and declared is not None:
            aliases, metadata = as_json(declared.aliases or ()), dict(declared.metadata or {})
            yield (
                record.unit,
                declared.name,
                declared.kind,
                aliases,
                json.dumps(metadata, ensure_ascii=False, sort_keys=True),
                declared.match,
            )


def _source(unit: str | None, source: PreparedSource) -> Row:
    declared = source.declared.to_json() if source.declared else "{}"
    sizes = len(source.chunks or ()), len(source.pictures)
    return source.uri, unit, source.origin, source.digest, declared, *sizes


def _chunks(unit: str | None, source: PreparedSource) -> Iterator[Row]:
    vectors = np.asarray(source.chunk_vectors, "<f2")
    for position, (document, text) in enumerate(source.chunks or ()):
        yield unit, source.uri, position, document, text, vectors[position].tobytes()


def _image(picture: PreparedPicture) -> Row:
    file = f"{tables.PICTURES}/{image_file(picture.digest, picture.suffix)}"
    vector = np.asarray(picture.vector, "<f2").tobytes()
    return picture.digest, file, picture.width, picture.height, len(picture.data), vector


def _relations(unit: str | None, source: PreparedSource) -> Iterator[Row]:
    for position, relation in enumerate(source.relations):
        notes = relation.target_kind, relation.information, relation.condition
        yield unit, source.uri, position, relation.relation, relation.target, *notes, None, None
