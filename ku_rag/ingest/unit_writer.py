"""From encoded records to rows: one transaction for a batch of whole units.

New units are inserted with a few statements for all of them. Records that change or add to a stored
unit are written one by one, since what is stored affects the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest import assembly
from ku_rag.ingest.assembly import DeclaredSource, UnitRows
from ku_rag.ingest.deletion import delete_sources
from ku_rag.ingest.preparation import (
    PreparedPicture,
    PreparedRecord,
    PreparedSource,
)
from ku_rag.settings import Settings
from ku_rag.store import content_rows, relations, vectors
from ku_rag.store.connection import Connection, as_json
from ku_rag.store.content_rows import Texts
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, image_file, replace_durably, write_durably
from ku_rag.store.relations import Stated
from ku_rag.store.unit_records import unit_row
from ku_rag.store.vectors import Kind
from ku_rag.types import IngestReport


class _SourceRows(NamedTuple):
    """A source on its way into the store, the row of its unit, and its own row."""

    source: PreparedSource
    unit: int | None
    row: int


class UnitWriter:
    """Writes records into the store; the caller holds the writer lock.

    Args:
        database: The store.
        layout: Places of the picture files.
        encoder_rows: Rows of the encoder in the store, for chunks and for images.
        settings: Whether pictures are copied or linked.
    """

    def __init__(
        self,
        database: Database,
        layout: Layout,
        encoder_rows: Mapping[Kind, int],
        settings: Settings,
    ) -> None:
        self.inverted = InvertedIndex(database)
        self._database = database
        self._layout = layout
        self._encoder_rows = encoder_rows
        self._settings = settings

    @contextmanager
    def change(self) -> Iterator[Connection]:
        """Open a transaction; after a failure the names are read again."""
        try:
            with self._database.change() as connection:
                yield connection
        except BaseException:
            self.inverted.forget()
            raise

    # ---- picture files -------------------------------------------------------------------------

    def picture_files(self, pictures: Iterable[PreparedPicture]) -> list[tuple[Path, bytes]]:
        """Return the path and content that pictures have in the base; [] where they are linked."""
        if self._settings.images == "link":
            return []
        connection = self._database.connection
        files = {}
        for picture in pictures:
            stored = connection.execute(
                "SELECT file FROM images WHERE hash = ?", (picture.digest,)
            ).fetchone()
            file = stored[0] if stored else image_file(picture.digest, picture.suffix)
            if not Path(file).is_absolute():  # linked by an earlier setting
                files[self._layout.image(file)] = picture.data
        return list(files.items())

    def repair_pictures(self, pictures: Iterable[PreparedPicture]) -> None:
        """Write stored picture files again that are missing or damaged."""
        files = self.picture_files(pictures)
        write_pictures([(path, data) for path, data in files if not _holds(path, data)])

    # ---- units ---------------------------------------------------------------------------------

    def commit(self, batch: Sequence[PreparedRecord]) -> IngestReport:
        """Store encoded records whose picture files are written; return what was added."""
        with self.change() as connection:
            # Units first: the chunks of the batch are then searched for the names of all of them.
            rows, report = self._write_sources(connection, batch)
            places = [
                _SourceRows(source, of.unit, row)
                for record, of in zip(batch, rows, strict=True)
                for source, row in zip(record.sources, of.sources, strict=True)
            ]
            for place in places:
                if place.source.replaces_others and place.unit is not None:
                    _delete_content(connection, place.source, place.unit)
            texts = {
                place.row: place
                for place in places
                if _replace_texts(connection, place.source, place.row)
            }
            report.chunks_added = self._insert_texts(connection, list(texts.values()))
            report.images_added = sum(self._show(connection, place) for place in places)
            report.relations_added = _state(connection, places)
        return report

    # ---- units and sources ---------------------------------------------------------------------

    def _write_sources(
        self, connection: Connection, batch: Sequence[PreparedRecord]
    ) -> tuple[list[UnitRows], IngestReport]:
        """Write the source rows of records and their units."""
        stored = {
            unit
            for (unit,) in connection.execute(
                "SELECT u.id FROM json_each(?) w CROSS JOIN units u ON u.id = w.value",
                (as_json(record.unit for record in batch if record.unit is not None),),
            )
        }
        new: dict[str, int] = {}
        for place, record in enumerate(batch):
            if record.unit is None or record.unit in stored or record.unit in new:
                continue
            if not any(source.is_known for source in record.sources):
                new[record.unit] = place
        units = {
            unit: [DeclaredSource(s.uri, s.origin, s.digest, s.declared) for s in batch[n].sources]
            for unit, n in new.items()
        }
        inserted = assembly.insert_units(connection, units, self.inverted)
        rows = dict(zip(new.values(), inserted, strict=True))
        report = IngestReport(units_added=len(new))
        found = []
        for place, record in enumerate(batch):
            if place in rows:
                found.append(rows[place])
                continue
            of, is_new = self._write_record(connection, record)
            found.append(of)
            report.units_added += is_new
            report.units_updated += of.unit is not None and not is_new
        return found, report

    def _write_record(
        self, connection: Connection, record: PreparedRecord
    ) -> tuple[UnitRows, bool]:
        """Write the sources of one record and its unit; return whether the unit is new."""
        unit, is_new = None, False
        if record.unit is not None:
            unit = unit_row(connection, record.unit)
            is_new = unit is None
            if unit is None:
                unit = content_rows.put_unit(
                    connection,
                    unit_id=record.unit, name="", kind="", aliases=(), metadata="{}", match=False,
                )  # fmt: skip
        sources = []
        for source in record.sources:
            stored = connection.execute(
                "SELECT row, unit FROM sources WHERE uri = ?", (source.uri,)
            ).fetchone()
            if stored and stored[1] != unit:  # it belonged to another unit
                delete_sources(connection, [stored[0]], self.inverted, keep_entities=True)
            sources.append(_put_source(connection, source, unit))
        if record.unit is not None and unit is not None:
            assembly.update_unit(connection, record.unit, self.inverted, row=unit)
        return UnitRows(unit, sources), is_new

    # ---- texts and images ----------------------------------------------------------------------

    def _insert_texts(self, connection: Connection, places: Sequence[_SourceRows]) -> int:
        """Insert chunks with their vectors and list them; return their number."""
        texts = [Texts(of.row, of.unit, of.source.chunks) for of in places if of.source.chunks]
        chunks = content_rows.add_texts(connection, texts)
        made = [
            of.source.chunk_vectors
            for of in places
            if of.source.chunks and of.source.chunk_vectors is not None
        ]
        vectors.put(connection, "chunk", self._encoder_rows["chunk"], list(chunks), made)
        self.inverted.add_chunks(chunks)
        return len(chunks)

    def _show(self, connection: Connection, place: _SourceRows) -> int:
        """Let a source show its pictures; return how many it did not show before."""
        source, unit, row = place
        if source.keeps_pictures or not (source.pictures or source.is_known):
            return 0
        shown = [self._image_row(connection, picture) for picture in source.pictures]
        if source.partial:
            shown = list(dict.fromkeys([*content_rows.shown(connection, row), *shown]))
        return _show_images(connection, row, unit, shown)

    def _image_row(self, connection: Connection, picture: PreparedPicture) -> int:
        """Return the row of a picture, inserted with its vector if it is new."""
        stored = connection.execute(
            "SELECT row FROM images WHERE hash = ?", (picture.digest,)
        ).fetchone()
        if stored:
            return int(stored[0])
        linked = self._settings.images == "link"
        row = content_rows.add_image(
            connection,
            digest=picture.digest,
            file=str(picture.path) if linked else image_file(picture.digest, picture.suffix),
            width=picture.width,
            height=picture.height,
            size=len(picture.data),
        )
        vector = np.asarray(picture.vector, np.float32)
        vectors.put(connection, "image", self._encoder_rows["image"], [row], [vector[None]])
        return row


def write_pictures(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write picture files, synced; replace those that are damaged.

    Args:
        files: Path and content of each.
    """
    for path, data in files:
        # Files of the right size are taken as they are by `write_durably`.
        if path.exists() and path.stat().st_size == len(data) and not _holds(path, data):
            replace_durably(path, data)
    write_durably(files)


