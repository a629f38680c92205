"""From records to rows: prepare, encode, commit, a batch of whole units at a time.

Nothing of a batch is visible before all of it is: its pictures are on disk and synced, then one
transaction brings units, chunks, vectors, keyword rows, lists and relations together. A run that is
stopped leaves what was committed, and the next run passes over it as unchanged.

While a batch is encoded, which is what takes long, its pictures are written, the one before it is
committed and the next one is read.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.encoders.pair import side
from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest import assembly
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.chunking import chunk
from ku_rag.ingest.decoding import decoded
from ku_rag.ingest.preparation import Picture, Prepared, PreparedSource, prepare
from ku_rag.ingest.removal import delete_sources
from ku_rag.ingest.seen import Seen
from ku_rag.settings import Settings
from ku_rag.store import contents, relations, vectors
from ku_rag.store.contents import Dropped, content_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, image_file, write_durably
from ku_rag.store.vectors import Kind
from ku_rag.types import IngestReport, Quarantined, Record

_BATCH_BYTES = 32 << 20
_BATCH_SECONDS = 2.0
_BATCH_RECORDS = 512

Vector = NDArray[np.float32]

Progress = Callable[[int], None]
"""Called with the number of records seen so far."""


@dataclass(frozen=True, slots=True)
class Given:
    """Ready-made vectors of one record: then each text is one chunk, as it is.

    Args:
        texts: float32[number of texts, dim], or None to encode.
        images: float32[number of images, dim], or None to encode.
    """

    texts: Vectors | None = None
    images: Vectors | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What of a batch has to be encoded, and the vectors that there are.

    Args:
        batch: the records.
        texts: chunks without a vector, by digest.
        pictures: those without a vector.
        of_texts: vectors of chunks, by digest.
        of_pictures: vectors of pictures, by digest.
        broken: what is wrong with pictures that cannot be decoded, by digest.
    """

    batch: Sequence[Prepared]
    texts: dict[str, str]
    pictures: Sequence[Picture]
    of_texts: dict[str, Vector]
    of_pictures: dict[str, Vector]
    broken: dict[str, str] = field(default_factory=dict)


