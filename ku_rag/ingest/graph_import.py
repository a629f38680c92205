"""Import of graph files: JSON lines, GraphML, folders of workbooks.

An import is an ingest of the units that the files describe. What the same files said before is
replaced.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ku_rag.arguments import regular_file
from ku_rag.errors import BadInput, NotFound
from ku_rag.graph.keyframes import write_keyframes
from ku_rag.ingest import deletion
from ku_rag.ingest.graph_names import NameResolver
from ku_rag.ingest.pipeline import Pipeline
from ku_rag.ingest.readers.decoding import PartialSource
from ku_rag.ingest.readers.graph_records import EntityRecord, GraphPart
from ku_rag.ingest.readers.parser import Limits, Parsing
from ku_rag.ingest.readers.registry import GRAPH_READERS, load_reader
from ku_rag.ingest.readers.workbook import NODES, RELATIONS
from ku_rag.ingest.seen_sources import uris_below
from ku_rag.store.connection import Connection
from ku_rag.store.content_rows import content_hash
from ku_rag.store.database import Database
from ku_rag.store.unit_records import fields_of, texts_of, unit_row
from ku_rag.types import IngestReport, Progress, Quarantined, Record, Source

EXPECTED = ".jsonl, .graphml or a folder of sub-graphs with Node.xlsx and Relations.xlsx"

_MAX_BYTES = 1 << 40


@dataclass(slots=True)
class GraphReport(IngestReport):
    """What an import of a graph did.

    Args:
        only_named: Entities at which relations end and that nobody describes.
    """

    only_named: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields of `IngestReport` and "only_named"."""
        return {**IngestReport.to_dict(self), "only_named": self.only_named}


def import_graph(
    pipeline: Pipeline,
    database: Database,
    path: Path,
    *,
    limits: Limits,
    frames: Path | None = None,
    progress: Progress | None = None,
) -> GraphReport:
    """Import a graph; see docs/graph.md. The caller holds the writer lock.

    Sources that the same files brought before and no longer contain are deleted, unless a file
    could not be read completely. Frames of videos without keyframes are written to the folder
    `frames`, or to a temporary one.

    Raises:
        NotFound: The path does not exist.
        BadInput: The format is unknown, the file is damaged, or it holds nothing.
        MissingExtra: It holds workbooks, and openpyxl is not installed.
    """
    started = time.monotonic()
    deleted: list[str] = []
    connection = database.connection
    with _collection_paused():
        parts = read_graph(path, Parsing(limits, progress))
        own = [(f"{part.path.as_posix()}#", f"{part.path.as_posix()}$") for part in parts]
        own = [uris_below(path.resolve())] if path.is_dir() else own
        resolver = NameResolver(parts, connection, own)
        entities, problems = resolver.resolve()
        with TemporaryDirectory(prefix="ku-frames-") as temporary:
            if all(part.complete for part in parts):
                # First: deleting an entity deletes relations to it, which may be stated anew.
                stale = _stale_sources(connection, path, own, entities)
                with pipeline.writer.change() as changed:
                    gone = deletion.delete_sources(changed, stale, keep_entities=True)
                    deleted = list(gone.units)
            has_units = connection.execute("SELECT 1 FROM units LIMIT 1").fetchone() is not None
            stored = (entity for entity in entities if has_units and _is_known(connection, entity))
            left_out = {entity.source.uri for entity in stored}
            new = (entity for entity in entities if entity.source.uri not in left_out)
            items = (item for entity in new for item in _records(entity, frames or Path(temporary)))
            report = pipeline.run(chain(problems, items), progress=progress)
    report.units_unchanged += len(left_out)
    done = {field.name: getattr(report, field.name) for field in fields(IngestReport)}
    done |= {"units_deleted": deleted, "seconds": time.monotonic() - started}
    return GraphReport(**done, only_named=_count_only_named(connection, own))


