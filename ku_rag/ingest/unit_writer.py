"""From prepared and encoded records to rows: one transaction for a batch of whole units.

What is new is written many rows to a statement; what changes or adds to something known goes one by
one, since what is there has a say in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest import assembly
from ku_rag.ingest.assembly import Born, Declaration
from ku_rag.ingest.deletion import delete_sources
from ku_rag.ingest.preparation import Picture, Prepared, PreparedSource
from ku_rag.settings import Settings
from ku_rag.store import content_rows, relations, vectors
from ku_rag.store.connection import Connection
from ku_rag.store.content_rows import Dropped, Texts, content_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, image_file, write_durably
from ku_rag.store.relations import Said, Stated
from ku_rag.store.vectors import Kind
from ku_rag.types import IngestReport, Unit

Rows = tuple[int | None, list[int]]
"""Of a record: row of its unit, rows of its sources."""

_BORN = 4096
"""So many units are written at once where nothing else comes with them."""


class Bare(NamedTuple):
    """A unit that brings neither text nor picture, new with its one source.

    Args:
        unit: its declaration, without relations.
        uri: of the source.
        relations: what it states.
    """

    unit: Unit
    uri: str
    relations: Sequence[Said]


class Storing:
    """Writes records into the store; the caller holds the writer lock.

    Args:
        database: where rows go.
        layout: where pictures go.
        encoder_rows: rows of the encoder in the store, for chunks and for images.
        settings: copying or linking of pictures.
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
        """One transaction, after whose failure the names are read again."""
        try:
            with self._database.change() as connection:
                yield connection
        except BaseException:
            self.inverted.forget()
            raise

    def write_pictures(self, pictures: Iterable[Picture]) -> None:
        """Put picture files where they stay, synced: before the commit that names them."""
        if self._settings.images == "copy":
            write_durably(
                (self._layout.image(image_file(p.digest, p.suffix)), p.data) for p in pictures
            )

    def commit(
        self, batch: Sequence[Prepared], origin: str, report: IngestReport, stated: list[int]
    ) -> None:
        """Store encoded records whose pictures are written.

        Args:
            batch: the records.
            origin: "ingest", "add", "join" or "update".
            report: is added to.
            stated: takes the rows of new relations.
        """
        counted = IngestReport()
        with self.change() as connection:
            # Names first: the chunks of this batch are then looked through for all of them.
            rows = self._store_sources(connection, batch, origin, counted)
            texts: dict[int, tuple[Texts, PreparedSource]] = {}
            for prepared, (unit, sources) in zip(batch, rows, strict=True):
                for source, row in zip(prepared.sources, sources, strict=True):
                    if row not in texts and self._texts_are_new(connection, source, row):
                        texts[row] = Texts(row, unit, source.chunks), source
            counted.chunks_added = self._store_texts(connection, list(texts.values()))
            for prepared, (unit, sources) in zip(batch, rows, strict=True):
                for source, row in zip(prepared.sources, sources, strict=True):
                    if source.pictures or source.known:
                        counted.images_added += self._store_images(connection, source, row, unit)
            new_relations = _state(connection, batch, rows)
        counted.relations_added = len(new_relations)
        stated += new_relations
        add_up(report, counted)

    def add_bare(self, bare: Sequence[Bare], origin: str, report: IngestReport) -> range:
        """Store units of which nothing is known, all in one transaction: nothing is encoded.

        Args:
            bare: the units; neither they nor their sources are stored.
            origin: as in `commit`.
            report: is added to.

        Returns:
            The rows of their relations.
        """
        digest = PreparedSource("", (), []).digest
        pieces = relations.Framed()
        stated: list[Stated] = []
        with self.change() as connection:
            for start in range(0, len(bare), _BORN):
                born: list[Born] = []
                some = bare[start : start + _BORN]
                for n, one in enumerate(some, start):
                    said = _declared(one.unit, relations.digest(one.relations, pieces))
                    born.append(Born(n, one.unit.id or "", origin, [(one.uri, digest, said)]))
                settled = assembly.settle_new(connection, born, self.inverted)
                stated += (
                    Stated(sources[0], unit, one.relations)
                    for one, (unit, sources) in zip(some, settled, strict=True)
                )
            added = relations.add_many(connection, stated)
        report.units_added += len(bare)
        report.relations_added += len(added)
        return added

    def override(
        self,
        source: PreparedSource,
        *,
        unit_id: str,
        row: int,
        declared: Declaration,
        texts: bool,
        images: bool,
    ) -> IngestReport:
        """Let one encoded source replace texts or images of all sources of a unit.

        Args:
            source: what comes instead.
            unit_id: the unit's id.
            row: its row.
            declared: what the source says of the unit.
            texts: replace the texts.
            images: replace the images.
        """
        self.write_pictures(source.pictures)
        counted = IngestReport()
        with self.change() as connection:
            number = content_rows.put_source(
                connection,
                uri=source.uri,
                unit=row,
                origin="update",
                digest=source.digest,
                declared=declared.to_json(),
            )
            others = content_rows.sources_of(connection, row)
            content_rows.forget_added(connection, row)
            if texts:
                for other in others:
                    content_rows.drop_source_chunks(connection, other, Dropped())
            if images:
                for other in others:
                    show(connection, other, row, [])
                shown = [self._image_row(connection, picture) for picture in source.pictures]
                counted.images_added = show(connection, number, row, shown)
            assembly.settle(connection, unit_id, self.inverted, row=row)
            if texts:
                shared = Texts(number, row, source.chunks)
                counted.chunks_added = self._store_texts(connection, [(shared, source)])
        return counted

    # ---- units and sources ---------------------------------------------------------------------

    def _store_sources(
        self,
        connection: Connection,
        batch: Sequence[Prepared],
        origin: str,
        counted: IngestReport,
    ) -> list[Rows]:
        """Write the source rows of records and settle their units."""
        born: dict[str, Born] = {}
        known: dict[int, int | None] = {}
        for place, prepared in enumerate(batch):
            unit_id = prepared.unit.id if prepared.unit else None
            known[place] = unit_row(connection, unit_id) if unit_id else None
            fresh = known[place] is None and unit_id not in born
            if (
                prepared.unit
                and unit_id
                and fresh
                and not any(source.known for source in prepared.sources)
            ):
                said = [
                    (s.uri, s.digest, Declaration.from_unit(prepared.unit, s.relations))
                    for s in prepared.sources
                ]
                born[unit_id] = Born(place, unit_id, origin, said)
        rows = {
            one.place: (unit, sources)
            for one, (unit, sources) in zip(
                born.values(),
                assembly.settle_new(connection, list(born.values()), self.inverted),
                strict=True,
            )
        }
        counted.units_added += len(born)
        return [
            rows.get(place) or self._store_one(connection, prepared, origin, counted)
            for place, prepared in enumerate(batch)
        ]

    def _store_one(
        self, connection: Connection, prepared: Prepared, origin: str, counted: IngestReport
    ) -> Rows:
        """Write a record's source rows and settle its unit."""
        said = [(s.uri, origin, s.digest, declaration(prepared, s)) for s in prepared.sources]
        return self.put_one(connection, prepared.unit.id if prepared.unit else None, said, counted)

    def put_one(
        self,
        connection: Connection,
        unit_id: str | None,
        said: Sequence[tuple[str, str, str, str]],
        counted: IngestReport,
    ) -> Rows:
        """Write sources, known or not, and settle the unit that they speak of.

        Args:
            connection: inside a change.
            unit_id: the unit's id; None for shared text.
            said: (uri, origin, digest, declaration) of each source.
            counted: is added to.
        """
        row = None
        if unit_id is not None:
            row = unit_row(connection, unit_id)
            counted.units_added += row is None
            counted.units_updated += row is not None
            if row is None:
                row = content_rows.put_unit(
                    connection,
                    unit_id=unit_id, name="", kind="", aliases=(), metadata="{}", match=False,
                )  # fmt: skip
        sources = []
        for uri, origin, digest, declared in said:
            self._release(connection, uri, row)
            sources.append(
                content_rows.put_source(
                    connection, uri=uri, unit=row, origin=origin, digest=digest, declared=declared
                )
            )
        if unit_id is not None and row is not None:
            assembly.settle(connection, unit_id, self.inverted, row=row)
        return row, sources

    def _release(self, connection: Connection, uri: str, unit: int | None) -> None:
        """Drop a source that belonged to another unit so far."""
        stored = connection.execute(
            "SELECT row, unit FROM sources WHERE uri = ?", (uri,)
        ).fetchone()
        if stored and stored[1] != unit:
            # Of others nothing goes but what nobody speaks of any more.
            delete_sources(connection, [stored[0]], self.inverted, Dropped(), bare=True)

    # ---- texts and images ----------------------------------------------------------------------

    @staticmethod
    def _texts_are_new(connection: Connection, source: PreparedSource, row: int) -> bool:
        """Whether a source's chunks have to be written; those that they replace are dropped."""
        if source.texts_stay:
            return False
        stored = connection.execute(
            "SELECT document, hash FROM chunks WHERE source = ? ORDER BY position", (row,)
        ).fetchall()
        if stored and stored == [(n, content_hash(c)) for n, c in source.chunks]:
            return False
        if stored:
            content_rows.drop_source_chunks(connection, row, Dropped())
        return bool(source.chunks)

    def _store_texts(
        self, connection: Connection, texts: Sequence[tuple[Texts, PreparedSource]]
    ) -> int:
        """Write chunks with their vectors and list them; returns how many there were."""
        count = sum(len(of.chunks) for of, _ in texts)
        fresh = content_rows.add_texts(connection, [of for of, _ in texts])
        made = [s.chunk_vectors for _, s in texts if s.chunk_vectors is not None and s.chunks]
        if made:
            row = self._encoder_rows["chunk"]
            vectors.put(connection, "chunk", row, list(fresh), np.concatenate(made))
        self.inverted.add_chunks(fresh)
        return count

    def _store_images(
        self,
        connection: Connection,
        source: PreparedSource,
        row: int,
        unit: int | None,
    ) -> int:
        """Let a source show its pictures; returns how many it did not show before."""
        if source.pictures_stay:
            return 0
        shown = [self._image_row(connection, picture) for picture in source.pictures]
        if source.partial:
            shown = list(dict.fromkeys([*content_rows.shown(connection, row), *shown]))
        return show(connection, row, unit, shown)

    def _image_row(self, connection: Connection, picture: Picture) -> int:
        return image_row(connection, picture.digest) or self.add_image(connection, picture)

    def add_image(self, connection: Connection, picture: Picture) -> int:
        """Store an encoded picture that is not stored yet; returns its row."""
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
        vectors.put(connection, "image", self._encoder_rows["image"], [row], vector[None])
        return row


