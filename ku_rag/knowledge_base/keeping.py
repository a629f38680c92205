"""Keeping a knowledge base sound: checked, compact, up to date with its encoder."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ku_rag import manifest
from ku_rag.encoders.base import Encoder
from ku_rag.knowledge_base.held import Held
from ku_rag.models import load_named
from ku_rag.store import compaction

if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Progress


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
        """
        with self._write():
            before = self._layout.bytes()
            for index in (self._images, self._chunks):
                index.write_base()
            compaction.compact(self._database, self._layout)
            return {"bytes_before": before, "bytes_after": self._layout.bytes()}

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
