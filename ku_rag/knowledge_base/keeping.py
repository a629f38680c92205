"""Keeping a knowledge base sound: checked, compact, up to date with its encoder."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag import arguments, manifest
from ku_rag.encoders.base import Encoder
from ku_rag.errors import BadInput
from ku_rag.indexes.index_kinds import KINDS
from ku_rag.knowledge_base.held import Held
from ku_rag.models import load_named
from ku_rag.store import compaction
from ku_rag.store.layout import Layout

if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Progress
    from ku_rag.types import IngestReport


class Keeping(Held):
    """What keeps a knowledge base sound."""

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
            Corrupt: the file is damaged. A base that has lost commits is taken as it is.
        """
        with self._write():
            before = self._layout.bytes()
            for index in (self._images, self._chunks):
                index.compact()
            compaction.compact(self._database, self._layout)
            return {"bytes_before": before, "bytes_after": self._layout.bytes()}

    def tune(self, *, recall: float = 0.99, kind: str | None = None) -> dict[str, Any]:
        """Choose how pictures and texts are searched, by measuring it on the base's own vectors.

        Every kind of index is built and asked for the neighbours of some of its own vectors; the
        quickest that finds enough of them is kept, and made again so from then on.

        Args:
            recall: recall@10 against exact search that must be reached, above 0 up to 1.
            kind: only this kind: "flat", "rabitq", "ivf-sq8" or "ivf-rabitq".

        Returns:
            For "image" and "chunk" the "kind" that was chosen, its "recall", and what was "tried".

        Raises:
            BadInput: there is no such kind, or the recall is none.
            Refused: the kind that was named finds less.
            Locked: another process is writing.
        """
        from ku_rag.indexes import tuning

        if not isinstance(recall, int | float) or not 0 < recall <= 1:
            raise BadInput(f"recall is {recall!r}: expected a number above 0, up to 1")
        chosen = next((one for one in KINDS if one == kind), None)
        if kind is not None and chosen is None:
            raise BadInput(f"kind is {kind!r}: expected {', '.join(KINDS)}")
        found: dict[str, Any] = {}
        with self._write():
            for index in (self._images, self._chunks):
                tuned, segment = tuning.tune(index, recall=recall, kind=chosen)
                wishes = self._database.meta("index") or {}
                wished = {"kind": tuned.kind, "recall": recall, "count": index.count}
                self._database.set_meta("index", {**wishes, index.kind: wished})
                if segment:
                    index.replace(segment)
                found[index.kind] = tuned.to_dict()
        return found

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

    def export(self, folder: str | Path) -> dict[str, Any]:
        """Write the base as Parquet files and pictures, one state of it; see docs/transfer.md.

        Args:
            folder: new, empty, or an earlier export, which is replaced when all is written.

        Returns:
            "counts" of rows, "pictures" copied, "left_out" (pictures that are missing or damaged)
            and "seconds".

        Raises:
            Refused: the folder holds something else.
            ReadOnly: it cannot be written.
            Corrupt: a row fails its checksum.
            MissingExtra: pyarrow is not installed.
        """
        from ku_rag.transfer import parquet_export

        target = arguments.path(folder, "the folder of the export")
        return parquet_export.export(
            self._database, self._layout, target, max_tokens=self.settings.max_tokens
        ).to_dict()

    def import_(self, folder: str | Path, *, progress: Progress | None = None) -> IngestReport:
        """Take in an export, or Parquet files written by others; see docs/transfer.md.

        What is stored already exactly so is passed over. Vectors are taken over if they were made
        by the encoder of this base, and made anew otherwise.

        Args:
            folder: of the export.
            progress: called with the number of units seen so far.

        Raises:
            NotFound: there is no export.
            BadInput: a table cannot be read, or has vectors of another length.
            Mismatch: it is of a later format.
            Locked: another process is writing.
            MissingExtra: pyarrow is not installed.
        """
        from ku_rag.transfer import parquet_reader
        from ku_rag.transfer.parquet_import import Importing

        found = parquet_reader.find(arguments.path(folder, "the folder of the export"))
        with self._write() as pipeline:
            work = Importing(
                found,
                pipeline,
                self._database,
                self.encoder,
                self._encoder_rows,
                self.settings,
            )
            report = work.run(progress)
            self._write_caches()
        return report

    def snapshot(self, folder: str | Path, *, link: bool = False) -> dict[str, Any]:
        """Copy the whole base, as it is at one moment, while others read and write.

        Args:
            folder: new or empty; it appears when everything is copied, and opens as a base.
            link: give the pictures a second name instead of copying them.

        Returns:
            "pictures" and "bytes" copied, "left_out" (pictures missing or not what they were) and
            "seconds".

        Raises:
            Refused: the folder holds something.
            ReadOnly: it cannot be written.
            Corrupt: the store is damaged.
        """
        from ku_rag.transfer import snapshot

        target = arguments.path(folder, "the folder of the snapshot")
        return snapshot.take(self._database, self._layout, target, link=link).to_dict()

    @staticmethod
    def salvage(path: str | Path, folder: str | Path) -> dict[str, Any]:
        """Write everything that is sound of a damaged base, for `import_` into a new one.

        The base is read page by page, is not opened, and nothing of it is changed. Nobody should
        write to it meanwhile.

        Args:
            path: folder of the damaged base.
            folder: of the export: new, empty, or an earlier export.

        Returns:
            As `export`, with what is lost in "left_out"; "salvaged", for each table the number of
            rows "saved", what is "lost" as far as it is known, and how many "failed_checksum"; and
            "pages", how many were "read" and which are "broken".

        Raises:
            NotFound: there is no store, or it is empty.
            Refused: the folder holds something else.
            ReadOnly: it cannot be written.
            MissingExtra: pyarrow is not installed.
        """
        from ku_rag.transfer import salvage

        layout = Layout(arguments.path(path, "the knowledge base").absolute())
        return salvage.salvage(layout, arguments.path(folder, "the folder of the export"))
