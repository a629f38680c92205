"""Changes by name: add, update, delete, sync."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.errors import BadInput, NotFound, Refused
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.ingest import unit_resolution
from ku_rag.ingest.assembly import Declaration, as_read
from ku_rag.ingest.deletion import delete_sources, delete_units, merged
from ku_rag.ingest.pipeline import Pipeline
from ku_rag.ingest.preparation import PreparedRecord, ReadyVectors, prepare
from ku_rag.ingest.readers.folder import read
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.ingest.seen_sources import SeenSources, is_document, uris_below
from ku_rag.settings import Settings
from ku_rag.store import table_rows
from ku_rag.store.connection import as_json
from ku_rag.store.content_rows import content_hash
from ku_rag.store.database import Database
from ku_rag.store.unit_records import hint, known_row, unit_row
from ku_rag.text.tokens import name_key
from ku_rag.types import (
    Added,
    Deleted,
    IngestReport,
    PlannedUnit,
    Progress,
    Quarantined,
    Record,
    Source,
    Unit,
)

_LEFT_BEHIND = (
    "its texts now belong to the unit of their document, and what was added by hand stays here: "
    "add it there with `ku update`, then delete this unit"
)


class RollBack(Exception):
    """Ends a dry run: everything since its start is rolled back."""


def add(
    pipeline: Pipeline,
    database: Database,
    unit: Unit,
    *,
    images: VectorIndex,
    chunks: VectorIndex,
    settings: Settings,
    vectors: ReadyVectors,
) -> Added:
    """Add a unit, or join it to the unit that it matches when it brings no id.

    Raises:
        BadInput: The id is blank, or a picture cannot be read.
    """
    record = pipeline.encode(_record(unit), "add", vectors)
    (source,) = record.sources
    candidate, why = None, "a record with an id of its own never joins"
    if unit.id is None:
        of_images = [picture.vector for picture in source.pictures if picture.vector is not None]
        candidate, why = unit_resolution.resolve(
            database,
            unit.name,
            ((images, of_images), (chunks, source.chunk_vectors)),
            threshold=settings.join_threshold,
        )
    unit_id = unit.id or _new_id(database, unit.name)
    if candidate:
        (unit_id,) = database.connection.execute(
            "SELECT id FROM units WHERE row = ?", candidate[:1]
        ).fetchone()
        source.origin = "join"
    report = pipeline.put(_identify(record, unit_id))
    return Added(
        id=unit_id,
        action="joined" if candidate else "added",
        matched=(unit_id, round(candidate[1], 4)) if candidate else None,
        chunks=report.chunks_added,
        images=report.images_added,
        why=why,
    )


def add_many(
    pipeline: Pipeline,
    units: Iterable[tuple[Unit, ReadyVectors]],
    *,
    replace: bool,
    progress: Progress | None,
) -> IngestReport:
    """Add units that have ids, with their vectors, in batches; see `KnowledgeBase.add_many`.

    Raises:
        BadInput: A unit has no id, or one of its pictures cannot be read; the batches before it are
            stored, unless units are replaced.
    """

    def prepared(unit: Unit, vectors: ReadyVectors) -> PreparedRecord:
        if unit.id is None:
            raise BadInput(f"the unit {unit.name!r} has no id: many at once need one each")
        record, unread = prepare(_record(unit), "add", vectors)
        if unread:
            raise BadInput(unread[0].reason)
        return _identify(record, unit.id)

    if not replace:
        return pipeline.run((prepared(*item) for item in units), progress=progress)
    units = list(units)
    with pipeline.writer.change() as connection:
        rows = (unit_row(connection, unit.id or "") for unit, _ in units)
        delete_units(connection, list(dict.fromkeys(row for row in rows if row is not None)))
        return pipeline.run((prepared(*item) for item in units), progress=progress)


def _record(unit: Unit) -> Record:
    return Record(unit, (Source("add:", unit.texts, unit.images, unit.tables),))


def _identify(record: PreparedRecord, unit_id: str) -> PreparedRecord:
    """Name the source by its content: adding the same content to a unit twice changes nothing."""
    (source,) = record.sources
    source.uri = f"add:{unit_id}/{content_hash(source.digest)[:16]}"
    record.unit = unit_id
    return record


def update(
    pipeline: Pipeline,
    database: Database,
    unit_id: str,
    *,
    name: str | None = None,
    kind: str | None = None,
    aliases: Sequence[str] | None = None,
    images: Sequence[Path] | None = None,
    texts: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Added:
    """Replace the fields of a unit that are given; the others stay.

    Raises:
        NotFound: There is no such unit.
        BadInput: The new name is empty, or a picture cannot be read.
    """
    connection = database.connection
    row = known_row(connection, unit_id)
    if name is not None:
        arguments.name(name, "the name")
    uri = f"update:{unit_id}"
    stored = connection.execute("SELECT declared FROM sources WHERE uri = ?", (uri,)).fetchone()
    before = Declaration.from_json(stored[0]) if stored else Declaration(replaces=True)
    tables = () if texts is None else tuple(table_rows.of_unit(connection, row))
    own_texts = table_rows.without_rows(texts or (), tables)
    content = Source(uri, own_texts, tuple(images or ()), tables)
    record = pipeline.encode(Record(None, (content,)), "update")
    (source,) = record.sources
    source.declared = replace(
        before,
        name=before.name if name is None else name,
        kind=before.kind if kind is None else kind,
        aliases=before.aliases if aliases is None else tuple(aliases),
        metadata=before.metadata if metadata is None else as_read(metadata),
    )
    source.keeps_texts, source.keeps_pictures = texts is None, images is None
    source.replaces_others = True
    record.unit = unit_id
    report = pipeline.put(record)
    return Added(
        id=unit_id,
        action="updated",
        matched=None,
        chunks=report.chunks_added,
        images=report.images_added,
        why="the named fields were replaced",
    )


def delete(pipeline: Pipeline, ids: Iterable[str]) -> Deleted:
    """Delete units by id, or sources by uri, in one transaction.

    Raises:
        NotFound: One of them does not exist; nothing is deleted.
    """
    with pipeline.writer.change() as connection:
        matches = connection.execute(
            "SELECT w.value, u.row, s.row FROM json_each(?) w LEFT JOIN units u ON u.id = w.value "
            "LEFT JOIN sources s ON s.uri = w.value",
            (as_json(dict.fromkeys(ids)),),
        ).fetchall()
        for key, *rows in matches:
            if rows == [None, None]:
                near = hint(connection, key)
                raise NotFound(f"nothing was deleted: there is no unit or source {key!r}, {near}")
        sources = [source for _, unit, source in matches if unit is None]
        of_sources = delete_sources(connection, sources)
        units = [unit for key, unit, _ in matches if unit and key not in of_sources.units]
        return merged([of_sources, delete_units(connection, units)])


def sync(
    pipeline: Pipeline,
    database: Database,
    folder: Path,
    *,
    settings: Settings,
    yes: bool,
    dry_run: bool,
    progress: Progress | None,
) -> IngestReport:
    """Make the knowledge that came from a folder what it holds now; see `KnowledgeBase.sync`.

    Raises:
        BadInput: The folder is a file.
        Refused: Too much would be deleted and `yes` was not given; nothing was changed.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file: sync takes a folder; use `ku ingest` for a file")
    started = time.monotonic()
    there = folder.is_dir() and any(folder.iterdir())
    if not there and not yes:
        state = "empty" if folder.is_dir() else "not there"
        raise Refused(
            f"{folder} is {state}: syncing with it would delete everything that came from it; "
            "mount or correct it, or pass --yes if that is what you want"
        )
    (stored,) = database.connection.execute(
        "SELECT count(*) FROM sources WHERE uri >= ? AND uri < ?", uris_below(folder)
    ).fetchone()
    seen = SeenSources()
    if there and stored:
        with closing(read(folder, Parsing.of(settings, progress))) as items:
            for item in items:
                seen.add(item)
    gone = seen.missing_below(database.connection, folder)
    # The headings of a document may have been units before, or the document.
    lost = {uri for uri in gone.values() if not seen.has_other_form(uri)}
    if lost and len(lost) * 2 > stored and not (yes or dry_run):
        raise Refused(
            f"{len(lost)} of the {stored} sources known from {folder} are gone: nothing was "
            "changed; pass --yes to delete them, or --dry-run to see what would happen"
        )
    report = IngestReport()
    with suppress(RollBack), pipeline.writer.change() if dry_run else nullcontext():
        if there:
            with closing(read(folder, Parsing.of(settings, progress))) as items:
                report = pipeline.run(items, progress=progress, write_files=not dry_run)
        moved = [row for row, uri in gone.items() if uri not in lost]
        _delete_missing(pipeline, list(gone), moved, report)
        if dry_run:
            raise RollBack
    report.seconds = time.monotonic() - started
    return report


