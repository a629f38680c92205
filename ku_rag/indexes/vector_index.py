"""The vector index: a cache over the vectors in the store.

Immutable segments and a tail in memory are searched together; their candidates are scored with the
stored vectors. The `changes` table feeds the tail and masks deleted rows. A new segment absorbs
older ones that are not much larger, so there are always few of them. Small collections have no
segment: their vectors are read from the store, which takes milliseconds.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag.encoders.base import Vectors
from ku_rag.errors import ReadOnly, Refused
from ku_rag.indexes.index_kinds import KindName
from ku_rag.indexes.segment import Rows, Segment, contains
from ku_rag.indexes.segment_builder import FLAT_MAX, RECALL, build_segment
from ku_rag.indexes.segment_files import Header, IndexFiles
from ku_rag.store import vectors as stored
from ku_rag.store.connection import last_row
from ku_rag.store.database import Database
from ku_rag.types import IndexSync, Progress

BASE_MIN = 4096
"""A tail of this many vectors becomes a segment."""
_GATHER_MOST = 1000
_ABSORBED = 2
"""A new segment absorbs older ones that are at most this many times as large."""
_WORN = 0.25
"""A segment is rebuilt when this share of its rows is deleted."""
_OUTGROWN = 4
"""A tuned kind is used until the number of vectors has grown by this factor."""
_ATTEMPTS = 5

_log = logging.getLogger("ku_rag")

TryLock = Callable[[], AbstractContextManager[bool]]
"""Tries to acquire the writer lock without waiting; the context value is whether it did."""


class VectorIndex:
    """Nearest neighbours among the vectors of one kind and encoder.

    Args:
        kind: "chunk" or "image".
        encoder: row of the encoder in the store.
        try_lock: a reader that had to rebuild segments writes them if this acquires the lock.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        kind: stored.Kind,
        encoder: int,
        dim: int,
        *,
        try_lock: TryLock = lambda: nullcontext(False),
    ) -> None:
        self._database = database
        self.kind: stored.Kind = kind
        self.dim = dim
        self._encoder = encoder
        self._try_lock = try_lock
        self._lock = threading.RLock()  # of everything below
        self._files = IndexFiles(folder, f"{kind}-{encoder}")
        self._no_tail = np.empty(0, np.int64), np.empty((0, dim), np.float32)
        self._reset()

    def search(
        self,
        queries: Vectors,
        k: int,
        *,
        among: Rows | None = None,
        most_probes: int | None = None,
    ) -> tuple[Rows, Vectors]:
        """Return the k nearest rows of each query by cosine, best first.

        Args:
            queries: float32[n, dim], L2-normalised.
            k: maximum number of hits per query.
            among: only these rows. The vectors of up to 1,000 rows are read from the store; for
                more, the index is searched with a mask.
            most_probes: limit of the IVF lists that are scanned for a query, where a low recall is
                enough.

        Returns:
            (rows int64[n, k], cosines float32[n, k]); missing hits are row -1, cosine -1.
        """
        if among is not None and len(among) <= _GATHER_MOST:
            rows, vectors = self.gather(among)
            return top([nearest(queries, vectors, rows, k)], k)
        with self._lock:
            self._catch_up()
            rows, newest = self._tail
            if among is not None and len(rows):
                inside = contains(among, rows)
                rows, newest = rows[inside], newest[inside]
            exact = [nearest(queries, newest, rows, k)] if len(rows) else []
            proposed: list[Rows] = []
            for segment in self._segments:
                rows, cosines = segment.search(queries, k, among, most_probes)
                if segment.plan.kind == "flat":
                    exact.append((rows, cosines))
                else:
                    proposed.append(rows)
            if not self._segments:
                return top(exact, k, len(queries))  # its vectors were read from the store
            if exact:
                proposed.append(top(exact, k)[0])
            rows = proposed[0] if len(proposed) == 1 else np.concatenate(proposed, axis=1)
            return top([self.score(queries, rows)], k)

    def gather(self, rows: Rows) -> tuple[Rows, Vectors]:
        """Return rows int64[n], ascending, and float32[n, dim]; `Corrupt` if one is damaged."""
        return stored.gather(self._database.connection, self.kind, self._encoder, rows, self.dim)

    def score(self, queries: Vectors, rows: Rows) -> tuple[Rows, Vectors]:
        """Score rows int64[n, m] with the stored vectors; deleted rows become -1."""
        stored_rows, vectors = self.gather(rows[rows >= 0])
        if not len(stored_rows):
            return np.full(rows.shape, -1), np.full(rows.shape, -1.0, np.float32)
        if len(queries) == 1:
            return stored_rows[None], queries @ vectors.T
        places = np.minimum(np.searchsorted(stored_rows, rows), len(stored_rows) - 1)
        is_stored = stored_rows[places] == rows
        cosines = np.take_along_axis(queries @ vectors.T, places, 1)
        return np.where(is_stored, rows, -1), np.where(is_stored, cosines, np.float32(-1.0))

    def rows(self) -> Rows:
        """Return all rows that have a stored vector: int64[n], ascending."""
        items = self._database.connection.execute(
            "SELECT item FROM vectors WHERE row BETWEEN ? AND ? ORDER BY row",
            stored.places(self.kind, self._encoder),
        )
        return np.fromiter((item for (item,) in items), np.int64)

    @property
    def count(self) -> int:
        """Number of vectors that a search sees."""
        with self._lock:
            self._catch_up()
            return sum(segment.count for segment in self._segments) + len(self._tail[0])

    def describe(self) -> dict[str, Any]:
        """Return kind, size, measured recall and state, for `stats`."""
        with self._lock:
            count = self.count
            largest = max(self._segments, key=lambda segment: segment.count, default=None)
            return {
                "name": self.kind,
                "kind": largest.plan.kind if largest else "flat",
                "recall": min((segment.plan.recall for segment in self._segments), default=1.0),
                "count": count,
                "segments": [
                    {"kind": segment.plan.kind, "count": segment.count}
                    for segment in self._segments
                ],
                "tail": len(self._tail[0]),
                "tombstones": sum(len(segment.dropped) for segment in self._segments),
            }

    # ---- following the store -------------------------------------------------------------------

    def _reset(self) -> None:
        """Reset the state; the next refresh opens the files."""
        self._seq = -1
        self._header: Header | None = None
        self._segments: list[Segment] = []
        self._tail = self._no_tail
        self._pending: Rows = np.empty(0, np.int64)
        self._doubtful = False

    def refresh(self) -> None:
        """Catch up with every change, so that the next search need not."""
        self._catch_up()

    def sync(self, *, rebuild: bool = False, progress: Progress | None = None) -> IndexSync:
        """Raise `Refused`: the index is on this machine; see `KnowledgeBase.sync_index`."""
        raise Refused(
            'index_engine is "local", which needs no sync: to search with Milvus, set '
            'index_engine = "milvus", and index_uri to the address of the server'
        )

    def _catch_up(self) -> None:
        """Apply every change since the last call: to the tail, or to segments if there are many."""
        with self._lock:
            if not self._follow():
                return
            if not self._doubtful and len(self._tail[0]) + len(self._pending) < BASE_MIN:
                if len(self._pending):
                    rows, vectors = self.gather(self._pending)
                    vectors = np.concatenate([self._tail[1], vectors])
                    self._tail = np.concatenate([self._tail[0], rows]), vectors
                    self._pending = np.empty(0, np.int64)
                return
            with self._try_lock() as may_write:
                header = self._files.read_header(*self._base()) if may_write else None
                may_write = may_write and (header is None or header.seq <= self._seq)
                self._merge(unwritten_only=not may_write)
                if may_write:
                    self._write()
            self._doubtful = False

    def _follow(self) -> bool:
        """Mask deleted rows and collect new ones; return whether there may be any."""
        seq = last_row(self._database.connection, "changes")
        if seq == self._seq:
            return len(self._pending) > 0
        pruned = int(self._database.meta("changes_pruned") or 0)
        if self._seq < 0 or self._seq < pruned or seq < self._seq:
            seq = self._open(seq, pruned)
        if self._seq < 0:
            self._pending = self.rows()
        elif self._seq < seq:
            self._read_changes(seq)
        self._seq = seq
        return True

    def _read_changes(self, seq: int) -> None:
        connection = self._database.connection
        runs = stored.changes(connection, self.kind, self._encoder, self._seq, seq)
        if not runs:
            return
        runs.reverse()  # the newest change of an item counts
        items, newest = np.unique(np.concatenate([run.items for run in runs]), return_index=True)
        put = np.concatenate([np.full(len(run.items), run.put) for run in runs])[newest]
        deleted = items[~put]
        for segment in self._segments:
            segment.drop(deleted)
        rows, vectors = self._tail
        kept = ~np.isin(rows, items)
        self._tail = rows[kept], vectors[kept]
        self._pending = np.union1d(np.setdiff1d(self._pending, deleted), items[put])

    def _open(self, seq: int, pruned: int) -> int:
        """Load the files if they are valid and not older than the pruned changes.

        Returns the last change of the database, which may be later than `seq` by now.
        """
        self._reset()
        for _ in range(_ATTEMPTS):
            header = self._files.read_header(*self._base())
            if header is None:
                self._doubtful = self._files.header_path.exists()
                return seq
            if header.seq < pruned:
                return seq
            seq = max(seq, last_row(self._database.connection, "changes"))
            if header.seq > seq:  # inside a snapshot, or commits were lost, which `verify` reports
                return seq
            try:
                segments = [self._files.read_segment(entry) for entry in header.segments]
            except FileNotFoundError:
                continue  # the writer has replaced the header meanwhile
            except (OSError, ValueError, RuntimeError) as error:
                _log.warning("the index of the %ss is rebuilt (%s)", self.kind, error)
                self._doubtful = True
                return seq
            self._header, self._seq, self._segments = header, header.seq, segments
            dropped = np.array(header.dropped, np.int64)
            for segment in segments:
                segment.drop(dropped)
            return seq
        return seq

    def _base(self) -> tuple[str, int]:
        """Return the id of the knowledge base, and how many commits it has lost."""
        return self._database.meta("id"), int(self._database.meta("lost") or 0)

    # ---- the files -----------------------------------------------------------------------------

    def compact(self) -> None:
        """Rewrite the files as one segment, or none if there are few rows; only for the writer."""
        with self._lock:
            rows = self.rows()
            if len(rows) < BASE_MIN:
                self.remove_files()
            else:
                self.replace(self._build(rows))

    def replace(self, segment: Segment) -> None:
        """Replace all segments and the tail by one segment of all rows; only for the writer."""
        with self._lock:
            self._reset()
            self._seq = last_row(self._database.connection, "changes")
            self._segments = [segment]
            self._write()

    def remove_files(self) -> None:
        """Delete the files; the next refresh rebuilds them."""
        with self._lock:
            self._files.sweep(None)
            self._reset()

    def problems(self) -> Iterator[str]:
        """Yield contradictions between the files and the store, for `verify`."""
        header = self._files.read_header(*self._base())
        ahead = 0 if header is None else header.seq - last_row(self._database.connection, "changes")
        if ahead > 0:
            yield (
                f"{self._files.header_path.name} is ahead of the database by {ahead} changes: "
                "commits were lost; restore ku.sqlite from a newer copy or ingest again, then run "
                "`ku compact`"
            )
        for entry in header.segments if header else ():
            try:
                self._files.read_segment(entry, verify=True)
            except (OSError, ValueError, RuntimeError) as error:
                yield f"an index file cannot be used ({error}): `ku compact` rebuilds it"

    def _merge(self, *, unwritten_only: bool = False) -> None:
        """Merge the tail, the new rows, and older segments that are small or worn into one segment.

        With `unwritten_only`, older segments that have files are kept.
        """
        parts = [self._pending, self._tail[0]]
        size = len(self._pending) + len(self._tail[0])
        worn = [n for n, s in enumerate(self._segments) if len(s.dropped) > _WORN * len(s.rows)]
        first = len(self._segments)
        while first and not (unwritten_only and self._segments[first - 1].file):
            last = self._segments[first - 1]
            if last.count > _ABSORBED * size and not any(n < first for n in worn):
                break
            parts.append(last.rows[last.holds(last.rows)])
            size += last.count
            first -= 1
        rows = np.unique(np.concatenate(parts))
        if len(rows):
            self._segments[first:] = [self._build(rows)]
        else:
            del self._segments[first:]
        self._tail = self._no_tail
        self._pending = np.empty(0, np.int64)

    def _build(self, rows: Rows) -> Segment:
        """Build a segment of the kind that `tune` chose, unless the base has outgrown it."""
        choice = (self._database.meta("index") or {}).get(self.kind) or {}
        tuned = len(rows) <= _OUTGROWN * choice.get("count", 0)
        kind: KindName = "flat" if len(rows) <= FLAT_MAX else "rabitq"
        kind = choice["kind"] if tuned else kind
        recall = choice.get("recall", RECALL)
        return build_segment(self.gather, rows, self.dim, kind=kind, recall=recall, chosen=tuned)

    def _write(self) -> None:
        try:
            self._header = self._files.write(*self._base(), self._seq, self._segments, self._header)
        except (OSError, ReadOnly, RuntimeError) as error:
            _log.warning(
                "the index of the %ss could not be written (%s): nothing is lost, searches rebuild "
                "it from the database",
                self.kind,
                error,
            )
            self._reset()


