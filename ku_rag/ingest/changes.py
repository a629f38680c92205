"""The changes that a user makes by name: add, update, delete, sync."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.encoders.base import Encoder
from ku_rag.errors import BadInput, NotFound, Refused
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.ingest import unit_resolution
from ku_rag.ingest.assembly import Declaration
from ku_rag.ingest.deletion import delete_sources, delete_units
from ku_rag.ingest.pipeline import Pipeline, Progress
from ku_rag.ingest.preparation import Given, Prepared, prepare
from ku_rag.ingest.readers.folder import read
from ku_rag.ingest.seen_sources import Seen
from ku_rag.settings import Settings
from ku_rag.store.content_rows import Dropped, content_hash
from ku_rag.store.database import Database
from ku_rag.store.unit_records import hint, known_row, unit_row
from ku_rag.text.tokens import name_key
from ku_rag.types import Added, Deleted, IngestReport, Record, Source, Unit


class _TakeBack(Exception):
    """Ends a dry run: everything since its start is rolled back."""


def add(
    pipeline: Pipeline,
    database: Database,
    unit: Unit,
    *,
    encoder: Encoder,
    images: VectorIndex,
    chunks: VectorIndex,
    settings: Settings,
    given: Given,
) -> Added:
    """Add a unit, or join it to the unit that it matches when it brings no id.

    Raises:
        BadInput: it has no name, or one of its pictures cannot be read.
    """
    prepared = _prepared(unit, given)
    broken = pipeline.encode([prepared])
    if broken:
        raise BadInput("; ".join(broken.values()))
    candidate, why = None, "a record with an id of its own never joins"
    if unit.id is None:
        candidate, why = _candidate(
            prepared, database, encoder.fingerprint, images, chunks, settings
        )
    unit_id = unit.id or _new_id(database, unit.name)
    if candidate:
        (unit_id,) = database.connection.execute(
            "SELECT id FROM units WHERE row = ?", (candidate.unit,)
        ).fetchone()
        why = candidate.why
    _name_source(prepared, unit_id)
    report = pipeline.put(prepared, origin="join" if candidate else "add")
    return Added(
        id=unit_id,
        action="joined" if candidate else "added",
        matched=(unit_id, round(candidate.score, 4)) if candidate else None,
        chunks=report.chunks_added,
        images=report.images_added,
        why=why,
    )


def add_many(
    pipeline: Pipeline,
    units: Iterable[tuple[Unit, Given]],
    *,
    progress: Progress | None,
) -> IngestReport:
    """Add units that have ids, in batches.

    Raises:
        BadInput: a unit has no name or no id, or one of its pictures cannot be read; the batches
            before it are stored.
    """
    return pipeline.run(map(_identified, units), origin="add", progress=progress)


def _identified(one: tuple[Unit, Given]) -> Prepared:
    unit, given = one
    if unit.id is None:
        raise BadInput(f"the unit {unit.name!r} has no id: many at once need one each")
    prepared = _prepared(unit, given)
    _name_source(prepared, unit.id)
    return prepared


def _prepared(unit: Unit, given: Given) -> Prepared:
    if unit.id is not None and not unit.id.strip():
        raise BadInput(f"the id {unit.id!r} is blank: give one, or leave it out to get one")
    prepared = prepare(Record(unit, (Source("add:", unit.texts, unit.images),)))
    prepared.given = given
    return prepared


def _name_source(prepared: Prepared, unit_id: str) -> None:
    """What is added twice to a unit comes from the same source, and so changes nothing."""
    assert prepared.unit is not None
    source = prepared.sources[0]
    if prepared.unit.id != unit_id:
        prepared.unit = replace(prepared.unit, id=unit_id)
    source.uri = f"add:{unit_id}/{content_hash(source.digest)[:16]}"


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
    """Replace what is named of a unit; the rest stays.

    Raises:
        NotFound: there is no such unit.
        BadInput: the new name is empty, or a picture cannot be read.
    """
    row = known_row(database.connection, unit_id)
    if name is not None:
        arguments.name(name, "the name")
    uri = f"update:{unit_id}"
    stored = database.connection.execute(
        "SELECT declared FROM sources WHERE uri = ?", (uri,)
    ).fetchone()
    before = Declaration.from_json(stored[0]) if stored else Declaration(replaces=True)
    declared = replace(
        before,
        name=before.name if name is None else name,
        kind=before.kind if kind is None else kind,
        aliases=before.aliases if aliases is None else tuple(aliases),
        metadata=before.metadata if metadata is None else metadata,
    )
    prepared = prepare(Record(None, (Source(uri, tuple(texts or ()), tuple(images or ())),)))
    broken = pipeline.encode([prepared])
    if broken:
        raise BadInput("; ".join(broken.values()))
    report = pipeline.storing.override(
        prepared.sources[0],
        unit_id=unit_id,
        row=row,
        declared=declared,
        texts=texts is not None,
        images=images is not None,
    )
    return Added(
        id=unit_id,
        action="updated",
        matched=None,
        chunks=report.chunks_added,
        images=report.images_added,
        why="replaced what was named",
    )


def delete(pipeline: Pipeline, database: Database, ids: Iterable[str]) -> Deleted:
    """Delete units by id, or sources by uri, in one transaction.

    Raises:
        NotFound: one of them does not exist; then nothing is deleted.
    """
    dropped = Dropped()
    with pipeline.storing.change() as connection:
        units, sources = {}, []
        for one in dict.fromkeys(ids):
            if (unit := unit_row(connection, one)) is not None:
                units[one] = unit
            elif source := connection.execute(
                "SELECT row FROM sources WHERE uri = ?", (one,)
            ).fetchone():
                sources.append(source[0])
            else:
                raise NotFound(
                    f"there is no unit or source {one!r}: {hint(connection, one)}, "
                    "`ku show ID` the sources of one; nothing was deleted"
                )
        delete_sources(connection, sources, pipeline.storing.inverted, dropped)
        left = [row for unit_id, row in units.items() if unit_id not in dropped.units]
        delete_units(connection, left, pipeline.storing.inverted, dropped)
    return dropped.result()


def sync(
    pipeline: Pipeline,
    database: Database,
    folder: Path,
    *,
    heading_level: int | None,
    yes: bool,
    dry_run: bool,
    progress: Progress | None,
) -> IngestReport:
    """Make the base's knowledge from a folder what the folder holds now.

    Args:
        pipeline: stores records.
        database: the store.
        folder: absolute; only sources below it are touched.
        heading_level: see `ingest.readers.folder.read`.
        yes: go on when the folder is absent or empty, or more than half would be deleted.
        dry_run: say what would be done, and do nothing.
        progress: told how far it is.

    Raises:
        BadInput: it is a file.
        Refused: it would delete too much and `yes` was not given; nothing was changed.
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
    gone = _gone(database, folder, heading_level if there else None, there=there)
    known = _count_below(database, folder)
    if gone and len(gone) * 2 > known and not (yes or dry_run):
        raise Refused(
            f"{len(gone)} of the {known} sources known from {folder} are gone: nothing was "
            "changed; pass --yes to delete them, or --dry-run to see what would happen"
        )
    dropped = Dropped()
    report = IngestReport()
    try:
        if dry_run:
            with pipeline.storing.change():
                report = _sync(pipeline, folder, heading_level, gone, dropped, there, progress)
                raise _TakeBack
        report = _sync(pipeline, folder, heading_level, gone, dropped, there, progress, files=True)
    except _TakeBack:
        pass
    report.units_deleted = dropped.units
    report.seconds = time.monotonic() - started
    return report