class Pipeline:
    """Stores records; the caller holds the writer lock.

    Args:
        database: where rows go.
        layout: where pictures go.
        encoder: makes the vectors.
        encoder_rows: its rows in the store, for chunks and for images.
        settings: chunk length, copying or linking of pictures.
    """

    def __init__(
        self,
        database: Database,
        layout: Layout,
        encoder: Encoder,
        encoder_rows: Mapping[Kind, int],
        settings: Settings,
    ) -> None:
        self.inverted = InvertedIndex(database)
        self._database = database
        self._layout = layout
        self._encoder = encoder
        self._encoder_rows = encoder_rows
        self._settings = settings
        self._encoding = Lock()

    def run(
        self,
        items: Iterable[Record | Quarantined],
        *,
        origin: str = "ingest",
        progress: Progress | None = None,
        keep_files: bool = True,
    ) -> IngestReport:
        """Store all records that a reader yields.

        Args:
            items: records and what the reader had to leave out.
            origin: "ingest", "add", "join" or "update".
            progress: told how far it is.
            keep_files: False writes no picture files: for a change that will be taken back.
        """
        report = IngestReport()
        stated: list[int] = []
        before: Callable[[], None] | None = None
        with Seen(self._database) as seen, ThreadPoolExecutor(2, "ku-ingest") as pool:
            batches = self._batches(items, report, seen, progress)
            while True:
                batch: list[Prepared] | None = None
                try:
                    batch = next(batches, None)
                finally:  # also when reading is interrupted: what was begun is kept
                    due, before = before, None
                    if batch:
                        before = self._begin(
                            batch, pool, origin, report, stated, keep_files=keep_files
                        )
                    if due:
                        due()
                if batch is None:
                    break
        for head, relation, target in relations.waiting(self._database.connection, stated):
            report.quarantined.append(
                Quarantined(
                    f"{head}: {relation} {target}",
                    f"no unit or entity is called {target!r}; the relation is kept and will hold "
                    "when one is added (or give it a target_kind to declare the target)",
                )
            )
        return report

    def put(self, prepared: Prepared, *, origin: str) -> IngestReport:
        """Store one prepared and encoded record."""
        report = IngestReport()
        if self._news(prepared):
            self._write_pictures(prepared.pictures())
            self._commit([prepared], origin, report, [])
        return report

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
        self._write_pictures(source.pictures)
        counted = IngestReport()
        with self.change() as connection:
            number = contents.put_source(
                connection,
                uri=source.uri,
                unit=row,
                origin="update",
                digest=source.digest,
                declared=declared.to_json(),
            )
            others = contents.sources_of(connection, row)
            contents.forget_added(connection, row)
            fresh: dict[int, str] = {}
            if texts:
                for other in others:
                    contents.drop_source_chunks(connection, other, Dropped())
                fresh = self._store_chunks(connection, source, number, row)
            if images:
                for other in others:
                    self._show(connection, other, row, [])
                shown = [self._image_row(connection, picture) for picture in source.pictures]
                counted.images_added = self._show(connection, number, row, shown)
            assembly.settle(connection, unit_id, self.inverted, row=row)
            self.inverted.add_chunks(fresh)
            counted.chunks_added = len(fresh)
        return counted

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """One transaction, after whose failure the names are read again."""
        try:
            with self._database.change() as connection:
                yield connection
        except BaseException:
            self.inverted.forget()
            raise

    # ---- batches -------------------------------------------------------------------------------

    def _batches(
        self,
        items: Iterable[Record | Quarantined],
        report: IngestReport,
        seen: Seen,
        progress: Progress | None,
    ) -> Iterator[list[Prepared]]:
        batch: list[Prepared] = []
        size = 0
        started = time.monotonic()
        for count, item in enumerate(items, 1):
            if progress:
                progress(count)
            if isinstance(item, Quarantined):
                report.quarantined.append(item)
                continue
            record = seen.first_time(item, report)
            if not record.sources:
                continue
            prepared = prepare(record, report=report)
            if not self._news(prepared):
                report.units_unchanged += self._is_known(prepared)
                continue
            batch.append(prepared)
            size += prepared.size
            late = time.monotonic() - started > _BATCH_SECONDS
            if late or size > _BATCH_BYTES or len(batch) >= _BATCH_RECORDS:
                yield batch
                batch, size, started = [], 0, time.monotonic()
        if batch:
            yield batch

    def _news(self, prepared: Prepared) -> bool:
        """Whether anything in a record is not stored yet exactly so; the rest of it is let go."""
        prepared.sources = [s for s in prepared.sources if not self._is_stored(s, prepared)]
        return bool(prepared.sources)

    def _is_stored(self, source: PreparedSource, prepared: Prepared) -> bool:
        """Whether a source is stored as it is; notes which parts of it are."""
        stored = self._database.connection.execute(
            "SELECT s.hash, s.declared, u.id FROM sources s LEFT JOIN units u ON u.row = s.unit "
            "WHERE s.uri = ?",
            (source.uri,),
        ).fetchone()
        if stored is None:
            return False
        digest, declared, owner = stored
        if digest == source.digest and declared == _declared(prepared, source):
            return True
        if owner == (prepared.unit and prepared.unit.id):
            texts, _, pictures = digest.partition(":")
            source.texts_stay = source.hashes[0] == texts
            source.pictures_stay = source.hashes[1] == pictures
        return False

    # ---- encoding ------------------------------------------------------------------------------

    def _begin(
        self,
        batch: Sequence[Prepared],
        pool: ThreadPoolExecutor,
        origin: str,
        report: IngestReport,
        stated: list[int],
        *,
        keep_files: bool,
    ) -> Callable[[], None]:
        """Have a batch encoded and its pictures written; returns what waits for that and commits.

        Two batches may be under way. The encoder is called by one thread at a time, in order.
        """
        plan = self._plan(batch)
        written: Future[None] | None = None
        if keep_files:
            pictures = [p for prepared in batch for p in prepared.pictures()]
            written = pool.submit(self._write_pictures, pictures)
        made = pool.submit(self._make, plan)

        def finish() -> None:
            made.result()
            sound = self._sound(batch, self._take(plan), report)
            if written:
                written.result()
            if sound:
                self._commit(sound, origin, report, stated)

        return finish

    def _sound(
        self, batch: Sequence[Prepared], broken: Mapping[str, str], report: IngestReport
    ) -> list[Prepared]:
        """An encoded batch without the pictures that turned out to be broken."""
        if not broken:
            return list(batch)
        sound = []
        for prepared in batch:
            left_out = prepared.leave_out(broken)
            report.quarantined += [Quarantined(str(p.path), broken[p.digest]) for p in left_out]
            if not left_out or self._news(prepared):
                sound.append(prepared)
            else:
                report.units_unchanged += self._is_known(prepared)
        return sound

    def encode(self, batch: Sequence[Prepared], given: Given | None = None) -> dict[str, str]:
        """Cut texts into chunks and give every chunk and picture that needs one a vector.

        Returns:
            What is wrong with pictures that cannot be decoded, by digest.
        """
        plan = self._plan(batch, given)
        self._make(plan)
        return self._take(plan)

    def _plan(self, batch: Sequence[Prepared], given: Given | None = None) -> _Plan:
        """Cut texts into chunks and look up what has a vector already."""
        texts: dict[str, str] = {}
        for source in (s for prepared in batch for s in prepared.sources if not s.texts_stay):
            if given and given.texts is not None:
                source.chunks = list(enumerate(source.texts))
                source.chunk_vectors = given.texts
                continue
            source.chunks = [(n, c) for n, text in enumerate(source.texts) for c in self._cut(text)]
            texts.update((content_hash(c), c) for _, c in source.chunks)
        made: dict[str, Vector] = {}
        left = {d: text for d, text in texts.items() if not self._reuse("chunk", d, made)}
        pictures = {p.digest: p for prepared in batch for p in prepared.pictures()}
        seen: dict[str, Vector] = {}
        if given and given.images is not None:
            seen.update(zip(pictures, given.images, strict=True))
        unknown = [
            p for d, p in pictures.items() if d not in seen and not self._reuse("image", d, seen)
        ]
        return _Plan(batch, left, unknown, made, seen)

    def _make(self, plan: _Plan) -> None:
        """Encode what a plan says; nothing here looks at the database."""
        groups = decoded(plan.pictures, self._decode)
        # The first pictures are decoded while the batch before is still encoded.
        first = list(islice(groups, 1))
        with self._encoding:
            if plan.texts:
                found = self._encoder.encode_texts(list(plan.texts.values()))
                plan.of_texts.update(zip(plan.texts, found, strict=True))
            for sound, unsound in chain(first, groups):
                plan.broken.update((picture.digest, str(error)) for picture, error in unsound)
                if sound:
                    found = self._encoder.encode_images([image for _, image in sound])
                    digests = (picture.digest for picture, _ in sound)
                    plan.of_pictures.update(zip(digests, found, strict=True))

    def _take(self, plan: _Plan) -> dict[str, str]:
        """Hand the vectors to the records; returns what is wrong with pictures, by digest."""
        for prepared in plan.batch:
            for source in prepared.sources:
                if source.chunk_vectors is None:
                    rows = [plan.of_texts[content_hash(c)] for _, c in source.chunks]
                    source.chunk_vectors = _stack(rows, side(self._encoder, "chunk").dim)
            for picture in prepared.pictures():
                picture.vector = plan.of_pictures.get(picture.digest)
        return plan.broken

    def _decode(self, picture: Picture) -> Image:
        """A picture, in the size that the encoder looks at if it says which."""
        fit: Callable[[Image], Image] | None = getattr(side(self._encoder, "image"), "fit", None)
        image = picture.decode()
        return fit(image) if fit else image

    def _cut(self, text: str) -> list[str]:
        if not text.strip():
            return []
        limit = self._encoder.max_tokens
        return chunk(
            text,
            count_tokens=self._encoder.count_tokens,
            max_tokens=min(self._settings.max_tokens or limit, limit),
        )

    def _reuse(self, kind: Kind, digest: str, made: dict[str, Vector]) -> bool:
        """Take the vector of the same content by the same encoder, if there is one."""
        table = {"chunk": "chunks", "image": "images"}[kind]
        connection = self._database.connection
        row = connection.execute(
            f"SELECT row FROM {table} WHERE hash = ? LIMIT 1", (digest,)
        ).fetchone()
        if row is None:
            return False
        dim = side(self._encoder, kind).dim
        _, found = vectors.gather(connection, kind, self._encoder_rows[kind], [row[0]], dim)
        if not len(found):
            return False
        made[digest] = found[0]
        return True

    # ---- committing ----------------------------------------------------------------------------

    def _commit(
        self,
        batch: Sequence[Prepared],
        origin: str,
        report: IngestReport,
        stated: list[int],
    ) -> None:
        counted = IngestReport()
        new_relations: list[int] = []
        with self.change() as connection:
            fresh: dict[int, str] = {}
            # Names first: the chunks of this batch are then looked through for all of them.
            rows = [self._store_sources(connection, p, origin, counted) for p in batch]
            for prepared, (unit, sources) in zip(batch, rows, strict=True):
                for source, row in zip(prepared.sources, sources, strict=True):
                    fresh |= self._store_content(connection, source, row, unit, counted)
            self.inverted.add_chunks(fresh)
            for prepared, (unit, sources) in zip(batch, rows, strict=True):
                if unit is not None:
                    new_relations += self._state(connection, prepared, unit, sources)
        counted.relations_added = len(new_relations)
        stated += new_relations
        _add_up(report, counted)

    def _write_pictures(self, pictures: Iterable[Picture]) -> None:
        if self._settings.images == "copy":
            write_durably(
                (self._layout.image(image_file(p.digest, p.suffix)), p.data) for p in pictures
            )

    def _store_sources(
        self, connection: sqlite3.Connection, prepared: Prepared, origin: str, counted: IngestReport
    ) -> tuple[int | None, list[int]]:
        """Write a record's source rows and settle its unit; returns (unit row, source rows)."""
        unit = prepared.unit
        row = self._unit_row(unit.id or "") if unit else None
        if unit:
            counted.units_added += row is None
            counted.units_updated += row is not None
        if unit and row is None:
            row = contents.put_unit(
                connection,
                unit_id=unit.id or "", name="", kind="", aliases=(), metadata="{}", match=False,
            )  # fmt: skip
        sources = []
        for source in prepared.sources:
            self._release(connection, source.uri, row)
            sources.append(
                contents.put_source(
                    connection,
                    uri=source.uri,
                    unit=row,
                    origin=origin,
                    digest=source.digest,
                    declared=_declared(prepared, source),
                )
            )
        if unit and row is not None:
            assembly.settle(connection, unit.id or "", self.inverted, row=row)
        return row, sources

    def _release(self, connection: sqlite3.Connection, uri: str, unit: int | None) -> None:
        """Drop a source that belonged to another unit so far."""
        stored = connection.execute(
            "SELECT row, unit FROM sources WHERE uri = ?", (uri,)
        ).fetchone()
        if stored and stored[1] != unit:
            delete_sources(connection, [stored[0]], self.inverted, Dropped())

    def _store_content(
        self,
        connection: sqlite3.Connection,
        source: PreparedSource,
        row: int,
        unit: int | None,
        counted: IngestReport,
    ) -> dict[int, str]:
        """Replace the chunks and images of one source that changed; returns the new chunks."""
        fresh: dict[int, str] = {}
        if not source.texts_stay:
            stored = connection.execute(
                "SELECT document, hash FROM chunks WHERE source = ? ORDER BY position", (row,)
            ).fetchall()
            if stored != [(n, content_hash(c)) for n, c in source.chunks]:
                contents.drop_source_chunks(connection, row, Dropped())
                fresh = self._store_chunks(connection, source, row, unit)
        counted.chunks_added += len(fresh)
        if not source.pictures_stay:
            shown = [self._image_row(connection, picture) for picture in source.pictures]
            if source.partial:
                shown = list(dict.fromkeys([*contents.shown(connection, row), *shown]))
            counted.images_added += self._show(connection, row, unit, shown)
        return fresh

    def _store_chunks(
        self, connection: sqlite3.Connection, source: PreparedSource, row: int, unit: int | None
    ) -> dict[int, str]:
        rows = contents.add_chunks(connection, source=row, unit=unit, chunks=source.chunks)
        if source.chunk_vectors is not None:
            vectors.put(
                connection, "chunk", self._encoder_rows["chunk"], rows, source.chunk_vectors
            )
        return {row: text for row, (_, text) in zip(rows, source.chunks, strict=True)}

    @staticmethod
    def _show(
        connection: sqlite3.Connection, source: int, unit: int | None, shown: Sequence[int]
    ) -> int:
        """Let a source show exactly these images; returns how many it did not show before."""
        before = contents.shown(connection, source)
        if before != list(shown):
            contents.replace_images(
                connection, source=source, unit=unit, images=shown, dropped=Dropped()
            )
        return len(set(shown) - set(before))

    def _image_row(self, connection: sqlite3.Connection, picture: Picture) -> int:
        found = connection.execute(
            "SELECT row FROM images WHERE hash = ?", (picture.digest,)
        ).fetchone()
        if found:
            return int(found[0])
        linked = self._settings.images == "link"
        row = contents.add_image(
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

    def _state(
        self,
        connection: sqlite3.Connection,
        prepared: Prepared,
        unit: int,
        sources: Sequence[int],
    ) -> list[int]:
        """Replace what the record's sources state about its unit; returns the new rows."""
        stated = []
        for source, row in zip(prepared.sources, sources, strict=True):
            relations.drop_of_source(connection, row)
            stated += relations.add(connection, source=row, unit=unit, stated=source.relations)
        return stated

    def _is_known(self, prepared: Prepared) -> bool:
        return prepared.unit is not None and self._unit_row(prepared.unit.id or "") is not None

    def _unit_row(self, unit_id: str) -> int | None:
        row = self._database.connection.execute(
            "SELECT row FROM units WHERE id = ?", (unit_id,)
        ).fetchone()
        return row and int(row[0])


def _declared(prepared: Prepared, source: PreparedSource) -> str:
    if prepared.unit is None:
        return "{}"
    return Declaration.from_unit(replace(prepared.unit, relations=source.relations)).to_json()


def _stack(rows: Sequence[Vector], dim: int) -> Vectors:
    return np.stack(rows) if rows else np.empty((0, dim), np.float32)


def _add_up(report: IngestReport, counted: IngestReport) -> None:
    report.units_added += counted.units_added
    report.units_updated += counted.units_updated
    report.chunks_added += counted.chunks_added
    report.images_added += counted.images_added
    report.relations_added += counted.relations_added
