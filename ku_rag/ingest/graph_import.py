"""Graphs from files: what a file no longer says is deleted, what it says is stored."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ku_rag.graph import formats
from ku_rag.graph.graph_records import GraphReport, Part
from ku_rag.graph.name_resolution import Entry, Linked, known_units, split
from ku_rag.graph.video_frames import with_keyframes
from ku_rag.ingest import deletion
from ku_rag.ingest.pipeline import Pipeline, Progress
from ku_rag.ingest.readers.decoding import PartialSource
from ku_rag.ingest.unit_writer import NewEntity
from ku_rag.store.database import Database
from ku_rag.types import IngestReport, Quarantined, Record, Relation, Source


def import_graph(
    pipeline: Pipeline,
    database: Database,
    path: Path,
    *,
    frames: Path | None,
    progress: Progress | None = None,
) -> GraphReport:
    """Take in a graph; see `GraphView.import_file`.

    Args:
        pipeline: stores records.
        database: the store.
        path: a file, or a folder of workbooks.
        frames: folder for the keyframes of videos; None takes one that is deleted afterwards.
        progress: called with the number of entities and relations read, then of units seen.

    Raises:
        NotFound: the path does not exist.
        BadInput: no reader knows this kind of file, it is damaged, or there is nothing in it.
        MissingExtra: it holds workbooks, and openpyxl is not installed.
    """
    started = time.monotonic()
    with _folder(frames) as folder:
        with _paused_collection():
            parts = formats.read(path, progress)
            within = formats.ranges(path, parts)
            linked = Linked(parts, lambda names: known_units(database.connection, names, within))
            deleted = _delete_unsaid(pipeline, database, path, parts, within, linked)
            bare, rest = split(with_keyframes(linked.entries(), folder), database.connection)
            quick, _ = pipeline.writer.insert_entities(
                [NewEntity(one.unit, one.uri, one.relations) for one in bare], "ingest"
            )
            quick.quarantined += linked.problems
        done = pipeline.run(map(_record, rest), progress=progress)
    counted = [one.name for one in fields(IngestReport) if one.name != "units_deleted"]
    report = GraphReport(**{one: getattr(quick, one) + getattr(done, one) for one in counted})
    report.units_deleted = deleted
    report.only_named = len(linked.only_named)
    report.seconds = time.monotonic() - started
    return report


def _delete_unsaid(
    pipeline: Pipeline,
    database: Database,
    path: Path,
    parts: Sequence[Part],
    within: Sequence[tuple[str, str]],
    linked: Linked,
) -> list[str]:
    """Delete what the same files said before and do not say now, if all of them could be read.

    This comes first: the relations to a deleted entity go with it, and those that stay are stated
    anew.

    Returns:
        The ids of the deleted units.
    """
    if not all(part.whole for part in parts):
        return []
    before = {
        uri: row
        for ends in within
        for row, uri in database.connection.execute(
            "SELECT row, uri FROM sources WHERE uri >= ? AND uri < ?", ends
        )
        if formats.is_own(uri, path)
    }
    said = set(linked.uris()) if before else set()
    gone = [row for uri, row in before.items() if uri not in said]
    with pipeline.writer.change() as connection:
        dropped = deletion.delete_sources(
            connection, gone, pipeline.writer.inverted, keep_entities=True
        )
    return dropped.units


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given:
        yield given
    else:
        with TemporaryDirectory(prefix="ku-frames-") as folder:
            yield Path(folder)


@contextmanager
def _paused_collection() -> Iterator[None]:
    """Pause garbage collection: it takes a third of the time of an import and finds no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _record(entry: Entry | Quarantined) -> Record | Quarantined:
    if isinstance(entry, Quarantined):
        return entry
    kind = PartialSource if entry.partial else Source
    stated = tuple(Relation(*one) for one in entry.relations)
    unit = replace(entry.unit, relations=stated)
    return Record(unit, (kind(entry.uri, entry.texts, entry.images),))
