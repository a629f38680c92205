"""From records to rows: prepare, encode and commit, a batch of whole units at a time.

A batch becomes visible as a whole: its picture files are written and synced, then one transaction
stores units, chunks, vectors, keyword rows, lists and relations together. An interrupted run keeps
what was committed; the next run skips it as unchanged.

While a batch is encoded, its pictures are written, the batch before it is committed and the next
one is read.
"""

from __future__ import annotations

import base64
import gc
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from operator import itemgetter
from typing import Any

from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, BudgetSpent, ModelFailed
from ku_rag.ingest.batch_encoding import BatchEncoder, Vector
from ku_rag.ingest.preparation import (
    PreparedRecord,
    PreparedSource,
    ReadyVectors,
    earlier_texts_hash,
    prepare,
    split_digest,
)
from ku_rag.ingest.readers.item_codec import ScannedPage
from ku_rag.ingest.scans import PageWords, has_scans, read_scans, with_photographed_pages
from ku_rag.ingest.seen_sources import SeenSources
from ku_rag.ingest.transcription import TRANSCRIBED, Transcriber
from ku_rag.ingest.unit_writer import UnitWriter
from ku_rag.mllm.base import usage
from ku_rag.pictures import probe
from ku_rag.recognisers import CachedRecogniser
from ku_rag.settings import Settings
from ku_rag.store import content_rows, vectors, vocabulary
from ku_rag.store.connection import as_json
from ku_rag.store.content_rows import content_hash, text_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout, write_durably
from ku_rag.store.unit_records import unit_row
from ku_rag.store.vectors import Kind
from ku_rag.types import IngestReport, Progress, Quarantined, Record

_SHARE = 32
"""A batch takes this share of the memory: three are in progress, each with its vectors."""
_BATCH_SECONDS = 2.0
_BATCH_RECORDS = 8192
"""Records with texts or pictures; others take little time. Small batches write more: each commit
changes pages of all indexes."""
_RECORD_BYTES = 512

_WRITERS = 8
"""Threads that write pictures: most of their time is waiting for the disk."""

_NEW_OBJECTS = 100_000  # until garbage is collected; few are in cycles
_LETTERS = 3
_USUAL_TOKENS = 256
"""A chunk has about three letters for each token that fits into it."""

_NOT_READ = (
    "the base has no recogniser, or it failed (see the log): install the extra ocr, set recogniser "
    '= "rapidocr" in its ku.toml, or name a model with --read-pages, and ingest again'
)
_OF_DOCUMENT = "s.origin = 'ingest' AND s.declared LIKE '%\"file_format\"%'"
"""Condition of sources that are one whole document: they alone declare their format."""

Item = Record | PreparedRecord | Quarantined
"""What a reader yields; a prepared record is stored as it is."""

