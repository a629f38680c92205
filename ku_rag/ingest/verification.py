"""Verification: pages are read, and everything derived is derived again and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ku_rag.indexes import inverted
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.ingest import assembly
from ku_rag.store import integrity, unit_records
from ku_rag.store.database import Database, snapshot
from ku_rag.store.integrity import guarded
from ku_rag.store.layout import Layout
from ku_rag.store.vectors import Kind


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """What was found: one sentence for each problem, and the number of rows of each kind."""

    problems: tuple[str, ...]
    counts: Mapping[str, int]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku verify --json` prints."""
        problems, counts = list(self.problems), dict(self.counts)
        return {"ok": self.ok, "problems": problems, "counts": counts}


def verify(
    database: Database,
    layout: Layout,
    encoders: Mapping[Kind, int],
    indexes: Sequence[VectorIndex],
) -> IntegrityReport:
    """Check every row, picture, list and index file; no damage stops the check.

    Args:
        database: the store.
        layout: where the pictures are.
        encoders: rows of the encoders that every chunk and every image needs a vector of.
        indexes: of the vectors.
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
    return IntegrityReport(tuple(problems), counts)


def _of_cache(index: VectorIndex) -> Iterator[str]:
    yield from index.problems()


def _count(database: Database, counts: dict[str, int]) -> Iterator[str]:
    counts |= unit_records.counts(database.connection)
    yield from ()