def _holds(path: Path, data: bytes) -> bool:
    """Whether a file has this content."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def _put_source(connection: Connection, source: PreparedSource, unit: int | None) -> int:
    declared = source.declared.to_json() if source.declared else "{}"
    return content_rows.put_source(
        connection,
        uri=source.uri,
        unit=unit,
        origin=source.origin,
        digest=source.digest,
        declared=declared,
    )


def _delete_content(connection: Connection, source: PreparedSource, unit: int) -> None:
    """Delete the texts and images of all sources of a unit that an update replaces."""
    content_rows.forget_added(connection, unit)
    for row in content_rows.sources_of(connection, unit):
        if not source.keeps_texts:
            content_rows.drop_source_chunks(connection, row)
        if not source.keeps_pictures:
            _show_images(connection, row, unit, [])


def _replace_texts(connection: Connection, source: PreparedSource, row: int) -> bool:
    """Delete the stored chunks of a source if they differ; return whether it has new ones."""
    if source.keeps_texts:
        return False
    if source.is_known:
        stored = connection.execute(
            "SELECT document, text FROM chunks WHERE source = ? ORDER BY position", (row,)
        ).fetchall()
        if stored and stored == list(source.chunks or ()):
            return False
        if stored:
            content_rows.drop_source_chunks(connection, row)
    return bool(source.chunks)


def _show_images(
    connection: Connection, source: int, unit: int | None, images: Sequence[int]
) -> int:
    """Let a source show exactly these images; return how many it did not show before."""
    before = content_rows.shown(connection, source)
    if before != list(images):
        content_rows.replace_images(connection, source=source, unit=unit, images=images)
    return len(set(images) - set(before))


def _state(connection: Connection, places: Sequence[_SourceRows]) -> int:
    """Replace what sources state about their units; return the number of new relations."""
    stated = {
        place.row: Stated(place.row, place.unit, place.source.relations)
        for place in places
        if place.unit is not None
    }
    for row in sorted(relations.sources_that_state(connection, stated)):
        relations.drop_of_source(connection, row)
    return relations.add_many(connection, list(stated.values()))
