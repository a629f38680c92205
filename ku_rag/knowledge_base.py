"""The one object that a user holds."""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from PIL.Image import Image

from ku_rag import arguments, manifest, pictures
from ku_rag.answering import asking
from ku_rag.encoders.base import Encoder, Vectors
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, Closed
from ku_rag.indexes.vectors import VectorIndex
from ku_rag.mllm.base import MLLM
from ku_rag.models import Models, encoder_of, load_named
from ku_rag.plugins import absolute
from ku_rag.regions.base import Segmenter
from ku_rag.retrieval.seeing import Eyes
from ku_rag.settings import Settings
from ku_rag.store import compaction, inspection
from ku_rag.store.database import Database, snapshot
from ku_rag.store.layout import Layout
from ku_rag.store.lock import WriterLock
from ku_rag.store.migrations import SCHEMA
from ku_rag.store.vectors import Kind
from ku_rag.types import Added, Answer, IngestReport, Unit

# What only writing needs is imported where it is used: a question is answered sooner without.
if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Given, Pipeline, Progress

_COMPARED = 160
"""Stored pictures are compared in about this many pixels."""
_MOST_FOUND = 100_000
_MOST_ROWS = 2**63 - 1


class KnowledgeBase:
    """A folder that holds knowledge units and answers questions from them.

    Make one with `KnowledgeBase.open`; it is a context manager. Any number of processes may read a
    knowledge base while one writes to it. An object may be used by one thread at a time.
    """

    def __init__(
        self,
        layout: Layout,
        database: Database,
        settings: Settings,
        models: Models,
    ) -> None:
        self.settings = settings
        self._layout = layout
        self._store: Database | None = database
        self._lock = WriterLock(layout.lock, wait_s=settings.lock_wait_s)
        self._models = models
        self._follow(models.encoder)

    @classmethod
    def open(
        cls,
        path: str | Path = "kb",
        *,
        create: bool = False,
        read_only: bool = False,
        as_made: bool = False,
        encoder: str | Encoder | None = None,
        segmenter: str | Segmenter | None = None,
        mllm: str | MLLM | None = None,
        **options: object,
    ) -> Self:
        """Open a knowledge base.

        Args:
            path: its folder.
            create: make it if it is not there.
            read_only: never write, not even to bring an older schema up to date.
            as_made: with the encoder that it was made with, whatever the settings name and whether
                or not it is here; for `reindex`, which needs no more of it.
            encoder: see `ku_rag.load_encoder`, or an object with the `Encoder` protocol; by
                default what the base was made with.
            segmenter: see `ku_rag.load_segmenter`, or an object with the `Segmenter` protocol.
            mllm: the multimodal model that answers, as its endpoint calls it, or an object with the
                `MLLM` protocol; by default what the settings name, or none.
            **options: further settings, see `ku_rag.settings.Settings`.

        Raises:
            NotFound: there is no knowledge base, or no encoder of that name.
            Mismatch: the base was made with another encoder, is of a newer schema, or the folder
                is something else.
            ReadOnly: it cannot be written to, and `read_only` was not given.
        """
        layout = Layout(arguments.path(path, "the knowledge base").absolute())
        chosen = {"encoder": encoder, "segmenter": segmenter, "mllm": mllm}
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
        """Close the knowledge base; it cannot be used afterwards."""
        if self._store:
            self._store.close()
        self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The folder."""
        return self._layout.root

    @property
    def encoder(self) -> Encoder:
        """What makes vectors."""
        return self._models.encoder

    @property
    def segmenter(self) -> Segmenter:
        """What proposes regions of a picture; made at its first use."""
        return self._models.segmenter

    # ---- putting knowledge in, and taking it out -----------------------------------------------

    def ingest(self, path: str | Path, *, progress: Progress | None = None) -> IngestReport:
        """Take in a folder, a JSONL, CSV or TSV file, or a Markdown or text file.

        What is stored already exactly so is passed over; what changed replaces what came from the
        same place before; another place that speaks of the same unit adds to it.

        Args:
            path: the folder or file.
            progress: called with the number of records seen so far.

        Raises:
            NotFound: the path does not exist.
            BadInput: no reader knows this kind of file.
            Locked: another process is writing.
        """
        from ku_rag.ingest import sources

        source = arguments.path(path, "what is taken in").resolve()
        started = time.monotonic()
        with self._write() as pipeline:
            items = sources.read(source, heading_level=self._heading_level)
            report = pipeline.run(items, progress=progress)
            self._write_caches()
        report.seconds = time.monotonic() - started
        return report

    def sync(
        self,
        path: str | Path,
        *,
        yes: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Make the base hold of a folder what the folder holds now: add, replace, delete.

        Only what came from below the folder is touched.

        Args:
            path: the folder.
            yes: go on when it is absent or empty, or when over half of it would be deleted.
            dry_run: only say what would happen.
            progress: called with the number of records seen so far.

        Raises:
            BadInput: it is a file.
            Refused: see `yes`.
            Locked: another process is writing.
        """
        from ku_rag.ingest import changes

        folder = arguments.path(path, "what is synced").resolve()
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder} is a file: sync takes a folder; use `ku ingest` for a file")
        started = time.monotonic()
        with self._write() as pipeline:
            report = changes.sync(
                pipeline,
                self._database,
                folder,
                heading_level=self._heading_level,
                yes=yes,
                dry_run=dry_run,
                progress=progress,
            )
            self._write_caches()
        report.seconds = time.monotonic() - started
        return report

    def add(self, unit: Unit, *, vectors: Mapping[str, Vectors] | None = None) -> Added:
        """Add a unit; without an id it joins the unit that it matches, if one does.

        Args:
            unit: what to add.
            vectors: ready-made vectors of length 1, "texts" float32[number of texts, dim] (each
                text is then one chunk) and/or "images" float32[number of images, dim].

        Raises:
            NotFound: a picture is not there.
            BadInput: the unit has no name, a picture is broken, or vectors do not fit.
            Locked: another process is writing.
        """
        from ku_rag.ingest import changes

        if not isinstance(unit, Unit):
            raise BadInput(f'the unit is {unit!r}: expected a Unit, such as Unit("Lamp")')
        if unit.id is not None:
            arguments.identity(unit.id, "the id")
        pictures.check_files(unit.images)
        given = None if vectors is None else self._given(unit, vectors)
        with self._write() as pipeline:
            return changes.add(
                pipeline,
                self._database,
                unit,
                encoder=self.encoder,
                images=self._images,
                chunks=self._chunks,
                settings=self.settings,
                given=given,
            )

    def update(
        self,
        unit_id: str,
        *,
        name: str | None = None,
        kind: str | None = None,
        aliases: Sequence[str] | None = None,
        images: Sequence[str | Path] | None = None,
        texts: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Added:
        """Replace what is named of a unit; None leaves a thing as it is.

        Raises:
            NotFound: there is no such unit, or a picture is not there.
            BadInput: the name is empty, or a picture is broken.
            Locked: another process is writing.
        """
        from ku_rag.ingest import changes

        shown = None if images is None else arguments.paths(images, "images")
        pictures.check_files(shown or ())
        replaced: dict[str, Any] = {
            "name": arguments.optional_text(name, "name"),
            "kind": arguments.optional_text(kind, "kind"),
            "aliases": None if aliases is None else arguments.texts(aliases, "aliases"),
            "images": shown,
            "texts": None if texts is None else arguments.texts(texts, "texts"),
            "metadata": None if metadata is None else arguments.json_object(metadata, "metadata"),
        }
        with self._write() as pipeline:
            return changes.update(
                pipeline, self._database, arguments.text(unit_id, "the id"), **replaced
            )

    def delete(self, ids: str | Iterable[str]) -> dict[str, builtins.list[Any]]:
        """Delete units by id, or single sources by uri, with everything that only they brought.

        Args:
            ids: units or sources; a text alone is one of them.

        Returns:
            The deleted "units", "chunks", "images" and "relations", as lists of ids.

        Raises:
            NotFound: one of them does not exist; then nothing is deleted.
            Locked: another process is writing.
        """
        from ku_rag.ingest import changes

        chosen = arguments.ids(ids)
        with self._write() as pipeline:
            return changes.delete(pipeline, self._database, chosen).to_dict()

    def reindex(
        self, encoder: str | Encoder, *, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Bring the base over to another encoder: encode everything anew, then switch at once.

        Until then the old encoder serves, and needs no weights for it. A call that was stopped goes
        on where it was. Objects of this class that others hold open must be opened again.

        Args:
            encoder: see `ku_rag.load_encoder`, or an object with the `Encoder` protocol.
            progress: called with the number of chunks and images encoded so far.

        Returns:
            "encoder", "chunks" and "images" encoded in this call, and "seconds".

        Raises:
            NotFound: there is no such encoder, or its weights are not here.
            BadInput: pictures cannot be read any more.
            Locked: another process is writing.
        """
        from ku_rag.ingest.reindexing import Reindexing

        started = time.monotonic()
        self._check_writable()
        spec = None
        if isinstance(encoder, str):
            encoder, spec = load_named(encoder, self.settings)
        limit = min(self.settings.max_tokens or encoder.max_tokens, encoder.max_tokens)
        work = Reindexing(
            self._database,
            self._layout,
            old=self.encoder,
            new=encoder,
            max_tokens=limit,
            writing=partial(manifest.holding, self._lock, self._layout),
        )
        record = partial(manifest.set_encoder, self._database, spec, encoder, limit)
        done = work.run(record, progress)
        self._images.remove_files()
        self._chunks.remove_files()
        self._models.change_encoder(encoder)
        self._follow(encoder)
        with self._write():
            self._write_caches()
        return {
            "encoder": encoder.fingerprint,
            "chunks": done.chunks,
            "images": done.images,
            "seconds": round(time.monotonic() - started, 3),
        }

    # ---- asking --------------------------------------------------------------------------------

    def query(
        self,
        image: str | Path | Image | None,
        question: str,
        *,
        k: int | None = None,
        passage: str | Path | None = None,
        report: str | Path | None = None,
        kcc: bool = True,
        units: bool = True,
    ) -> Answer:
        """Answer a question about a picture from what is known.

        Args:
            image: a picture file or an RGB picture; None asks without one.
            question: a sentence.
            k: most chunks of evidence.
            passage: PNG file to write the multimodal passage to; further pages get a number.
            report: HTML file to write the whole story of the answer to.
            kcc: False asks a multimodal model once, question and evidence together, instead of
                correcting its own answer (KU-RAG, section 4.5, "w/o KCC").
            units: False searches texts alone, by the question and the model's caption of the
                picture ("w/o KU").

        Raises:
            NotFound: the picture is not there.
            BadInput: the picture cannot be read, the question is empty, or a page cannot be
                written where it should go.
            ModelFailed, BudgetSpent: the multimodal model did not answer.
        """
        shown = pictures.given(image)
        return asking.ask(
            self._retrieval(),
            image=shown,
            question=arguments.text(question, "the question"),
            k_units=self.settings.k_units,
            k_chunks=self.settings.k_chunks if k is None else _most(k),
            passage=arguments.optional_output(passage, "the passage", spare=shown),
            report=arguments.optional_output(report, "the report"),
            mllm=self._models.mllm,
            kcc=kcc,
            with_units=units,
            prompts=self.path / self.settings.prompts if self.settings.prompts else None,
        )

    def search(
        self, *, image: str | Path | Image | None = None, text: str = "", k: int = 10
    ) -> dict[str, builtins.list[dict[str, Any]]]:
        """Find units and chunks for a picture, a text, or both.

        Args:
            image: a picture file or an RGB picture.
            text: words to look for.
            k: most units, and most chunks.

        Returns:
            "units" with id, name and score, and "chunks".

        Raises:
            BadInput: neither was given, or the picture cannot be read.
        """
        with snapshot(self._database.connection):
            return asking.find(
                self._retrieval(),
                image=pictures.given(image),
                text=arguments.text(text, "the text"),
                k=_most(k),
            )

    # ---- looking -------------------------------------------------------------------------------

    def list(
        self, *, kind: str | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Units as records with counts, by id.

        Args:
            kind: only units of this kind.
            limit: most units, from 0 on; None for all.

        Raises:
            BadInput: the limit is no such number.
        """
        arguments.optional_text(kind, "kind")
        if limit is not None:
            arguments.count(limit, "limit", least=0, most=_MOST_ROWS)
        units = inspection.units(self._database.connection, kind=kind, limit=limit)
        return self._while_open(units)

    def show(self, unit_id: str) -> dict[str, Any]:
        """One unit as a record, with its pictures, texts, relations and sources.

        Raises:
            NotFound: there is no such unit.
        """
        return inspection.unit(
            self._database.connection, self._layout, arguments.text(unit_id, "the id")
        )

    def stats(self) -> dict[str, Any]:
        """How much there is, made with what."""
        return {
            "counts": inspection.counts(self._database.connection),
            "bytes": self._layout.bytes(),
            "encoder": self.encoder.fingerprint,
            "segmenter": self._segmenter_fingerprint(),
            "indexes": [self._images.describe(), self._chunks.describe()],
            "schema": SCHEMA,
        }

    def verify(self) -> dict[str, Any]:
        """Check every row, picture, list and cache: "ok", "problems" and "counts"."""
        from ku_rag.ingest import verification

        return verification.verify(
            self._database, self._layout, self._encoder_rows, (self._images, self._chunks)
        )

    def compact(self) -> dict[str, int]:
        """Give back the space of what was deleted, and wipe it: "bytes_before", "bytes_after".

        Raises:
            Locked: another process is writing.
        """
        with self._write():
            before = self._layout.bytes()
            for index in (self._images, self._chunks):
                index.write_base()
            compaction.compact(self._database, self._layout)
            return {"bytes_before": before, "bytes_after": self._layout.bytes()}

    def _segmenter_fingerprint(self) -> str:
        """As it was written down, if it is still the same one: a network need not be loaded."""
        made = self._database.meta("segmenter")
        runs_model = ":" in self.settings.segmenter
        if runs_model and made["spec"] == self.settings.segmenter:
            return str(made["fingerprint"])
        return self.segmenter.fingerprint

    # ---- inside --------------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        if self._store is None:
            raise Closed(f"the knowledge base {self._layout.root} is closed: open it again")
        return self._store

    def _while_open(self, units: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        while self._database and (unit := next(units, None)) is not None:
            yield unit

    def _follow(self, encoder: Encoder) -> None:
        """Work with the vectors of this encoder."""
        self._encoder_rows = manifest.encoder_rows(self._database, encoder)
        self._images = self._index("image")
        self._chunks = self._index("chunk")
        self._writing: Pipeline | None = None

    @property
    def _heading_level(self) -> int | None:
        return self.settings.heading_level or None

    def _index(self, kind: Kind) -> VectorIndex:
        dim = side(self.encoder, kind).dim
        row = self._encoder_rows[kind]
        return VectorIndex(self._database, self._layout.indexes, kind, row, dim)

    @contextmanager
    def _write(self) -> Iterator[Pipeline]:
        from ku_rag.ingest.pipeline import Pipeline

        if self._writing is None:
            self._writing = Pipeline(
                self._database, self._layout, self.encoder, self._encoder_rows, self.settings
            )
        self._check_writable()
        with manifest.holding(self._lock, self._layout):
            manifest.check(self._database, self.encoder)
            yield self._writing

    def _check_writable(self) -> None:
        if self._database.read_only:
            with self._database.change():  # says why not
                pass

    def _write_caches(self) -> None:
        for index in (self._images, self._chunks):
            if index.worth_writing():
                index.write_base()

    def _given(self, unit: Unit, vectors: Mapping[str, Vectors]) -> Given:
        from ku_rag.ingest.pipeline import Given

        wanted = {
            "texts": (len(unit.texts), side(self.encoder, "chunk").dim),
            "images": (len(unit.images), side(self.encoder, "image").dim),
        }
        found = arguments.ready_vectors(vectors, expected=wanted)
        if found["images"] is not None:
            pictures.check_all_differ(unit.images)
        return Given(found["texts"], found["images"])

    def _retrieval(self) -> asking.Retrieval:
        manifest.check(self._database, self.encoder)
        eyes = Eyes(
            encoder=self.encoder,
            segmenter=self.segmenter,
            images=self._images,
            picture=self._picture,
            threshold=self.settings.region_threshold,
            background="mask" if self.settings.region_background == "mask" else "keep",
        )
        return asking.Retrieval(self._database, self._layout, eyes, self._chunks)

    def _picture(self, row: int) -> Image:
        """The stored picture of a row, decoded no larger than comparing needs."""
        (file,) = self._database.connection.execute(
            "SELECT file FROM images WHERE row = ?", (row,)
        ).fetchone()
        return pictures.load_picture(self._layout.image(file), _COMPARED)


def _most(k: object) -> int:
    return arguments.count(k, "k", least=1, most=_MOST_FOUND)