def nearest(queries: Vectors, vectors: Vectors, rows: Rows, k: int) -> tuple[Rows, Vectors]:
    """Return the k nearest rows of each query, unordered: (int64[n, m], float32[n, m])."""
    if not len(rows):
        return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    cosines = queries @ vectors.T
    if k < len(rows):
        best = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        return rows[best], np.take_along_axis(cosines, best, 1)
    return np.broadcast_to(rows, cosines.shape), cosines


def top(hits: list[tuple[Rows, Vectors]], k: int, queries: int = 1) -> tuple[Rows, Vectors]:
    """Return the best k of several hit lists, padded with row -1."""
    if not hits:
        return np.full((queries, k), -1), np.full((queries, k), -1.0, np.float32)
    rows, cosines = hits[0]
    if len(hits) > 1:
        rows = np.concatenate([rows for rows, _ in hits], axis=1)
        cosines = np.concatenate([cosines for _, cosines in hits], axis=1)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    lines = np.arange(len(order))[:, None]
    rows, cosines = rows[lines, order], cosines[lines, order]
    if rows.shape[1] == k:
        return rows, cosines
    missing = ((0, 0), (0, k - rows.shape[1]))
    return (
        np.pad(rows, missing, constant_values=-1),
        np.pad(cosines, missing, constant_values=-1.0),
    )