def _sync(
    pipeline: Pipeline,
    folder: Path,
    heading_level: int | None,
    gone: Sequence[int],
    dropped: Dropped,
    there: bool,
    progress: Progress | None,
    files: bool = False,
) -> IngestReport:
    items = read(folder, heading_level=heading_level) if there else iter(())
    report = pipeline.run(items, progress=progress, keep_files=files)
    with pipeline.storing.change() as connection:
        delete_sources(connection, gone, pipeline.storing.inverted, dropped)
    return report


def _candidate(
    prepared: Prepared,
    database: Database,
    fingerprint: str,
    images: VectorIndex,
    chunks: VectorIndex,
    settings: Settings,
) -> tuple[unit_resolution.Candidate | None, str]:
    unit = prepared.unit
    named = unit_resolution.by_name(database, unit.name) if unit else None
    if named:
        return named, named.why
    reasons = ["no unit bears its name"]
    for index, kind, vectors in (
        (images, "image", prepared.picture_vectors()),
        (chunks, "chunk", prepared.chunk_vectors()),
    ):
        candidate, why = unit_resolution.by_vectors(
            database,
            index,
            "image" if kind == "image" else "chunk",
            vectors,
            fingerprint=fingerprint,
            threshold=settings.join_threshold,
        )
        if candidate:
            return candidate, candidate.why
        if why:
            reasons.append(why)
    return None, "; ".join(reasons)


def _new_id(database: Database, name: str) -> str:
    base = re.sub(r"\s+", "-", name_key(name)) or content_hash(name)[:12]
    taken = {
        unit_id
        for (unit_id,) in database.connection.execute(
            "SELECT id FROM units WHERE id = ? OR id GLOB ? || '-[0-9]*'", (base, base)
        )
    }
    return next(
        candidate
        for candidate in (base, *(f"{base}-{n}" for n in range(2, len(taken) + 3)))
        if candidate not in taken
    )


def _gone(database: Database, folder: Path, heading_level: int | None, *, there: bool) -> list[int]:
    with Seen(database) as seen:
        if there and _count_below(database, folder):
            for item in read(folder, heading_level=heading_level):
                seen.note(item)
        return seen.missing_below(folder.as_posix())


def _count_below(database: Database, folder: Path) -> int:
    below = folder.as_posix().rstrip("/") + "/"
    (count,) = database.connection.execute(
        "SELECT count(*) FROM sources WHERE uri >= ? AND uri < ?", (below, below[:-1] + "0")
    ).fetchone()
    return int(count)