def _is_known(connection: Connection, entity: EntityRecord) -> bool:
    """Whether a source is new, and others already give its unit all that it says.

    So it is with the export of a knowledge base that is imported into the same one.
    """
    unit, source = entity.unit, entity.source
    row = unit_row(connection, str(unit.id))
    if (
        row is None
        or connection.execute("SELECT 1 FROM sources WHERE uri = ?", (source.uri,)).fetchone()
    ):
        return False
    _, name, kind, aliases, metadata, match = fields_of(connection, row)
    stated = connection.execute(
        "SELECT r.relation, coalesce(u.id, r.target), r.information, r.condition "
        "FROM entities h JOIN relations r ON r.head = h.row JOIN entities t ON t.row = r.tail "
        "LEFT JOIN units u ON u.row = t.unit WHERE h.unit = ?",
        (row,),
    )
    pictures = connection.column(
        "SELECT i.hash FROM unit_images l JOIN images i ON i.row = l.image WHERE l.unit = ?", (row,)
    )
    return (
        {unit.name, *unit.aliases} <= {name, *json.loads(aliases)}
        and unit.kind == kind  # an export states it
        and unit.metadata.items() <= json.loads(metadata).items()
        and bool(match) <= unit.match  # one source that declares False is enough
        and set(source.texts) <= set(texts_of(connection, row))
        and {(r.relation, r.target, r.information, r.condition) for r in unit.relations}
        <= set(stated)
        and {content_hash(path.read_bytes()) for path in source.images} <= set(pictures)
    )


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause garbage collection while a graph is read: all of it is kept and it has no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _count_only_named(connection: Connection, own: Sequence[tuple[str, str]]) -> int:
    """Count the entities that no unit describes, among those that sources mention."""
    rows = {
        row
        for bounds in own
        for row in connection.column(
            "SELECT DISTINCT e.row FROM sources s JOIN relations r ON r.source = s.row "
            "JOIN entities e ON e.row = r.tail "
            "WHERE s.uri >= ? AND s.uri < ? AND e.unit IS NULL",
            bounds,
        )
    }
    return len(rows)


def read_graph(path: Path, parsing: Parsing) -> list[GraphPart]:
    """Read a graph in any format.

    Raises:
        NotFound: The path does not exist.
        BadInput: The format is unknown, the file is damaged, or it holds nothing.
        MissingExtra: It holds workbooks, and openpyxl is not installed.
    """
    try:
        path = path.resolve(strict=True)
        is_file = not path.is_dir() and regular_file(path, EXPECTED, most=_MAX_BYTES)
        form = path.suffix.lower() if is_file else "folder"
        if form not in GRAPH_READERS:
            raise BadInput(f"{path.name} has an unknown format: expected {EXPECTED}")
        parts: list[GraphPart] = load_reader(GRAPH_READERS[form])(path, parsing)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{path} is not there: expected {EXPECTED}") from error
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path} cannot be read ({reason}): expected {EXPECTED}") from error
    if not any(part.entities or part.relations or part.problems for part in parts):
        raise BadInput(f"{path} holds neither an entity nor a relation: expected some")
    return parts


def _stale_sources(
    connection: Connection,
    path: Path,
    own: Sequence[tuple[str, str]],
    entities: Iterable[EntityRecord],
) -> list[int]:
    """Return the rows of stored sources of a graph that it no longer contains."""
    kept = {entity.source.uri for entity in entities}
    return [
        row
        for bounds in own
        for row, uri in connection.execute(
            "SELECT row, uri FROM sources WHERE uri >= ? AND uri < ?", bounds
        )
        # A folder may hold files that are not workbooks.
        if uri not in kept
        and (path.is_file() or Path(uri.partition("#")[0]).name in (NODES, RELATIONS))
    ]


def _records(entity: EntityRecord, frames: Path) -> Iterator[Record | Quarantined]:
    """Yield the record of an entity, with frames of its videos if it has no pictures."""
    source = entity.source
    if entity.videos and not source.images:
        images, problems = write_keyframes(entity.videos, frames)
        for problem in problems:
            yield Quarantined(source.uri, problem)
        partial = problems or isinstance(source, PartialSource)
        source = (PartialSource if partial else Source)(source.uri, source.texts, images)
    yield Record(entity.unit, (source,))
