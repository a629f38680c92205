"""Reindexing: everything is encoded with another encoder beside the old vectors, then switched.

Meanwhile the old vectors are used, other processes may read and write, and an interrupted run
continues where it stopped. Texts are cut again, since the new encoder may have another token limit.
The switch is one transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import numpy as np

from ku_rag import manifest
from ku_rag.encoders.base import Encoder, Vectors, is_same
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, NotFound
from ku_rag.indexes import inverted
from ku_rag.ingest.chunking import chunk
from ku_rag.ingest.image_decoding import LONGEST, decode_ahead
from ku_rag.ingest.transcription import TRANSCRIBED
from ku_rag.pictures import load_picture
from ku_rag.recognisers import CachedRecogniser
from ku_rag.store import content_rows, facts, vectors
from ku_rag.store.connection import SLICE, Connection, as_json, snapshot
from ku_rag.store.database import Database
from ku_rag.store.layout import Layout
from ku_rag.store.unit_records import documents
from ku_rag.store.vectors import KINDS, Kind, places
from ku_rag.types import Progress, Serializable

_SOURCES = 64
_STATE = "s.hash || ':' || s.chunks"
_HALF = np.dtype("<f2")

Document = tuple[int, str]
Cut = Sequence[tuple[int, int]]
"""How the texts of a source are cut: (number of the document, characters) of each chunk."""


@dataclass(frozen=True, slots=True)
class Reindexed(Serializable):
    """The encoder, what one run encoded and in how many pictures it read words, and seconds."""

    encoder: str
    chunks: int
    images: int
    seconds: float
    pictures_read: int


def are_same(encoder: Encoder, other: Encoder) -> bool:
    """Whether two encoders, or pairs of them, make the same vectors; a server may round its own."""
    is_pair, is_other_pair = (side(each, "chunk") is not each for each in (encoder, other))
    return is_pair == is_other_pair and all(
        is_same(side(encoder, kind).fingerprint, side(other, kind).fingerprint) for kind in KINDS
    )


@dataclass(frozen=True, slots=True)
class Reindexing:
    """The change of a base to another encoder.

    Args:
        layout: Places of the picture files.
        old: The encoder of the present vectors; it is not called.
        new: The encoder of the new vectors.
        spec: Name of the new encoder; None for an object.
        max_tokens: Longest chunk in tokens of the new encoder.
        writing: Returns the writer lock as a context manager.
        recogniser: Reads the words in pictures; None for no recogniser.
    """

    database: Database
    layout: Layout
    old: Encoder
    new: Encoder
    spec: str | None
    max_tokens: int
    writing: Callable[[], AbstractContextManager[object]]
    recogniser: CachedRecogniser | None

    def run(self, progress: Progress | None = None) -> Reindexed:
        """Encode what has no new vectors, then switch; `progress` gets the number of items so far.

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
                texts = self._changes("chunk") and _missing_texts(connection, rows["chunk"], 1)
                pictures = self._changes("image") and _missing_images(connection, rows["image"])
                if not texts and not pictures:
                    self._switch(connection, rows)
                    manifest.set_encoder(self.database, self.spec, self.new, self.max_tokens)
                    break
        read = self._read_words(self.recogniser) if self.recogniser else 0
        seconds = round(time.monotonic() - started, 3)
        return Reindexed(self.new.fingerprint, chunks, images, seconds, read)

    def _read_words(self, recogniser: CachedRecogniser) -> int:
        """Read the words in pictures that the recogniser has not read; return how many."""
        pictures = self.database.connection.execute(
            "SELECT hash, file FROM images WHERE row NOT IN "
            "(SELECT image FROM image_words WHERE recogniser = ? OR recogniser GLOB ? || '*')",
            (recogniser.fingerprint, TRANSCRIBED),
        ).fetchall()
        count = 0
        for digest, file in pictures:
            with suppress(BadInput, NotFound):  # missing or damaged, which `ku verify` reports
                if printed := recogniser.read_file(self.layout.image(file)):
                    with self.writing(), self.database.change() as connection:
                        content_rows.put_words(connection, digest, *printed)
                        count += 1
        return count

    def _changes(self, kind: Kind) -> bool:
        """Whether vectors of a kind are made by another encoder than before."""
        return side(self.old, kind).fingerprint != side(self.new, kind).fingerprint

    def _rows(self) -> dict[Kind, int]:
        """Return the encoder rows of the new vectors; delete vectors of any third encoder."""
        with self.writing(), self.database.change() as connection:
            rows, old = (
                {
                    kind: vectors.encoder_row(connection, part.fingerprint, part.dim)
                    for kind, part in ((kind, side(encoder, kind)) for kind in KINDS)
                }
                for encoder in (self.new, self.old)
            )
            _forget_others(connection, but=[*rows.values(), *old.values()])
        return rows

    # ---- encoding ------------------------------------------------------------------------------

    def _encode(self, rows: dict[Kind, int]) -> Iterator[tuple[int, int]]:
        """Encode in portions; yield the number of chunks and of images of each."""
        connection = self.database.connection
        if self._changes("chunk"):
            last = 0  # what changes meanwhile before this row is found by the next call
            while some := _missing_texts(connection, rows["chunk"], _SOURCES, after=last):
                last = some[-1][0]
                yield self._encode_texts(rows["chunk"], some), 0
        if self._changes("image"):
            yield from ((0, count) for count in self._encode_images(rows["image"]))

    def _encode_texts(self, row: int, sources: Sequence[tuple[int, str]]) -> int:
        connection = self.database.connection
        with snapshot(connection):
            cuts = [self._cut(documents(connection, source)) for source, _ in sources]
        texts = list(dict.fromkeys(text for cut in cuts for _, text in cut))
        array = self.new.encode_texts(texts)
        place = {text: n for n, text in enumerate(texts)}
        with self.writing(), self.database.change():
            for (source, state), cut in zip(sources, cuts, strict=True):
                lengths = [(document, len(text)) for document, text in cut]
                blob = array[[place[text] for _, text in cut]].astype(_HALF).tobytes()
                connection.execute(  # unless the source has changed
                    "REPLACE INTO shadows SELECT ?, s.row, ?, ?, ? FROM sources s "
                    f"WHERE s.row = ? AND {_STATE} = ?",
                    (row, state, json.dumps(lengths), blob, source, state),
                )
        return sum(map(len, cuts))

    def _cut(self, texts: Mapping[int, str]) -> list[Document]:
        return [
            (number, part)
            for number, text in texts.items()
            for part in chunk(text, count_tokens=self.new.count_tokens, max_tokens=self.max_tokens)
        ]

    def _encode_images(self, row: int) -> Iterator[int]:
        connection = self.database.connection
        images = dict(_missing_images(connection, row))
        for sound, unsound in decode_ahead(
            list(images), lambda n: load_picture(self.layout.image(images[n]), LONGEST)
        ):
            if unsound:
                raise BadInput(
                    f"pictures cannot be read any more, the first: {unsound[0][1]}. Nothing was "
                    "switched: put them back, or delete their units, and do it again"
                )
            array = self.new.encode_images([picture for _, picture in sound])
            with self.writing(), self.database.change():
                stored = connection.column(
                    "SELECT i.row FROM json_each(?) w JOIN images i ON i.row = w.value",
                    (as_json(image for image, _ in sound),),
                )
                left = [n for n, (image, _) in enumerate(sound) if image in stored]
                vectors.put(connection, "image", row, [sound[n][0] for n in left], [array[left]])
            yield len(sound)

    # ---- switching -----------------------------------------------------------------------------

    def _switch(self, connection: Connection, rows: dict[Kind, int]) -> None:
        if self._changes("chunk"):
            dim = side(self.new, "chunk").dim
            items, arrays = list[int](), list[Vectors]()
            for source, unit in connection.execute(
                "SELECT row, unit FROM sources WHERE chunks > 0 ORDER BY row"
            ).fetchall():
                cut, blob = connection.execute(
                    "SELECT cut, vectors FROM shadows WHERE encoder = ? AND source = ?",
                    (rows["chunk"], source),
                ).fetchone()
                chunks = _apply(documents(connection, source), json.loads(cut))
                stored = connection.execute(
                    "SELECT row, document, text FROM chunks WHERE source = ? ORDER BY position",
                    (source,),
                ).fetchall()
                numbers = [row for row, *_ in stored]
                if [(document, text) for _, document, text in stored] != chunks:
                    content_rows.drop_source_chunks(connection, [source])
                    new = content_rows.add_texts(connection, [(source, unit, chunks)])
                    connection.execute(
                        "UPDATE sources SET chunks = ? WHERE row = ?", (len(chunks), source)
                    )
                    inverted.add_chunks(connection, new)
                    facts.add_chunks(connection, new)
                    numbers = list(new)
                items += numbers
                arrays.append(np.frombuffer(blob, _HALF).reshape(-1, dim).astype(np.float32))
                if len(items) >= SLICE:
                    vectors.put(connection, "chunk", rows["chunk"], items, arrays)
                    items, arrays = [], []
            vectors.put(connection, "chunk", rows["chunk"], items, arrays)
        connection.execute("DELETE FROM shadows")
        _forget_others(connection, but=list(rows.values()))


