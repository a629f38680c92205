"""An open knowledge base: its store, models and vector indexes, and how calls read and write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ku_rag import arguments, manifest
from ku_rag.answering.evidence_retrieval import Retrieval
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import Closed
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.mllm.base import MLLM
from ku_rag.models import Models, encoder_of
from ku_rag.plugins import absolute
from ku_rag.regions.base import Segmenter
from ku_rag.retrieval.image_matching import ImageSearch
from ku_rag.settings import Settings
from ku_rag.store import unit_records
from ku_rag.store.database import Database, explained, snapshot
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import Kind

# A question is answered sooner without the imports that only writing needs.
if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Pipeline

_METHODS = {"encoder": "encode_texts", "segmenter": "propose", "mllm": "chat"}
"""A method that tells an object of each protocol from anything else."""

_COMPARED = 160
"""Stored pictures are compared at about this many pixels a side."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoder with its rows in the store and the indexes of its vectors."""

    encoder: Encoder
    rows: dict[Kind, int]
    images: VectorIndex
    chunks: VectorIndex

    @property
    def indexes(self) -> tuple[VectorIndex, VectorIndex]:
        """The index of pictures and the index of chunks."""
        return self.images, self.chunks


class Session:
    """An open knowledge base, for the classes that users call.

    Several threads may use one session: each has a connection of its own, the writer lock
    serialises writes, and an `Encoding` is replaced as a whole.

    Args:
        layout: paths of the files.
        database: the store.
        settings: of the base.
        models: the encoder, the segmenter and the multimodal model.
    """

    def __init__(
        self, layout: Layout, database: Database, settings: Settings, models: Models
    ) -> None:
        self.layout = layout
        self.settings = settings
        self.models = models
        self._store: Database | None = database
        self._pipeline: Pipeline | None = None
        self.use_encoder(models.encoder)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool,
        read_only: bool,
        as_made: bool,
        encoder: str | Encoder | None,
        segmenter: str | Segmenter | None,
        mllm: str | MLLM | None,
        options: dict[str, object],
    ) -> Session:
        """Open a knowledge base; see `KnowledgeBase.open`."""
        layout = Layout(arguments.path(path, "the knowledge base").absolute())
        chosen = {"encoder": encoder, "segmenter": segmenter, "mllm": mllm}
        for name, method in _METHODS.items():
            arguments.implementation(chosen[name], name, method)
        named = options | {k: value for k, value in chosen.items() if isinstance(value, str)}
        settings = Settings.load(layout.settings, **named)
        settings = replace(settings, segmenter=absolute(settings.segmenter))
        spec = None
        if encoder is None or isinstance(encoder, str):
            encoder, spec = encoder_of(layout, settings, as_made=as_made)
            settings = replace(settings, encoder=spec)
        models = Models(
            settings,
            encoder,
            segmenter=None if isinstance(segmenter, str) else segmenter,
            mllm=None if isinstance(mllm, str) else mllm,
        )
        database = manifest.open_database(
            layout,
            settings,
            create=create,
            read_only=read_only,
            stated=[name for name, value in named.items() if value is not None],
            spec=spec,
            encoder=encoder,
            segmenter=lambda: models.segmenter,
        )
        try:
            return cls(layout, database, settings, models)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Close the store."""
        store, self._store = self._store, None
        if store:
            store.close()

    @property
    def database(self) -> Database:
        """The store.

        Raises:
            Closed: the base was closed.
        """
        if (store := self._store) is None:
            raise Closed(f"the knowledge base {self.layout.root} is closed: open it again")
        return store

    # ---- reading and writing -------------------------------------------------------------------

    @contextmanager
    def use(self) -> Iterator[Database]:
        """The store, for a call that chooses its own transactions; errors become sentences.

        Raises:
            Closed: the base was closed.
            ReadOnly, Locked, Corrupt: what SQLite reported.
        """
        database = self.database
        with explained(database.path):
            yield database

    @contextmanager
    def read(self) -> Iterator[Database]:
        """The store in one state, whatever other threads and processes commit meanwhile."""
        with self.use() as database, snapshot(database.connection):
            yield database

    @contextmanager
    def write(self) -> Iterator[Pipeline]:
        """What stores records, while this thread alone may write.

        Index files are brought up to date at the end where enough has changed.

        Raises:
            Closed: the base was closed.
            ReadOnly: it cannot be written to.
            Locked: another process is writing.
            Mismatch: another process has changed its encoder.
        """
        from ku_rag.ingest.pipeline import Pipeline

        with self.use() as database, self.hold_lock():
            manifest.check(database, self.encoding.encoder)
            if self._pipeline is None:
                self._pipeline = Pipeline(
                    database,
                    self.layout,
                    self.encoding.encoder,
                    self.encoding.rows,
                    self.settings,
                )
            yield self._pipeline
            for index in self.encoding.indexes:
                index.keep()

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock that one writer of all processes has.

        Raises:
            ReadOnly: the base cannot be written to.
            Locked: another process is writing.
        """
        self.check_writable()
        with manifest.holding(self.database.lock, self.layout):
            yield

    def check_writable(self) -> None:
        """Refuse a base that was opened for reading.

        Raises:
            ReadOnly: it was.
        """
        if self.database.read_only:
            with self.database.change():  # raises the error that explains why
                pass

    # ---- encoder and models --------------------------------------------------------------------

    def use_encoder(self, encoder: Encoder) -> None:
        """Search and write with the vectors of an encoder from now on."""
        database = self.database
        rows = manifest.encoder_rows(database, encoder)

        def index(kind: Kind) -> VectorIndex:
            dim = side(encoder, kind).dim
            folder = self.layout.indexes
            return VectorIndex(database, folder, kind, rows[kind], dim, spare=self._spare_lock)

        self.models.change_encoder(encoder)
        self.encoding = Encoding(encoder, rows, index("image"), index("chunk"))
        self._pipeline = None

    @contextmanager
    def _spare_lock(self) -> Iterator[bool]:
        """The writer lock, if nobody holds it and this base may be written to."""
        if self.database.read_only:
            yield False
            return
        with self.database.lock.at_once() as held:
            yield held

    def retrieval(self) -> Retrieval:
        """What a question is asked of.

        Raises:
            Mismatch: another process has changed the encoder.
        """
        database, encoding = self.database, self.encoding
        manifest.check(database, encoding.encoder)
        image_search = ImageSearch(
            encoder=encoding.encoder,
            segmenter=lambda: self.models.segmenter,
            images=encoding.images,
            picture=lambda row: unit_records.picture(
                database.connection, self.layout, row, _COMPARED
            ),
            threshold=self.settings.region_threshold,
            background="mask" if self.settings.region_background == "mask" else "keep",
        )
        return Retrieval(database, self.layout, image_search, encoding.chunks)

    def segmenter_fingerprint(self) -> str:
        """The segmenter's fingerprint, from the manifest where that spares loading a network."""
        spec, recorded = self.settings.segmenter, self.database.meta("segmenter")
        if ":" in spec and recorded["spec"] == spec:
            return str(recorded["fingerprint"])
        return self.models.segmenter.fingerprint
