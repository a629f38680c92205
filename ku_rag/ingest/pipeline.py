"""From records to rows: prepare, encode, commit, a batch of whole units at a time.

Nothing of a batch is visible before all of it is: its pictures are on disk and synced, then one
transaction brings units, chunks, vectors, keyword rows, lists and relations together. A run that is
stopped leaves what was committed, and the next run passes over it as unchanged.

While a batch is encoded, which is what takes long, its pictures are written, the one before it is
committed and the next one is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.encoders.pair import side
from ku_rag.ingest.chunking import chunk
from ku_rag.ingest.image_decoding import decoded
from ku_rag.ingest.preparation import Picture, Prepared, PreparedSource, prepare
from ku_rag.ingest.seen_sources import Seen
from ku_rag.ingest.unit_writer import Storing, declaration, unit_row
from ku_rag.settings import Settings
from ku_rag.store import relations, vectors
from ku_rag.store.content_rows import content_hash
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import Kind
from ku_rag.types import IngestReport, Quarantined, Record

_SHARE = 32
"""A batch takes this share of the memory: three are under way, each with what is made of it."""
_BATCH_SECONDS = 2.0
_BATCH_RECORDS = 2048

_LETTERS = 3
_USUAL_TOKENS = 256
"""A chunk has about three letters for each token that fits into it."""

Vector = NDArray[np.float32]

Item = Record | Prepared | Quarantined
"""What a reader yields; what is prepared already may stand for a record."""

Progress = Callable[[int], None]
"""Called with the number of records seen so far."""


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
        self._storing = Storing(database, layout, encoder_rows, settings)
        self._database = database
        self._encoder = encoder
        self._encoder_rows = encoder_rows
        self._settings = settings
        self._encoding = Lock()

    @property
    def storing(self) -> Storing:
        """What writes the rows."""
        return self._storing

    def run(
        self,
        items: Iterable[Item],
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
        started = time.monotonic()
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
                    f"no unit or entity is called {target!r}, or several are; the relation is kept "
                    "and will hold when one alone is: name its id (or give it a target_kind to "
                    "declare the target)",
                )
            )
        report.seconds = time.monotonic() - started
        return report

    def put(self, prepared: Prepared, *, origin: str) -> IngestReport:
        """Store one prepared and encoded record."""
        report = IngestReport()
        if self._news(prepared):
            self._storing.write_pictures(prepared.pictures())
            self._storing.commit([prepared], origin, report, [])
        return report

    # ---- batches -------------------------------------------------------------------------------

    def _batches(
        self,
        items: Iterable[Item],
        report: IngestReport,
        seen: Seen,
        progress: Progress | None,
    ) -> Iterator[list[Prepared]]:
        batch: list[Prepared] = []
        size = 0
        most = (self._settings.max_memory << 20) // _SHARE
        started = time.monotonic()
        for count, item in enumerate(items, 1):
            if progress:
                progress(count)
            if isinstance(item, Quarantined):
                report.quarantined.append(item)
                continue
            if isinstance(item, Prepared):
                prepared = item
            else:
                record = seen.first_time(item, report)
                if not record.sources:
                    continue
                prepared = prepare(record, report=report)
            if not self._news(prepared):
                report.units_unchanged += self._is_known(prepared)
                continue
            batch.append(prepared)
            size += self._weight(prepared)
            late = time.monotonic() - started > _BATCH_SECONDS
            if late or size > most or len(batch) >= _BATCH_RECORDS:
                yield batch
                batch, size, started = [], 0, time.monotonic()
        if batch:
            yield batch

    def _weight(self, prepared: Prepared) -> int:
        """About how many bytes a record and its vectors take."""
        if prepared.given.texts is not None:
            return prepared.size + prepared.given.texts.nbytes
        letters = sum(len(text) for source in prepared.sources for text in source.texts)
        encoder = side(self._encoder, "chunk")
        chunks = letters // (_LETTERS * min(encoder.max_tokens, _USUAL_TOKENS)) + 1
        return prepared.size + chunks * 4 * encoder.dim

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
        source.known = True
        if owner != (prepared.unit and prepared.unit.id):
            return False
        if digest == source.digest and declared == declaration(prepared, source):
            return True
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
            written = pool.submit(self._storing.write_pictures, pictures)
        made = pool.submit(self._make, plan)

        def finish() -> None:
            made.result()
            sound = self._sound(batch, self._take(plan), report)
            if written:
                written.result()
            if sound:
                self._storing.commit(sound, origin, report, stated)

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

    def encode(self, batch: Sequence[Prepared]) -> dict[str, str]:
        """Cut texts into chunks and give every chunk and picture that needs one a vector.

        Returns:
            What is wrong with pictures that cannot be decoded, by digest.
        """
        plan = self._plan(batch)
        self._make(plan)
        return self._take(plan)

    def _plan(self, batch: Sequence[Prepared]) -> _Plan:
        """Cut texts into chunks and look up what has a vector already."""
        texts: dict[str, str] = {}
        seen: dict[str, Vector] = {}
        for prepared in batch:
            given = prepared.given
            if given.images is not None:
                shown = dict.fromkeys(picture.digest for picture in prepared.pictures())
                seen.update(zip(shown, given.images, strict=True))
            for source in (s for s in prepared.sources if not s.texts_stay):
                if given.texts is not None:
                    source.chunks = list(enumerate(source.texts))
                    source.chunk_vectors = given.texts
                    continue
                source.chunks = [
                    (n, c) for n, text in enumerate(source.texts) for c in self._cut(text)
                ]
                texts.update((content_hash(c), c) for _, c in source.chunks)
        made: dict[str, Vector] = {}
        left = {d: text for d, text in texts.items() if not self._reuse("chunk", d, made)}
        pictures = {p.digest: p for prepared in batch for p in prepared.pictures()}
        unknown = [
            p for d, p in pictures.items() if d not in seen and not self._reuse("image", d, seen)
        ]
        return _Plan(batch, left, unknown, made, seen)

    def _make(self, plan: _Plan) -> None:
        """Encode what a plan says; nothing here looks at the database."""
        groups = decoded(plan.pictures, lambda picture: picture.decode_for(self._encoder))
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

    def _is_known(self, prepared: Prepared) -> bool:
        return (
            prepared.unit is not None
            and unit_row(self._database.connection, prepared.unit.id or "") is not None
        )


def _stack(rows: Sequence[Vector], dim: int) -> Vectors:
    return np.stack(rows) if rows else np.empty((0, dim), np.float32)