Commit = Callable[[], IngestReport]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Records to store, and what was left out or is unchanged beside them."""

    records: list[PreparedRecord]
    report: IngestReport


class Pipeline:
    """Stores records; the caller holds the writer lock.

    Args:
        layout: Places of the picture files.
        encoder_rows: Its rows in the store, for chunks and for images.
        settings: Chunk length, memory, copying or linking of pictures.
        recogniser: Returns the recogniser of words in pictures, or None.

    Attributes:
        transcriber: Reads pages without text in place of the recogniser.
    """

    transcriber: Transcriber | None = None

    def __init__(
        self,
        database: Database,
        layout: Layout,
        encoder: Encoder,
        encoder_rows: Mapping[Kind, int],
        settings: Settings,
        recogniser: Callable[[], CachedRecogniser | None],
    ) -> None:
        self.writer = UnitWriter(database, layout, encoder_rows, settings)
        self._database = database
        self.encoder = encoder
        self._encoder_rows = encoder_rows
        self._settings = settings
        self._recogniser = recogniser
        self._batch_encoder = BatchEncoder(encoder, settings.max_tokens, recogniser)
        self.max_tokens = self._batch_encoder.max_tokens

    def run(
        self,
        items: Iterable[Item],
        *,
        progress: Progress | None = None,
        write_files: bool = True,
    ) -> IngestReport:
        """Store all records that a reader yields.

        Args:
            items: Records, and what the reader left out.
            progress: Called with the number of items read so far.
            write_files: False writes no picture files, for a change that is rolled back.
        """
        started = time.monotonic()
        report = IngestReport()
        commit: Commit | None = None
        with (
            _frozen_objects(),
            vocabulary.kept(self._database.connection),
            ThreadPoolExecutor(2 + _WRITERS, "ku-ingest") as pool,
        ):
            batches = self._batches(items, progress)
            while True:
                batch: _Batch | None = None
                try:
                    batch = next(batches, None)
                finally:  # a batch that was begun is committed, also when reading is interrupted
                    due, commit = commit, None
                    if batch:
                        records, unchanged = self._without_stored(batch.records, repair=write_files)
                        report += batch.report
                        report.units_unchanged += unchanged
                        commit = self._begin(records, pool, write_files)
                    if due:
                        report += due()
                if batch is None:
                    break
        report.seconds = time.monotonic() - started
        if self.transcriber:
            report.usage = Counter(usage(self.transcriber.mllm.replies))
        return report

    def put(self, record: PreparedRecord) -> IngestReport:
        """Store one encoded record."""
        if not self._without_stored([record], repair=True)[0]:
            return IngestReport()
        write_durably(self.writer.picture_files(record.pictures()))
        return self.writer.commit([record])

    def encode(
        self, record: Record, origin: str, vectors: ReadyVectors | None = None
    ) -> PreparedRecord:
        """Prepare one record and encode its texts and pictures; see `prepare`.

        Raises:
            BadInput: A picture cannot be read or decoded.
        """
        prepared, unread = prepare(record, origin, vectors)
        if unread:
            raise BadInput("; ".join(problem.reason for problem in unread))
        plan = self._batch_encoder.plan([prepared], self._load_vectors)
        self._batch_encoder.encode(plan)
        if plan.broken:
            raise BadInput("; ".join(plan.broken.values()))
        self._batch_encoder.assign([prepared], plan)
        return prepared

    # ---- batches -------------------------------------------------------------------------------

    def _batches(self, items: Iterable[Item], progress: Progress | None) -> Iterator[_Batch]:
        seen, documents = SeenSources(), dict[str, str]()
        batch, size, contents = _Batch([], IngestReport()), 0, 0
        most = (self._settings.max_memory << 20) // _SHARE
        started = time.monotonic()
        for item in self._read_items(items, progress):
            if isinstance(item, Quarantined):
                batch.report.quarantined.append(item)
                continue
            if isinstance(item, PreparedRecord):
                prepared = item
            else:
                record, repeated = seen.new_sources(item)
                batch.report.quarantined += repeated
                if not record.sources:
                    continue
                if record.is_document:
                    record = self._with_own_id(record, documents)
                prepared, unread = prepare(record, "ingest")
                batch.report.quarantined += unread
            batch.records.append(prepared)
            size += self._weight(prepared)
            contents += any(source.texts or source.pictures for source in prepared.sources)
            late = time.monotonic() - started > _BATCH_SECONDS
            if late or size > most or contents >= _BATCH_RECORDS:
                yield batch
                batch, size, contents = _Batch([], IngestReport()), 0, 0
                started = time.monotonic()
        yield batch

    def _read_items(self, items: Iterable[Item], progress: Progress | None) -> Iterator[Item]:
        """Yield items, records with the text of their scanned pages."""
        stored = "SELECT 1 FROM image_words LIMIT 1"
        has_words = self._recogniser() or self._database.connection.execute(stored).fetchone()
        for count, item in enumerate(items, 1):
            if progress:
                progress(count)
            if isinstance(item, Record) and has_words:
                item = with_photographed_pages(item, self._read_page)
            if not (isinstance(item, Record) and has_scans(item)):
                yield item
                continue

            def read(page: ScannedPage, count: int = count) -> PageWords | str:
                if progress:
                    progress(count)
                return self._read_page(page)

            yield from read_scans(item, read)

    def _read_page(self, page: ScannedPage) -> PageWords | str:
        """Return the words of a page, stored with its picture or read now; or why there are none.

        A stored transcription stays unless another model is to read the page. Where reading fails,
        the stored words are used.
        """
        data = base64.b64decode(page.content, validate=True)
        digest, connection = content_hash(data), self._database.connection
        printed = next(iter(content_rows.words_of(connection, digest).items()), None)
        model, new, fault = printed[0] if printed else "", None, _NOT_READ
        reader: Transcriber | CachedRecogniser | None = self.transcriber if page.page else None
        if not reader and not model.startswith(TRANSCRIBED):
            reader = self._recogniser()
        try:
            new = reader.read_file(data) if reader and reader.fingerprint != model else None
        except (BudgetSpent, ModelFailed) as error:
            fault = f"it was not transcribed: {error}"
        if new and connection.execute("SELECT 1 FROM images WHERE hash = ?", (digest,)).fetchone():
            with self._database.change():
                content_rows.put_words(connection, digest, *new)
        if not (printed := new or printed):
            return fault
        page.printed = printed
        return (probe(data)[:2], *printed)

    def _with_own_id(self, record: Record, documents: dict[str, str]) -> Record:
        """Return a document with the id that it has in the base, or one that no other document has.

        `documents` has the uri of each id that was given in this run, and gets this one.
        """
        connection, (source, *_), unit = self._database.connection, record.sources, record.unit
        assert unit is not None

        def owners(condition: str, value: str) -> list[str]:
            query = f"SELECT u.id FROM sources s JOIN units u ON u.row = s.unit WHERE {condition}"
            return connection.column(f"{query} AND {_OF_DOCUMENT}", (value,))

        if stored := owners("s.uri = ?", source.uri):
            (new_id,) = stored
        else:
            new_id, number = str(unit.id), 1
            while documents.get(new_id, source.uri) != source.uri or owners("u.id = ?", new_id):
                number += 1
                new_id = f"{unit.id}-{number}"
        documents[new_id] = source.uri
        return replace(record, unit=replace(unit, id=new_id))

    def _weight(self, record: PreparedRecord) -> int:
        """About how many bytes a record and its vectors take."""
        encoder = side(self.encoder, "chunk")
        size = _RECORD_BYTES + sum(len(picture.data) for picture in record.pictures())
        for source in record.sources:
            letters = sum(map(len, source.texts or [text for _, text in source.chunks or ()]))
            chunks = letters / (_LETTERS * min(encoder.max_tokens, _USUAL_TOKENS))
            size += letters + 4 * encoder.dim * max(ceil(chunks), len(source.chunks or ()))
        return size

    def _without_stored(
        self, records: Sequence[PreparedRecord], *, repair: bool
    ) -> tuple[list[PreparedRecord], int]:
        """Return records with sources that are not stored so, and the number of units of others.

        What is stored of sources is noted in them. With `repair`, picture files of stored sources
        that are missing or damaged are written again.
        """
        connection = self._database.connection
        stored = {
            uri: fields
            for uri, *fields in connection.execute(
                "SELECT s.uri, u.id, s.hash, s.declared, s.chunks, s.origin FROM json_each(?) w "
                "CROSS JOIN sources s ON s.uri = w.value LEFT JOIN units u ON u.row = s.unit",
                (as_json(source.uri for record in records for source in record.sources),),
            )
        }
        changed, unchanged = [], 0
        for record in records:
            sources, record.sources = record.sources, []
            joined = {stored[s.uri][0] for s in sources if stored.get(s.uri, [""])[-1] == "join"}
            is_merged = bool(joined) and unit_row(connection, record.unit or "") is None
            if is_merged:  # its unit was merged into another one
                (record.unit, *_) = joined
            for source in sources:
                source.origin = "join" if is_merged else source.origin
                if source.replaces_others or not _is_stored(source, record.unit, stored):
                    record.sources.append(source)
                elif repair and source.pictures:
                    self.writer.repair_pictures(source.pictures)
            if record.sources:
                changed.append(record)
            elif record.unit is not None:
                unchanged += unit_row(connection, record.unit) is not None
        return changed, unchanged

    # ---- encoding ------------------------------------------------------------------------------

    def _begin(
        self, batch: Sequence[PreparedRecord], pool: ThreadPoolExecutor, write_files: bool
    ) -> Commit:
        """Start to encode a batch and to write its pictures; return a call that waits and commits.

        Two batches may be in progress. One thread at a time calls the encoder, in order.
        """
        plan = self._batch_encoder.plan(batch, self._load_vectors)
        pictures = (picture for record in batch for picture in record.pictures())
        files = self.writer.picture_files(pictures) if write_files else []
        encoded = pool.submit(self._batch_encoder.encode, plan)
        files.sort(key=itemgetter(0))  # so that few threads share a folder
        step = ceil(len(files) / _WRITERS) or 1
        parts = [files[at : at + step] for at in range(0, len(files), step)]
        written = [pool.submit(write_durably, part) for part in parts]

        def commit() -> IngestReport:
            encoded.result()
            records, report = batch, IngestReport()
            report.quarantined += self._batch_encoder.assign(batch, plan)
            if report.quarantined:
                records, report.units_unchanged = self._without_stored(batch, repair=False)
            for part in written:
                part.result()
            return report + self.writer.commit(records) if records else report

        return commit

    def _load_vectors(self, kind: Kind, contents: Iterable[str]) -> dict[str, Vector]:
        """Return the stored vectors of chunks, by text, or of pictures, by digest."""
        sql = "SELECT row FROM images WHERE hash = ? LIMIT 1"
        if kind == "chunk":
            sql = "SELECT row FROM chunks WHERE hash = ? AND text = ? LIMIT 1"
        connection, dim = self._database.connection, side(self.encoder, kind).dim
        by_content: dict[str, Vector] = {}
        for content in contents:
            values = (text_hash(content), content) if kind == "chunk" else (content,)
            row = connection.execute(sql, values).fetchone()
            if row:
                _, stored = vectors.gather(connection, kind, self._encoder_rows[kind], row, dim)
                if len(stored):
                    by_content[content] = stored[0]
        return by_content


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Exclude the objects that exist already, such as those of libraries, from garbage collection.

    A run creates many objects, and each full collection would traverse the existing ones again.
    """
    frozen = gc.get_freeze_count() > 0  # by the program, or by another run
    thresholds = gc.get_threshold()
    if not frozen:
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        if not frozen:
            gc.set_threshold(*thresholds)
            gc.unfreeze()


def _is_stored(
    source: PreparedSource, unit: str | None, stored: Mapping[str, Sequence[Any]]
) -> bool:
    """Return whether a source of a unit is stored as it is; note in it which parts of it are.

    `stored` are unit, hash, declaration, number of chunks and origin of stored sources, by uri.
    """
    if source.uri not in stored:
        return False
    owner, digest, declared, chunks, _ = stored[source.uri]
    if owner != unit:
        return False
    # Chunks that are given may be others although the texts are the same: those of an update.
    same_chunks = source.chunks is None or len(source.chunks) == chunks
    texts, pictures, file = split_digest(digest)
    same_texts = texts == source.texts_hash or texts == earlier_texts_hash(source.texts)
    source.keeps_texts = same_texts and same_chunks
    source.keeps_pictures = source.pictures_hash == pictures
    same = source.keeps_texts and source.keeps_pictures and source.file_hash == file
    declares = source.declared.to_json() if source.declared else "{}"
    if '"file_format":' in declares:  # a new date alone does not change a document
        date = r'"file_modified":"[^"]*"'
        declared, declares = (re.sub(date, "", text) for text in (declared, declares))
    return same and declared == declares
