"""Putting knowledge in, and taking it out."""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag import arguments, pictures
from ku_rag.encoders.base import Vectors
from ku_rag.encoders.pair import side
from ku_rag.errors import BadInput
from ku_rag.knowledge_base.held import Held
from ku_rag.types import Added, IngestReport, Unit

if TYPE_CHECKING:
    from ku_rag.ingest.pipeline import Progress
    from ku_rag.ingest.preparation import Given


class Changing(Held):
    """What changes the contents of a knowledge base."""

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
        from ku_rag.ingest.readers import folder

        source = arguments.path(path, "what is taken in").resolve()
        started = time.monotonic()
        with self._write() as pipeline:
            items = folder.read(source, heading_level=self._heading_level)
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
        (given,) = self._given([unit], vectors)
        with self._write() as pipeline:
            added = changes.add(
                pipeline,
                self._database,
                unit,
                encoder=self.encoder,
                images=self._images,
                chunks=self._chunks,
                settings=self.settings,
                given=given,
            )
            self._write_caches()
        return added

    def add_many(
        self,
        units: Iterable[Unit],
        *,
        vectors: Mapping[str, Vectors] | None = None,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Add units that have ids, many in one commit: the fast way in for what a program holds.

        Args:
            units: what to add; all are held in memory, so hand over some ten thousands at a time.
            vectors: ready-made vectors as in `add`, of all texts and/or all images, one unit after
                the other.
            progress: called with the number of units seen so far.

        Raises:
            NotFound: a picture is not there.
            BadInput: a unit has no name or no id, a picture is broken, or vectors do not fit.
            Locked: another process is writing.
        """
        from ku_rag.ingest import changes

        started = time.monotonic()
        chosen = list(units)
        for unit in chosen:
            if not isinstance(unit, Unit):
                raise BadInput(f'a unit is {unit!r}: expected a Unit, such as Unit("Lamp")')
            if unit.id is not None:
                arguments.identity(unit.id, "the id")
            pictures.check_files(unit.images)
        given = self._given(chosen, vectors)
        with self._write() as pipeline:
            pairs = zip(chosen, given, strict=True)
            report = changes.add_many(pipeline, pairs, progress=progress)
            self._write_caches()
        report.seconds = time.monotonic() - started
        return report

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

    @property
    def _heading_level(self) -> int | None:
        return self.settings.heading_level or None

    def _given(
        self, units: Sequence[Unit], vectors: Mapping[str, Vectors] | None
    ) -> Iterator[Given]:
        """What of the ready-made vectors belongs to each unit."""
        from ku_rag.ingest.preparation import Given

        if vectors is None:
            return repeat(Given(), len(units))
        texts = sum(len(unit.texts) for unit in units)
        images = sum(len(unit.images) for unit in units)
        found = arguments.ready_vectors(
            vectors,
            expected={
                "texts": (texts, side(self.encoder, "chunk").dim),
                "images": (images, side(self.encoder, "image").dim),
            },
        )
        if found["images"] is not None:
            for unit in units:
                pictures.check_all_differ(unit.images)
        of_texts = _shares(found["texts"], [len(unit.texts) for unit in units])
        of_images = _shares(found["images"], [len(unit.images) for unit in units])
        return map(Given, of_texts, of_images)


def _shares(vectors: Vectors | None, sizes: Sequence[int]) -> Iterator[Vectors | None]:
    """The vectors cut into parts of these sizes."""
    start = 0
    for size in sizes:
        yield None if vectors is None else vectors[start : start + size]
        start += size