def plan(
    paths: Iterable[Path], settings: Settings, progress: Progress | None = None
) -> tuple[list[PlannedUnit], list[Quarantined]]:
    """Return the units that an ingest of paths would make, and the items it would leave out."""
    units: dict[tuple[str | None, str], PlannedUnit] = {}
    left_out = list[Quarantined]()
    for item in chain.from_iterable(read(path, Parsing.of(settings, progress)) for path in paths):
        if isinstance(item, Quarantined):
            left_out.append(item)
            continue
        unit, sources = item.unit or Unit("texts of no unit"), item.sources
        file, _, part = sources[0].uri.partition("#")
        origin = "heading" if part and is_document(file) else "record" if part else "files"
        origin = "document" if item.is_document else origin
        # Documents of the same id become several units.
        key = unit.id, file if item.is_document else ""
        planned = units.setdefault(key, PlannedUnit(unit.id, unit.name, origin))
        planned.counts.update(
            texts=sum(len(source.texts) for source in sources),
            tables=sum(len(source.tables) for source in sources),
            pictures=len({image for source in sources for image in source.images}),
        )
        places = (place for source in sources for place in source.places[: len(source.texts)])
        planned.sections.extend(dict.fromkeys(place.section for place in places if place.section))
    return list(units.values()), left_out


def _delete_missing(
    pipeline: Pipeline, gone: Sequence[int], moved: Sequence[int], report: IngestReport
) -> None:
    """Delete sources by row; report units that are left although their texts moved to a document.

    `moved` are the rows of sources whose texts are now in the source of their whole file.
    """
    with pipeline.writer.change() as connection:
        owners = connection.column(
            "SELECT DISTINCT u.id FROM json_each(?) w CROSS JOIN sources s ON s.row = w.value "
            "JOIN units u ON u.row = s.unit",
            (as_json(moved),),
        )
        deleted = delete_sources(connection, gone)
    report.units_deleted = list(deleted.units)
    report.quarantined += [
        Quarantined(unit, _LEFT_BEHIND) for unit in owners if unit not in deleted.units
    ]


def _new_id(database: Database, name: str) -> str:
    base = re.sub(r"\s+", "-", name_key(name)) or content_hash(name)[:12]
    ids = chain([base], (f"{base}-{number}" for number in count(2)))
    return next(unit_id for unit_id in ids if unit_row(database.connection, unit_id) is None)
