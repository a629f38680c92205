"""From encoded records to rows: one transaction for a batch of whole units.

Units, sources and chunks of a batch are written by a few statements for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ku_rag.indexes import inverted
from ku_rag.ingest import assembly
from ku_rag.ingest.deletion import delete_sources
from ku_rag.ingest.preparation import (
    PreparedPicture,
    PreparedRecord,
    PreparedSource,
)
from ku_rag.settings import Settings
from ku_rag.store import content_rows, facts, relations, table_rows, text_places, vectors
from ku_rag.store.connection import Connection, as_json, last_row
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, holds, image_file, write_durably
from ku_rag.store.relations import Stated
from ku_rag.store.vectors import Kind
from ku_rag.types import IngestReport


class _SourceRows(NamedTuple):
    """A source on its way into the store, row of its unit, its own, and whether it was stored."""

    source: PreparedSource
    unit: int | None
    row: int
    is_known: bool


class UnitWriter:
    """Writes records into the store; the caller holds the writer lock.

    `encoder_rows` are the rows of the encoder in the store, for chunks and for images.
    """

    def __init__(
        self,
        database: Database,
        layout: Layout,
        encoder_rows: Mapping[Kind, int],
        settings: Settings,
    ) -> None:
        self.change = database.change
        self._database = database
        self._layout = layout
        self._encoder_rows = encoder_rows
        self._settings = settings

    # ---- picture files -------------------------------------------------------------------------

    def picture_files(self, pictures: Iterable[PreparedPicture]) -> list[tuple[Path, bytes]]:
        """Return the path and content that pictures have in the base, without linked ones."""
        connection = self._database.connection
        files = {}
        for picture in pictures:
            stored = connection.execute(
                "SELECT file FROM images WHERE hash = ?", (picture.digest,)
            ).fetchone()
            file = stored[0] if stored else self._file(picture)
            if not Path(file).is_absolute():
                files[self._layout.image(file)] = picture.data
        return list(files.items())

    def _file(self, picture: PreparedPicture) -> str:
        """Return the file of a new picture; a picture that is part of a document has a copy."""
        if self._settings.images == "link" and picture.path.is_file():
            return str(picture.path)
        return image_file(picture.digest, picture.suffix)

    def repair_pictures(self, pictures: Iterable[PreparedPicture]) -> None:
        """Write stored picture files again that are missing or damaged."""
        files = self.picture_files(pictures)
        write_durably([(path, data) for path, data in files if not holds(path, data)])

    # ---- units ---------------------------------------------------------------------------------

    def commit(self, batch: Sequence[PreparedRecord]) -> IngestReport:
        """Store encoded records whose picture files are written; return what was added."""
        with self.change() as connection:
            # Units first: the chunks of the batch are then searched for the names of all of them.
            places, report = self._write_sources(connection, batch)
            for place in places:
                if place.source.replaces_others and place.unit is not None:
                    _delete_content(connection, place.source, place.unit)
            texts = {place.row: place for place in places if _replace_texts(connection, place)}
            for place in texts.values():
                source = place.source
                if source.tables:
                    table_rows.put(connection, place.row, source.tables, source.first_row)
                if source.places:
                    text_places.put(connection, place.row, source.places)
            report.chunks_added = self._insert_texts(connection, list(texts.values()))
            report.images_added = sum(self._replace_pictures(connection, place) for place in places)
            report.relations_added = _replace_relations(connection, places)
        return report

    # ---- units and sources ---------------------------------------------------------------------

    def _write_sources(
        self, connection: Connection, batch: Sequence[PreparedRecord]
    ) -> tuple[list[_SourceRows], IngestReport]:
        """Write the source rows of records and their units."""
        # A source that occurs twice is stored once.
        sources = {
            source.uri: (source, record.unit) for record in batch for source in record.sources
        }
        rows: dict[str, int] = {}
        moved = []
        for uri, row, owner in connection.execute(
            "SELECT s.uri, s.row, u.id FROM json_each(?) w CROSS JOIN sources s ON s.uri = w.value "
            "LEFT JOIN units u ON u.row = s.unit",
            (as_json(sources),),
        ):
            if owner == sources[uri][1]:
                rows[uri] = row
            else:
                moved.append(row)
        if moved:  # they belonged to other units
            delete_sources(connection, moved, keep_entities=True)
        ids = dict.fromkeys(record.unit for record in batch if record.unit is not None)
        stored = dict(
            connection.execute(
                "SELECT u.id, u.row FROM json_each(?) w CROSS JOIN units u ON u.id = w.value",
                (as_json(ids),),
            )
        )
        new = (unit_id for unit_id in ids if unit_id not in stored)
        new_units = dict(zip(new, count(last_row(connection, "units") + 1)))
        units: dict[str | None, int] = stored | new_units
        old = set(rows)
        rows |= zip(
            (uri for uri in sources if uri not in old), count(last_row(connection, "sources") + 1)
        )
        places = [
            _SourceRows(source, units.get(unit), rows[uri], uri in old)
            for uri, (source, unit) in sources.items()
        ]
        declared = (
            (units[unit], source.origin, uri, source.declared)
            for uri, (source, unit) in sources.items()
            if unit in new_units and source.declared
        )
        new_keys = assembly.insert_units(connection, new_units, declared)
        _write_source_rows(connection, places)
        assembly.update_units(connection, stored)
        relations.resolve_names(connection, ids=new_units, keys=new_keys)
        report = IngestReport(units_added=len(new_units))
        report.units_updated = sum(record.unit in stored for record in batch)
        return places, report

    # ---- texts and images ----------------------------------------------------------------------

    def _insert_texts(self, connection: Connection, places: Sequence[_SourceRows]) -> int:
        """Insert chunks with their vectors and list them; return their number."""
        texts = [(of.row, of.unit, of.source.chunks) for of in places if of.source.chunks]
        chunks = content_rows.add_texts(connection, texts)
        arrays = [
            of.source.chunk_vectors
            for of in places
            if of.source.chunks and of.source.chunk_vectors is not None
        ]
        connection.executemany(
            "UPDATE sources SET chunks = ? WHERE row = ?",
            ((len(of.source.chunks or ()), of.row) for of in places if of.is_known),
        )
        vectors.put(connection, "chunk", self._encoder_rows["chunk"], list(chunks), arrays)
        inverted.add_chunks(connection, chunks)
        facts.add_chunks(connection, chunks)
        return len(chunks)

    def _replace_pictures(self, connection: Connection, place: _SourceRows) -> int:
        """Replace the pictures of a source; return the number of new ones."""
        source, unit, row, is_known = place
        if source.keeps_pictures or not (source.pictures or is_known):
            return 0
        images = [self._image_row(connection, picture) for picture in source.pictures]
        if source.partial:
            images = list(dict.fromkeys([*content_rows.images_of(connection, row), *images]))
        return content_rows.replace_images(connection, source=row, unit=unit, images=images)

    def _image_row(self, connection: Connection, picture: PreparedPicture) -> int:
        """Return the row of a picture, inserted with its vector if it is new."""
        stored = connection.execute(
            "SELECT row FROM images WHERE hash = ?", (picture.digest,)
        ).fetchone()
        if stored:
            return int(stored[0])
        file = self._file(picture)
        (row,) = connection.execute(
            "INSERT INTO images (hash, file, width, height, bytes) VALUES (?, ?, ?, ?, ?) "
            "RETURNING row",
            (picture.digest, file, picture.width, picture.height, len(picture.data)),
        ).fetchone()
        vector = np.asarray(picture.vector, np.float32)
        vectors.put(connection, "image", self._encoder_rows["image"], [row], [vector[None]])
        if picture.printed:
            content_rows.put_words(connection, picture.digest, *picture.printed)
        return int(row)


def _fields(place: _SourceRows) -> tuple[int | None, str, str, str]:
    """Return the unit of a source, its origin, hash and declaration."""
    source = place.source
    declared = source.declared.to_json() if source.declared else "{}"
    return place.unit, source.origin, source.digest, declared


def _write_source_rows(connection: Connection, places: Sequence[_SourceRows]) -> None:
    """Insert the rows of new sources, and update those of known ones; one upsert is slower."""
    connection.executemany(
        "INSERT INTO sources (unit, origin, hash, declared, row, uri, chunks) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (*_fields(of), of.row, of.source.uri, len(of.source.chunks or ()))
            for of in places
            if not of.is_known
        ),
    )
    connection.executemany(
        "UPDATE sources SET unit = ?, origin = ?, hash = ?, declared = ? WHERE row = ?",
        ((*_fields(of), of.row) for of in places if of.is_known),
    )


def _delete_content(connection: Connection, source: PreparedSource, unit: int) -> None:
    """Delete the texts and images of all sources of a unit that an update replaces."""
    # What was added by hand counts as new when it is added once more. Files keep their hashes, so
    # that ingesting them again does not bring back what was replaced.
    connection.execute(
        "UPDATE sources SET hash = 'replaced' WHERE unit = ? AND origin IN ('add', 'join')", (unit,)
    )
    for row in content_rows.sources_of(connection, unit):
        if not source.keeps_texts:
            content_rows.drop_source_chunks(connection, [row])
            table_rows.drop(connection, row)
            text_places.drop(connection, row)
        if not source.keeps_pictures:
            content_rows.replace_images(connection, source=row, unit=unit, images=[])


def _replace_texts(connection: Connection, place: _SourceRows) -> bool:
    """Delete the stored chunks of a source if they differ; return whether it has new ones."""
    source, row = place.source, place.row
    if source.keeps_texts:
        return False
    if place.is_known:
        stored = connection.execute(
            "SELECT document, text FROM chunks WHERE source = ? ORDER BY position", (row,)
        ).fetchall()
        with_tables = bool(source.tables) or table_rows.has_rows(connection, row)
        same_places = text_places.of_source(connection, row) == list(source.places)
        if stored and stored == list(source.chunks or ()) and same_places and not with_tables:
            return False
        if stored:
            content_rows.drop_source_chunks(connection, [row])
            table_rows.drop(connection, row)
            text_places.drop(connection, row)
    return bool(source.chunks)


def _replace_relations(connection: Connection, places: Sequence[_SourceRows]) -> int:
    """Replace the relations that sources state; return the number of new ones."""
    stated = {
        place.row: Stated(place.row, place.unit, place.source.relations)
        for place in places
        if place.unit is not None
    }
    replaced = [place.row for place in places if place.is_known and place.row in stated]
    if replaced:
        relations.drop_of_sources(connection, replaced)
    new = [of for of in stated.values() if of.relations]
    return relations.add_many(connection, new) if new else 0
