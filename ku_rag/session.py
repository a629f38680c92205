"""An open knowledge base: its store, models and vector indexes, and how calls read and write."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from typing import TYPE_CHECKING

from ku_rag import arguments, manifest
from ku_rag.encoders.base import Encoder, is_same
from ku_rag.encoders.embedded.registration import Floats, template
from ku_rag.encoders.pair import finds_regions, side, text_weight
from ku_rag.errors import KuError, Mismatch, NotFound, Outdated
from ku_rag.indexes.chunk_selection import Selection
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.mllm import load_mllm
from ku_rag.mllm.base import MLLM
from ku_rag.pictures import load_picture
from ku_rag.plugins import absolute, load
from ku_rag.recognisers import DEFAULT, CachedRecogniser
from ku_rag.regions import load_segmenter
from ku_rag.regions.base import Segmenter
from ku_rag.rerankers import load_reranker
from ku_rag.rerankers.base import Reranker
from ku_rag.retrieval.base import Retrieval
from ku_rag.retrieval.image_matching import Calibration, ImageSearch, calibrate
from ku_rag.retrieval.search import ChunkSearch
from ku_rag.settings import Settings
from ku_rag.store import unit_records
from ku_rag.store.connection import explained, snapshot
from ku_rag.store.database import Database
from ku_rag.store.filters import ALL_UNITS, UnitFilter
from ku_rag.store.layout import Layout
from ku_rag.store.stored_answers import StoredAnswers
from ku_rag.store.vectors import KINDS, Kind

# A question is answered sooner without the imports that only writing needs.
if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Pipeline

_log = logging.getLogger("ku_rag")
_METHODS = {"encoder": "encode_texts", "segmenter": "propose", "reranker": "score", "mllm": "chat"}
"""A method that tells an object of each protocol from anything else."""

_INDEXES = {
    "local": "ku_rag.indexes.vector_index:VectorIndex",
    "milvus": "ku_rag.scale.milvus_index:MilvusIndex",
}
"""Vector indexes by the setting `index_engine`; `ku_rag.scale` stands above and is not imported."""

_COMPARED = 160
"""Stored pictures are compared at about this many pixels a side."""


@lru_cache(maxsize=4096)
def _template(file: Path, digest: str) -> Floats:
    """Return the `registration.template` of a stored picture; its content never changes."""
    return template(load_picture(file, _COMPARED, digest=digest))


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
    """An open knowledge base, for the classes that users call; see `KnowledgeBase.open`.

    Several threads may use one session: each has a connection of its own, the writer lock
    serialises writes, and an `Encoding` is replaced as a whole.

    Attributes:
        layout: paths of the files.
        settings: of the base.
        stated: those that the caller stated.
        database: the store.
        encoding: the present encoder and its indexes.
    """

    encoding: Encoding
    _pipeline: Pipeline | None = None
    _recogniser: CachedRecogniser | None = None

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool,
        read_only: bool,
        as_made: bool,
        encoder: str | Encoder | None,
        segmenter: str | Segmenter | None,
        reranker: str | Reranker | None,
        mllm: str | MLLM | None,
        options: dict[str, object],
    ) -> None:
        self.layout = Layout(arguments.path(path, "the knowledge base").absolute())
        chosen = {"encoder": encoder, "segmenter": segmenter, "reranker": reranker, "mllm": mllm}
        for name, method in _METHODS.items():
            arguments.implementation(chosen[name], name, method)
        self.stated = options | {k: v for k, v in chosen.items() if isinstance(v, str)}
        settings = Settings.load(self.layout.settings, **self.stated)
        segmenting, ranking = absolute(settings.segmenter), absolute(settings.reranker)
        settings = replace(settings, segmenter=segmenting, reranker=ranking)
        self._segmenter = self._own_segmenter = None if isinstance(segmenter, str) else segmenter
        self._reranker = None if isinstance(reranker, str) else reranker
        self._mllms: dict[str, MLLM | None] = {} if isinstance(mllm, str) else {"mllm": mllm}
        self._loading = RLock()
        self._calibrated: tuple[VectorIndex, object, Calibration | None] | None = None
        self._official: TemporaryDirectory[str] | None = None
        spec = None
        database = self._open_database(settings.lock_wait_s, create=create, read_only=read_only)
        try:
            with explained(self.layout.database):
                stored = database.meta("encoder") if database else None
            self._follows = encoder is None and (as_made or not settings.encoder)
            if encoder is None or isinstance(encoder, str):
                encoder, spec = manifest.choose_encoder(stored, settings, as_made=as_made)
                settings = replace(settings, encoder=spec)
            if stored is None:
                settings = replace(settings, recogniser=settings.recogniser or DEFAULT)
                self.stated["recogniser"] = settings.recogniser
            self.settings, self._encoder = settings, encoder
            if database is None or (stored is None and not read_only):
                database = manifest.make(
                    self.layout,
                    settings,
                    database,
                    create=create,
                    stated=[name for name, value in self.stated.items() if value is not None],
                    spec=spec,
                    encoder=encoder,
                    segmenter=self.segmenter(),
                )
            self.database = database
            self._selection = Selection(database)
            with explained(database.path):
                manifest.check(database, encoder, spec, language=settings.language)
                self.use_encoder(encoder)
        except BaseException:
            if database:
                database.close()
            raise

    def _open_database(self, wait_s: float, *, create: bool, read_only: bool) -> Database | None:
        """Open the store, upgraded unless it is only read; None if it is missing, with `create`."""
        file = self.layout.database
        try:
            return Database(file, read_only=read_only, lock_wait_s=wait_s)
        except Outdated:
            if read_only or self.layout.copied.exists():
                raise
        except NotFound:
            if read_only or not create:
                raise
            return None
        from ku_rag.ingest.upgrading import upgrade

        upgrade(self.layout, lock_wait_s=wait_s)
        return Database(file, lock_wait_s=wait_s)

    @cached_property
    def answers(self) -> StoredAnswers:
        """The stored answers."""
        return StoredAnswers(self.database, self.layout)

    # ---- reading and writing -------------------------------------------------------------------

    @contextmanager
    def use(self) -> Iterator[Database]:
        """The store, for a call with transactions of its own; errors of SQLite say what to do."""
        with explained(self.database.path):
            yield self.database

    @contextmanager
    def read(self) -> Iterator[Database]:
        """The store in one state, whatever other threads and processes commit meanwhile."""
        with explained(self.database.path), snapshot(self.database.connection):
            yield self.database

    @contextmanager
    def write(self, read_pages: str | MLLM | None = None) -> Iterator[Pipeline]:
        """The pipeline that stores records, while this thread alone may write.

        The model of `read_pages` transcribes pages without text.

        Raises:
            Closed: the base was closed.
            ReadOnly: it cannot be written to.
            Locked: another process is writing.
            Mismatch: another process has changed its encoder.
        """
        from ku_rag.ingest.pipeline import Pipeline
        from ku_rag.ingest.transcription import Transcriber

        database = self.database
        transcriber = Transcriber(read_pages, self.settings, self.prompts) if read_pages else None
        with explained(database.path), database.writing():
            encoding = self._present_encoding()
            if self._pipeline is None:
                encoder, rows = encoding.encoder, encoding.rows
                self._pipeline = Pipeline(
                    database, self.layout, encoder, rows, self.settings, self.recogniser
                )
            self._pipeline.transcriber = transcriber
            yield self._pipeline
            if not database.connection.in_transaction:
                try:
                    self.answers.remove_invalid()
                except KuError as error:  # readers leave invalid answers out
                    _log.warning("stored answers: %s", error)

    # ---- encoder and models --------------------------------------------------------------------

    def segmenter(self) -> Segmenter:
        """Return the segmenter; it is made at the first call."""
        with self._loading:
            if self._segmenter is None:
                settings = self.settings
                default = "windows" if finds_regions(self._encoder) else "whole"
                self._segmenter = load_segmenter(
                    settings.segmenter or default,
                    device=settings.device,
                    min_side=settings.region_min_side,
                )
            return self._segmenter

    def reranker(self) -> Reranker | None:
        """Return the reranker of the evidence, if there is one; made at the first call."""
        with self._loading:
            settings = self.settings
            if self._reranker is None and settings.reranker:
                self._reranker = load_reranker(
                    settings.reranker,
                    device=settings.device,
                    batch_size=settings.batch_size,
                    prompts=self.prompts,
                )
            return self._reranker

    def mllm(self, role: str = "mllm") -> MLLM | None:
        """Return the multimodal model of a setting, if it names one; made at the first call."""
        with self._loading:
            if self._mllms.get(role) is None:
                self._mllms[role] = load_mllm(self.settings, role)
            return self._mllms[role]

    def recogniser(self) -> CachedRecogniser | None:
        """Return the recogniser of words in pictures, if there is one; made at the first call."""
        with self._loading:
            spec = absolute(self.settings.recogniser)
            if self._recogniser is None and spec not in ("", "none"):
                self._recogniser = CachedRecogniser(spec)
            return self._recogniser

    def close(self) -> None:
        """Close the store, and remove a temporary folder of prompts."""
        self.answers.close()
        self.database.close()
        if self._official:
            self._official.cleanup()
            self._official = None

    @property
    def prompts(self) -> Path | None:
        """The folder whose prompts replace those of the package, if the settings name one.

        Raises:
            NotFound, BadInput: "official:PATH" names no clone with templates that can be read.
        """
        setting = self.settings.prompts
        clone = setting.removeprefix("official:")
        if clone == setting:
            return self.layout.root / setting if setting else None
        with self._loading:
            if self._official is None:
                from ku_rag.papers.mhmmkg.official_prompts import read_official_prompts

                prompts = read_official_prompts(self.layout.root / clone)
                folder = TemporaryDirectory(prefix="ku-prompts-")
                for name, text in prompts.items():
                    Path(folder.name, f"{name}.md").write_text(text, encoding="utf-8")
                self._official = folder
            return Path(self._official.name)

    def use_encoder(self, encoder: Encoder) -> None:
        """Search and write with the vectors of an encoder from now on.

        Raises:
            Mismatch: the base has no vectors of this encoder.
        """
        database, parts = self.database, {kind: side(encoder, kind) for kind in KINDS}
        encoders = dict(database.connection.execute("SELECT fingerprint, row FROM encoders"))
        if lacking := {part.fingerprint for part in parts.values()} - encoders.keys():
            raise Mismatch(f"{database.path.parent} has no vectors of the encoder {min(lacking)}")
        rows = {kind: encoders[part.fingerprint] for kind, part in parts.items()}
        chunks, images = (self._load_index(kind, rows[kind], parts[kind].dim) for kind in KINDS)
        with self._loading:
            if encoder is not self._encoder:
                self._segmenter = self._own_segmenter  # the default depends on the encoder
            self._encoder = encoder
        self.encoding = Encoding(encoder, rows, images, chunks)
        self._pipeline = None

    def _present_encoding(self) -> Encoding:
        """Return the encoding; follow a changed encoder, unless this session named one."""
        stored = self.database.meta("encoder")
        with self._loading:
            is_present = is_same(stored["fingerprint"], self.encoding.encoder.fingerprint)
            if self._follows and stored["spec"] and not is_present:
                self.use_encoder(manifest.choose_encoder(stored, self.settings, as_made=True)[0])
        manifest.check(self.database, self.encoding.encoder)
        return self.encoding

    def _load_index(self, kind: Kind, row: int, dim: int) -> VectorIndex:
        """Load the index of the vectors of one kind and encoder, as the settings name it."""
        settings = self.settings
        address = settings.address("index_uri")
        if address.url.endswith(".db") and "://" not in address.url:  # Milvus Lite, of this machine
            file = str(self.layout.root.absolute() / address.url)
            address = replace(address, url=file, is_foreign=False)
        index: VectorIndex = load(
            "index",
            _INDEXES,
            settings.index_engine,
            database=self.database,
            folder=self.layout.indexes,
            kind=kind,
            encoder=row,
            dim=dim,
            try_lock=self._try_lock,
            address=address,
            strict=settings.index_unreachable == "fail",
        )
        return index

    @contextmanager
    def _try_lock(self) -> Iterator[bool]:
        """Try to acquire the writer lock without waiting; yield whether it was acquired."""
        if self.database.read_only:
            yield False
            return
        with self.database.lock.try_acquire() as acquired:
            yield acquired

    def update_indexes(self) -> None:
        """Write the vector indexes of a large base, so that processes that only read have them."""
        with self.use():
            self.encoding.chunks.refresh()
            self.encoding.images.refresh()

    def retrieval(self, units: UnitFilter = ALL_UNITS) -> Retrieval:
        """Return what a question is asked of: the store, the indexes and the models.

        Args:
            units: selects the units that count.

        Raises:
            Mismatch: another process has changed the encoder.
        """
        database, encoding = self.database, self._present_encoding()
        image_search = ImageSearch(
            encoder=encoding.encoder,
            segmenter=self.segmenter,
            images=encoding.images,
            template_of=lambda row: _template(
                *unit_records.picture_source(database.connection, self.layout, row)
            ),
            threshold=self.settings.region_threshold,
            background="mask" if self.settings.region_background == "mask" else "keep",
            tuned=Calibration(**tuned) if (tuned := database.meta("confidence")) else None,
            by_own_pictures=self._calibration,
            least=self.settings.confidence_threshold,
            recogniser=self.recogniser,
        )
        weight, text_encoder = database.meta("text_weight"), side(encoding.encoder, "chunk")
        if not weight or weight["encoder"] != text_encoder.fingerprint:
            weight = {"weight": text_weight(text_encoder)}
        chunk_search = ChunkSearch(
            database.connection,
            encoding.encoder,
            encoding.chunks,
            weight["weight"],
            self.settings.expand,
        )
        chosen = self._selection.resolve(units)
        pool = self.settings.reranker_pool
        return Retrieval(
            database, self.layout, image_search, chunk_search, chosen, self.reranker, pool
        )

    def _calibration(self) -> Calibration | None:
        """Return the calibration by own pictures, computed once for each state of the base."""
        images, calibrated = self.encoding.images, self._calibrated
        commits = self.database.meta("commits")
        if calibrated is None or calibrated[:2] != (images, commits):
            calibrated = (images, commits, calibrate(self.database.connection, images))
            self._calibrated = calibrated
        return calibrated[2]

    def segmenter_fingerprint(self) -> str:
        """Return the segmenter's fingerprint, from the manifest where a network would be loaded."""
        spec, recorded = self.settings.segmenter, self.database.meta("segmenter")
        if ":" in spec and recorded["spec"] == spec:
            return str(recorded["fingerprint"])
        return self.segmenter().fingerprint
