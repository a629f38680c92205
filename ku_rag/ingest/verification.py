"""Is a knowledge base what it should be? Everything that follows from something is made again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ku_rag.indexes import inverted
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.ingest import assembly
from ku_rag.store import integrity, unit_records
from ku_rag.store.database import Database, snapshot
from ku_rag.store.integrity import guarded
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import Kind


def verify(
    database: Database,
    layout: Layout,
    encoders: Mapping[Kind, int],
    indexes: Sequence[VectorIndex],
) -> dict[str, Any]:
    """Check every row, picture, list and cache; whatever is wrong, it ends with a report.

    Args:
        database: the store.
        layout: where the pictures are.
        encoders: rows of the encoders that every chunk and every image needs a vector of.
        indexes: the caches.

    Returns:
        "ok", "problems" (one sentence each) and "counts".
    """
    connection = database.connection
    problems = list(integrity.problems(database, layout, encoders))
    with snapshot(connection):
        problems += guarded("units", assembly.differences(connection))
        problems += guarded("the lists of units", inverted.differences(database))
    for index in indexes:
        problems += guarded("a cache", _of_cache(index))
    counts: dict[str, int] = {}
    problems += guarded("the tables", _count(database, counts))
    return {"ok": not problems, "problems": problems, "counts": counts}


def _of_cache(index: VectorIndex) -> Iterator[str]:
    yield from index.problems()


def _count(database: Database, counts: dict[str, int]) -> Iterator[str]:
    counts |= unit_records.counts(database.connection)
    yield from ()