def _apply(texts: Mapping[int, str], cut: Cut) -> list[Document]:
    begun = dict.fromkeys(texts, 0)
    chunks = []
    for number, length in cut:
        start = begun[number]
        chunks.append((number, texts[number][start : start + length]))
        begun[number] = start + length
    return chunks


# ---- vectors until the switch --------------------------------------------------------------------


def _missing_texts(
    connection: Connection, encoder: int, most: int, *, after: int = 0
) -> list[tuple[int, str]]:
    """Return row and state of sources after a row whose new vectors are missing or outdated."""
    rows: list[tuple[int, str]] = connection.execute(
        f"SELECT s.row, {_STATE} FROM sources s "
        "LEFT JOIN shadows h ON h.encoder = ? AND h.source = s.row "
        f"WHERE s.row > ? AND s.chunks > 0 AND (h.state IS NULL OR h.state != {_STATE}) "
        "ORDER BY s.row LIMIT ?",
        (encoder, after, most),
    ).fetchall()
    return rows


def _missing_images(connection: Connection, encoder: int) -> list[tuple[int, str]]:
    """Return row and file of images without a vector of this encoder."""
    images: list[tuple[int, str]] = connection.execute(
        "SELECT row, file FROM images WHERE row NOT IN "
        "(SELECT item FROM vectors WHERE row BETWEEN ? AND ?) ORDER BY row",
        places("image", encoder),
    ).fetchall()
    return images


def _forget_others(connection: Connection, *, but: Sequence[int]) -> None:
    """Delete the shadows, vectors and changes of all encoders but these; called inside a change."""
    kept = ", ".join(map(str, but))
    for table in ("shadows", "vectors", "changes"):
        connection.execute(f"DELETE FROM {table} WHERE encoder NOT IN ({kept})")
    connection.execute(f"DELETE FROM encoders WHERE row NOT IN ({kept})")