def image_row(connection: Connection, digest: str) -> int | None:
    """The row of the image with this content, if there is one."""
    row = connection.execute("SELECT row FROM images WHERE hash = ?", (digest,)).fetchone()
    return row and int(row[0])


def unit_row(connection: Connection, unit_id: str) -> int | None:
    """The row of the unit with this id, if there is one."""
    row = connection.execute("SELECT row FROM units WHERE id = ?", (unit_id,)).fetchone()
    return row and int(row[0])


def show(connection: Connection, source: int, unit: int | None, shown: Sequence[int]) -> int:
    """Let a source show exactly these images; returns how many it did not show before."""
    before = content_rows.shown(connection, source)
    if before != list(shown):
        content_rows.replace_images(
            connection, source=source, unit=unit, images=shown, dropped=Dropped()
        )
    return len(set(shown) - set(before))


def _state(connection: Connection, batch: Sequence[Prepared], rows: Sequence[Rows]) -> range:
    """Replace what the sources of records state about their units; returns the new rows."""
    stated = {}
    for prepared, (unit, sources) in zip(batch, rows, strict=True):
        if unit is None:
            continue
        for source, row in zip(prepared.sources, sources, strict=True):
            stated[row] = Stated(row, unit, relations.said(source.relations))
    for row in sorted(relations.sources_that_state(connection, stated)):
        relations.drop_of_source(connection, row)
    return relations.add_many(connection, list(stated.values()))


def _declared(unit: Unit, stated: str) -> Declaration:
    """As `Declaration.from_unit`, with the digest of what is stated."""
    return Declaration(
        name=unit.name,
        kind=unit.kind,
        aliases=unit.aliases,
        metadata=unit.metadata,
        match=unit.match,
        relations=stated,
    )


def declaration(prepared: Prepared, source: PreparedSource) -> str:
    """What a source says of its record's unit, as it is stored and compared."""
    if prepared.unit is None:
        return "{}"
    return Declaration.from_unit(prepared.unit, source.relations).to_json()


def add_up(report: IngestReport, counted: IngestReport) -> None:
    """Add what one commit brought to a report."""
    report.units_added += counted.units_added
    report.units_updated += counted.units_updated
    report.chunks_added += counted.chunks_added
    report.images_added += counted.images_added
    report.relations_added += counted.relations_added
