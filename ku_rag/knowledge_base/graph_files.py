"""Graphs taken in from files, and written to them."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ku_rag import arguments
from ku_rag.knowledge_base.changing import Changing
from ku_rag.types import IngestReport, Quarantined, Record, Relation, Source

if TYPE_CHECKING:
    from ku_rag.graph.graph_records import GraphReport
    from ku_rag.graph.model import Graph
    from ku_rag.graph.name_resolution import Entry
    from ku_rag.ingest.pipeline import Pipeline, Progress
    from ku_rag.store.content_rows import Dropped


class GraphFiles(Changing):
    """What is done with graphs in files."""

    def graph_import(self, path: str | Path, *, progress: Progress | None = None) -> GraphReport:
        """Take in a graph: JSON lines, GraphML, or a folder of workbooks; see docs/graph.md.

        What the same file said before is replaced. A file that could not be read throughout
        deletes nothing. Of a video that is named without keyframes, ten frames are taken.

        Args:
            path: the file or folder.
            progress: called with the number of entities and relations read, then of units seen.

        Raises:
            NotFound: the path does not exist.
            BadInput: nobody reads this kind of file, it is damaged, or there is nothing in it.
            MissingExtra: it holds workbooks, and openpyxl is not installed.
            Locked: another process is writing.
        """
        from ku_rag.graph.graph_records import GraphReport
        from ku_rag.store.content_rows import Dropped

        started = time.monotonic()
        source = arguments.path(path, "the graph")
        dropped = Dropped()
        first = IngestReport()
        with self._write() as pipeline, self._frames() as frames:
            with _unhurried():
                rest, only_named = self._take_in(pipeline, source, frames, progress, first, dropped)
            done = pipeline.run(map(_record, rest), progress=progress)
            self._write_caches()
        report = GraphReport(
            **{
                one.name: getattr(first, one.name) + getattr(done, one.name)
                for one in fields(IngestReport)
                if one.name != "units_deleted"
            }
        )
        report.units_deleted = dropped.units
        report.only_named = only_named
        report.seconds = time.monotonic() - started
        return report

    def graph_export(self, path: str | Path) -> dict[str, Any]:
        """Write the graph, every unit an entity, so that `graph_import` makes the same of it.

        Args:
            path: a file that ends in .jsonl or .graphml, beside which a folder of its pictures is
                made; or, without an ending, a new folder of workbooks.

        Returns:
            The numbers of "entities", "relations" and "images", and "left_out" (pictures that are
            missing or damaged).

        Raises:
            BadInput: the ending is another, or a text is too long for a cell.
            Refused: the folder holds something, or that of pictures is there without the file, or
                it lies in the knowledge base.
            ReadOnly: it cannot be written.
            Corrupt: a row fails its checksum.
            MissingExtra: it is to be workbooks, and openpyxl is not installed.
        """
        from ku_rag.graph import entity_export

        target = arguments.path(path, "the graph").absolute()
        return entity_export.write(self._database.connection, self._layout, target).to_dict()

    # ---- inside --------------------------------------------------------------------------------

    @property
    def _graph(self) -> Graph:
        from ku_rag.graph.model import Graph

        return Graph(self._database.connection, self._layout)

    def _take_in(
        self,
        pipeline: Pipeline,
        path: Path,
        frames: Path,
        progress: Progress | None,
        report: IngestReport,
        dropped: Dropped,
    ) -> tuple[list[Entry | Quarantined], int]:
        """Read a graph, delete what it does not say any more, store what is quickly stored.

        Returns:
            What is left to be stored, and how many entities are but names.
        """
        from ku_rag.graph import formats
        from ku_rag.graph.name_resolution import Linked, known_units, split
        from ku_rag.graph.video_frames import with_keyframes
        from ku_rag.ingest import deletion
        from ku_rag.ingest.unit_writer import Bare

        parts = formats.read(path, progress)
        within = formats.ranges(path, parts)
        connection = self._database.connection
        linked = Linked(parts, lambda names: known_units(connection, names, within))
        if all(part.whole for part in parts):
            # First: with an entity go the relations to it, and those that stay are stated anew.
            before = {
                uri: row
                for ends in within
                for row, uri in connection.execute(
                    "SELECT row, uri FROM sources WHERE uri >= ? AND uri < ?", ends
                )
                if formats.is_own(uri, path)
            }
            said = set(linked.uris()) if before else set()
            gone = [row for uri, row in before.items() if uri not in said]
            with pipeline.storing.change():
                deletion.delete_sources(
                    connection, gone, pipeline.storing.inverted, dropped, bare=True
                )
        bare, rest = split(with_keyframes(linked.entries(), frames), connection)
        report.quarantined += linked.problems
        pipeline.storing.add_bare(
            [Bare(one.unit, one.uri, one.relations) for one in bare], "ingest", report
        )
        return rest, len(linked.only_named)

    @contextmanager
    def _frames(self) -> Iterator[Path]:
        """A folder for keyframes, which stays where pictures are linked to."""
        if self.settings.images == "link":
            yield self.path / "frames"
        else:
            with TemporaryDirectory(prefix="ku-frames-") as folder:
                yield Path(folder)


@contextmanager
def _unhurried() -> Iterator[None]:
    """Let Python look for what nobody holds any more afterwards.

    A graph is held whole and holds no circles; to look through it again and again takes a third of
    the time of an import.
    """
    watched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if watched:
            gc.enable()


def _record(entry: Entry | Quarantined) -> Record | Quarantined:
    from ku_rag.ingest.readers.decoding import PartialSource

    if isinstance(entry, Quarantined):
        return entry
    kind = PartialSource if entry.partial else Source
    stated = tuple(Relation(*one) for one in entry.relations)
    unit = replace(entry.unit, relations=stated)
    return Record(unit, (kind(entry.uri, entry.texts, entry.images),))
