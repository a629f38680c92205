"""Reindexing: everything is encoded with another encoder beside the old vectors, then switched.

Meanwhile the old vectors are used, other processes may read and write, and an interrupted run
continues where it stopped. Texts are cut again, since the new encoder may have another token limit.
The switch is one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from PIL.Image import Image

from ku_rag import manifest
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput
from ku_rag.indexes.inverted import InvertedIndex
from ku_rag.ingest.chunking import chunk
from ku_rag.ingest.image_decoding import LONGEST, decode_ahead
from ku_rag.pictures import load_picture
from ku_rag.store import content_rows, pending_vectors, vectors
from ku_rag.store.connection import Connection
from ku_rag.store.database import Database, snapshot
from ku_rag.store.layout import Layout
from ku_rag.store.pending_vectors import Shadow
from ku_rag.store.vectors import KINDS, Kind

_SOURCES = 64

Document = tuple[int, str]
Progress = Callable[[int], None]
"""Called with the number of chunks and images encoded so far."""


@dataclass(frozen=True, slots=True)
class Reindexed:
    """The new encoder of a base, and what one run encoded in how many seconds."""

    encoder: str
    chunks: int
    images: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku reindex --json` prints."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True, slots=True)
class Reindexing:
    """The change of a base to another encoder.

    Args:
        database: The store.
        layout: Places of the picture files.
        old: The encoder of the present vectors; it is not called.
        new: The encoder of the new vectors.
        spec: Name of the new encoder; None for an object.
        max_tokens: Longest chunk in tokens of the new encoder.
        writing: Returns the writer lock as a context manager.
    """

    database: Database
    layout: Layout
    old: Encoder
    new: Encoder
    spec: str | None
    max_tokens: int
    writing: Callable[[], AbstractContextManager[object]]

    def run(self, progress: Progress | None = None) -> Reindexed:
        """Encode what has no new vectors, then switch.

        Args:
            progress: Called with the number of chunks and images encoded so far.

        Raises:
            BadInput: Pictures cannot be read any more; nothing was switched.
            Locked: Another process is writing.
        """
        started = time.monotonic()
        rows = self._rows()
        chunks = images = 0
        while True:
            for more_chunks, more_images in self._encode(rows):
                chunks, images = chunks + more_chunks, images + more_images
                if progress:
                    progress(chunks + images)
            with self.writing(), self.database.change() as connection:
                # Others may have written since: their content is encoded first.
                if not self._is_missing(connection, rows):
                    self._switch(connection, rows)
                    manifest.set_encoder(self.database, self.spec, self.new, self.max_tokens)
                    break
        seconds = time.monotonic() - started
        return Reindexed(self.new.fingerprint, chunks, images, seconds)

    @property
    def _changing(self) -> list[Kind]:
        """The kinds whose vectors are made by another encoder than before."""
        return [
            kind
            for kind in KINDS
            if side(self.old, kind).fingerprint != side(self.new, kind).fingerprint
        ]

    def _rows(self) -> dict[Kind, int]:
        """Return the encoder rows of the new vectors; delete vectors of any third encoder."""
        with self.writing(), self.database.change() as connection:
            rows = {
                kind: vectors.encoder_row(
                    connection, side(self.new, kind).fingerprint, side(self.new, kind).dim
                )
                for kind in KINDS
            }
            old = [
                vectors.encoder_row(
                    connection, side(self.old, kind).fingerprint, side(self.old, kind).dim
                )
                for kind in KINDS
            ]
            pending_vectors.forget(connection, but=[*rows.values(), *old])
        return rows

    def _is_missing(self, connection: Connection, rows: dict[Kind, int]) -> bool:
        changing = self._changing
        return bool(
            ("chunk" in changing and pending_vectors.missing(connection, rows["chunk"], 1))
            or ("image" in changing and pending_vectors.images_missing(connection, rows["image"]))
        )

    # ---- encoding ------------------------------------------------------------------------------

    def _encode(self, rows: dict[Kind, int]) -> Iterator[tuple[int, int]]:
        """Encode in portions; yield the number of chunks and of images of each."""
        connection = self.database.connection
        if "chunk" in self._changing:
            while some := pending_vectors.missing(connection, rows["chunk"], _SOURCES):
                yield self._encode_texts(rows["chunk"], some), 0
        if "image" in self._changing:
            yield from ((0, count) for count in self._encode_images(rows["image"]))

    def _encode_texts(self, row: int, sources: Sequence[tuple[int, str]]) -> int:
        connection = self.database.connection
        with snapshot(connection):
            cuts = [self._cut(_documents(connection, source)) for source, _ in sources]
        texts = list(dict.fromkeys(text for cut in cuts for _, text in cut))
        found = self.new.encode_texts(texts)
        place = {text: n for n, text in enumerate(texts)}
        with self.writing(), self.database.change():
            for (source, state), cut in zip(sources, cuts, strict=True):
                own = found[[place[text] for _, text in cut]]
                lengths = tuple((document, len(text)) for document, text in cut)
                pending_vectors.put(connection, row, source, state, Shadow(lengths, own))
        return sum(map(len, cuts))

    def _cut(self, documents: Sequence[Document]) -> list[Document]:
        return [
            (number, part)
            for number, text in documents
            for part in chunk(text, count_tokens=self.new.count_tokens, max_tokens=self.max_tokens)
        ]

    def _encode_images(self, row: int) -> Iterator[int]:
        connection = self.database.connection
        images = dict(pending_vectors.images_missing(connection, row))
        for sound, unsound in decode_ahead(list(images), lambda n: self._picture(images[n])):
            if unsound:
                raise BadInput(
                    f"pictures cannot be read any more, the first: {unsound[0][1]}. Nothing was "
                    "switched: put them back, or delete their units, and do it again"
                )
            found = self.new.encode_images([picture for _, picture in sound])
            with self.writing(), self.database.change():
                there = [n for n, (image, _) in enumerate(sound) if self._is_there(image)]
                vectors.put(connection, "image", row, [sound[n][0] for n in there], [found[there]])
            yield len(sound)

    def _picture(self, file: str) -> Image:
        return load_picture(self.layout.image(file), LONGEST)

    def _is_there(self, image: int) -> bool:
        return bool(
            self.database.connection.execute(
                "SELECT 1 FROM images WHERE row = ?", (image,)
            ).fetchone()
        )

    # ---- switching -----------------------------------------------------------------------------

    def _switch(self, connection: Connection, rows: dict[Kind, int]) -> None:
        if "chunk" in self._changing:
            inverted = InvertedIndex(self.database)
            dim = side(self.new, "chunk").dim
            for source, unit in connection.execute(
                "SELECT row, unit FROM sources WHERE chunks > 0 ORDER BY row"
            ).fetchall():
                shadow = pending_vectors.get(connection, rows["chunk"], source, dim)
                chunks = _apply(_documents(connection, source), shadow)
                stored = connection.execute(
                    "SELECT row, document, text FROM chunks WHERE source = ? ORDER BY position",
                    (source,),
                ).fetchall()
                numbers = [row for row, *_ in stored]
                if [(document, text) for _, document, text in stored] != chunks:
                    content_rows.drop_source_chunks(connection, source)
                    numbers = content_rows.add_chunks(
                        connection, source=source, unit=unit, chunks=chunks
                    )
                    inverted.add_chunks(
                        dict(zip(numbers, (text for _, text in chunks), strict=True))
                    )
                vectors.put(connection, "chunk", rows["chunk"], numbers, [shadow.vectors])
        connection.execute("DELETE FROM shadows")
        pending_vectors.forget(connection, but=list(rows.values()))


def _documents(connection: Connection, source: int) -> list[Document]:
    """Return the texts of a source, joined from its chunks."""
    rows = connection.execute(
        "SELECT document, text FROM chunks WHERE source = ? ORDER BY position", (source,)
    )
    return [
        (number, "".join(text for _, text in parts))
        for number, parts in groupby(rows, key=lambda part: part[0])
    ]


def _apply(documents: Sequence[Document], shadow: Shadow) -> list[Document]:
    texts, begun = dict(documents), dict.fromkeys((n for n, _ in documents), 0)
    chunks = []
    for number, length in shadow.cut:
        start = begun[number]
        chunks.append((number, texts[number][start : start + length]))
        begun[number] = start + length
    return chunks
