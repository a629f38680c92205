"""What every part of a knowledge base works with: its store, its models, its writer lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from ku_rag import arguments, manifest
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import Closed
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.mllm.base import MLLM
from ku_rag.models import Models, encoder_of
from ku_rag.plugins import absolute
from ku_rag.regions.base import Segmenter
from ku_rag.settings import Settings
from ku_rag.store.database import Database, explained
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import Kind

# What only writing needs is imported where it is used: a question is answered sooner without.
if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Pipeline


class Held:
    """An open knowledge base, before anything is asked of it."""

    def __init_subclass__(cls) -> None:
        """Let every public method of every part say in one sentence what SQLite met."""
        for name, method in list(vars(cls).items()):
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, _explained(method))

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
        self._lock = database.lock
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
        return cls._open(layout, create, read_only, as_made, encoder, segmenter, mllm, options)

    @classmethod
    def _open(
        cls,
        layout: Layout,
        create: bool,
        read_only: bool,
        as_made: bool,
        encoder: str | Encoder | None,
        segmenter: str | Segmenter | None,
        mllm: str | MLLM | None,
        options: dict[str, object],
    ) -> Self:
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

    # ---- inside --------------------------------------------------------------------------------

    @property
    def _database(self) -> Database:
        if self._store is None:
            raise Closed(f"the knowledge base {self._layout.root} is closed: open it again")
        return self._store

    def _follow(self, encoder: Encoder) -> None:
        """Work with the vectors of this encoder."""
        self._encoder_rows = manifest.encoder_rows(self._database, encoder)
        self._images = self._index("image")
        self._chunks = self._index("chunk")
        self._writing: Pipeline | None = None

    def _index(self, kind: Kind) -> VectorIndex:
        dim = side(self.encoder, kind).dim
        row = self._encoder_rows[kind]
        return VectorIndex(
            self._database, self._layout.indexes, kind, row, dim, spare=self._spare_lock
        )

    @contextmanager
    def _spare_lock(self) -> Iterator[bool]:
        """The writer lock, if nobody holds it and this base may be written to."""
        if self._database.read_only:
            yield False
            return
        with self._lock.at_once() as held:
            yield held

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
            index.keep()


def _explained(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def wrapped(self: Held, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as `method` has it
        with explained(self._database.path):
            return method(self, *args, **options)

    return wrapped
