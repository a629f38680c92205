"""An export into a base: whole units a transaction, encoded only where vectors do not fit.

A source seen before replaces its own content, another one about the same unit adds to it, as at
ingest. What is stored already exactly so is passed over, so an import that was stopped goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import PurePath

import numpy as np

from ku_rag.arguments import regular_file
from ku_rag.encoders.base import Encoder
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput, KuError
from ku_rag.ingest.chunking import chunk
from ku_rag.ingest.image_decoding import decoded
from ku_rag.ingest.pipeline import Pipeline, Progress
from ku_rag.ingest.preparation import Picture
from ku_rag.ingest.unit_writer import image_row, unit_row
from ku_rag.pictures import locate_picture, probe
from ku_rag.settings import Settings
from ku_rag.store import content_rows
from ku_rag.store.database import Database
from ku_rag.store.vectors import Kind
from ku_rag.transfer.import_commit import Batch, Committing
from ku_rag.transfer.import_units import INCOMPLETE, Gathering, Part
from ku_rag.transfer.parquet_reader import Found, Halves, Listed
from ku_rag.types import IngestReport

_BATCH_UNITS = 4096
_BATCH_BYTES = 32 << 20


class Importing:
    """One import; the caller holds the writer lock.

    Args:
        found: the export.
        pipeline: changes the base, and keeps its lists.
        database: the store.
        encoder: what the base is made with.
        encoder_rows: its rows in the store.
        settings: copying or linking of pictures.
    """

    def __init__(
        self,
        found: Found,
        pipeline: Pipeline,
        database: Database,
        encoder: Encoder,
        encoder_rows: Mapping[Kind, int],
        settings: Settings,
    ) -> None:
        self._found = found
        self._storing = pipeline.storing
        self._committing = Committing(
            pipeline.storing,
            encoder_rows,
            load_again=self._load_again,
        )
        self._database = database
        self._encoder = encoder
        self._limit = int(database.meta("max_tokens"))
        self._fits = {kind: self._vectors_fit(kind, side(encoder, kind)) for kind in encoder_rows}
        self._cut_fits = (
            self._fits["chunk"] and found.manifest.get("max_tokens", self._limit) == self._limit
        )
        self._listed: dict[str, Listed] = {}
        self._broken: set[str] = set()

    def run(self, progress: Progress | None = None) -> IngestReport:
        """Take in everything that is sound; `progress` is told the number of units seen.

        Raises:
            BadInput: a table cannot be read, or has vectors of another length.
        """
        started = time.monotonic()
        report = IngestReport()
        self._listed = {one.digest: one for one in self._found.pictures()}
        for batch in self._batches(report, progress):
            self._encode(batch)
            self._storing.write_pictures(batch.pictures.values())
            self._committing.commit(batch, report)
        report.quarantined += self._found.left_out
        report.seconds = time.monotonic() - started
        return report

    def _vectors_fit(self, kind: Kind, encoder: Encoder) -> bool:
        """Whether the export's vectors of a kind were made by this encoder.

        Who writes Parquet without a manifest vouches for it.
        """
        made, _ = self._found.encoder.get("sides", {}).get(kind, (None, 0))
        return not self._found.manifest or made == encoder.fingerprint

    # ---- batches -------------------------------------------------------------------------------

    def _batches(self, report: IngestReport, progress: Progress | None) -> Iterator[Batch]:
        batch = Batch()
        for count, whole in enumerate(Gathering(self._found), 1):
            if progress:
                progress(count)
            for part in whole.parts:
                self._leave_out_missing(part, batch)
            known = whole.unit is not None and self._unit_row(whole.unit) is not None
            whole.parts = [p for p in whole.parts if not self._is_stored(p, whole.unit, batch)]
            if not whole.parts:
                report.units_unchanged += known
                continue
            batch.wholes.append(whole)
            batch.size += sum(len(text) for part in whole.parts for _, text in part.chunks)
            batch.size += sum(2 * len(v) for p in whole.parts for v in p.vectors if v is not None)
            if batch.size > _BATCH_BYTES or len(batch.wholes) >= _BATCH_UNITS:
                yield batch
                batch = Batch()
        if batch.wholes:
            yield batch

    def _is_stored(self, part: Part, unit: str | None, batch: Batch) -> bool:
        """Whether a part is stored as it is; notes those of which something is."""
        stored = self._database.connection.execute(
            "SELECT s.hash, s.declared, s.chunks, s.images, u.id FROM sources s "
            "LEFT JOIN units u ON u.row = s.unit WHERE s.uri = ?",
            (part.uri,),
        ).fetchone()
        if not stored:
            return False
        batch.known.add(part.uri)
        if stored[:2] != (part.digest, part.declared) or stored[4] != unit:
            return False
        # A part that was taken in while content of it was lost may be whole now.
        same_chunks = not self._is_cut(part) or stored[2] == len(part.chunks)
        return same_chunks and int(stored[3]) == len(part.images)

    def _leave_out_missing(self, part: Part, batch: Batch) -> None:
        """Keep of a source's pictures those that can be had; see that they are in the batch."""
        there = [digest for digest in part.images if self._is_there(digest, batch)]
        if len(there) < len(part.images):
            part.pictures = INCOMPLETE
        part.images = there

    def _is_there(self, digest: str, batch: Batch) -> bool:
        if digest in self._broken:
            return False
        if digest in batch.pictures or self._image_row(digest) is not None:
            return True
        try:
            picture = self._load(digest)
        except KuError as error:
            self._found.leave_out(f"images: {digest}", str(error))
            self._broken.add(digest)
            return False
        batch.pictures[digest] = picture
        batch.order[digest] = self._listed[digest].order
        batch.size += len(picture.data)
        return True

    def _load(self, digest: str) -> Picture:
        """A picture of the export, if it is what it should be.

        Raises:
            BadInput, NotFound: it is not.
        """
        listed = self._listed.get(digest)
        if listed is None or listed.file is None:
            raise BadInput("the picture was not exported: add it to its unit again")
        path = locate_picture(self._found.folder.resolve(), listed.file)
        try:
            data = regular_file(path, "a picture file").read_bytes()
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}") from error
        if content_rows.content_hash(data) != digest:
            raise BadInput(f"{path} is not the picture that it should be: its content has changed")
        width, height, kind = probe(data)
        suffix = PurePath(listed.file).suffix.lower() or f".{kind.lower()}"
        picture = Picture(path, data, digest, suffix, width, height)
        if self._fits["image"] and listed.vector is not None:
            self._check_length(listed.vector, "image")
            picture.vector = listed.vector.astype(np.float32)
        else:
            picture.decode()  # what cannot be shown to an encoder is left out before it is counted
        return picture

    # ---- encoding ------------------------------------------------------------------------------

    def _encode(self, batch: Batch) -> None:
        texts: dict[str, None] = {}
        for part in batch.parts():
            if not self._is_cut(part):
                documents = enumerate(part.documents())
                part.chunks = [(n, cut) for n, text in documents for cut in self._cut(text)]
                part.vectors = [None] * len(part.chunks)
            for (_, text), vector in zip(part.chunks, part.vectors, strict=True):
                if vector is None:
                    texts[text] = None
                else:
                    self._check_length(vector, "chunk")
        made: dict[str, Halves] = {}
        if texts:
            found = self._encoder.encode_texts(list(texts))
            made = dict(zip(texts, found.astype("<f2"), strict=True))
        for part in batch.parts():
            pairs = zip(part.chunks, part.vectors, strict=True)
            part.vectors = [made[text] if v is None else v for (_, text), v in pairs]
        blank = [picture for picture in batch.pictures.values() if picture.vector is None]
        for sound, _ in decoded(blank, lambda picture: picture.decode_for(self._encoder)):
            found = self._encoder.encode_images([image for _, image in sound])
            for (picture, _), vector in zip(sound, found, strict=True):
                picture.vector = vector

    def _is_cut(self, part: Part) -> bool:
        """Whether the chunks of a part are those that this base would have."""
        given = any(vector is not None for vector in part.vectors)
        return self._cut_fits and (bool(self._found.manifest) or given)

    def _cut(self, text: str) -> list[str]:
        if not text.strip():
            return []
        count = self._encoder.count_tokens
        return chunk(text, count_tokens=count, max_tokens=self._limit)

    def _check_length(self, vector: Halves, kind: Kind) -> None:
        dim = side(self._encoder, kind).dim
        if len(vector) != dim:
            raise BadInput(
                f"{self._found.folder} has vectors of {len(vector)} numbers for each {kind}, the "
                f"encoder of the knowledge base makes {dim}: leave the column out, so that they "
                "are made anew"
            )

    def _load_again(self, digest: str) -> Picture:
        """A picture that the base had until another source was replaced in this batch."""
        again = Batch(pictures={digest: self._load(digest)})
        self._encode(again)
        self._storing.write_pictures(again.pictures.values())
        return again.pictures[digest]

    def _unit_row(self, unit: str) -> int | None:
        return unit_row(self._database.connection, unit)

    def _image_row(self, digest: str) -> int | None:
        return image_row(self._database.connection, digest)
