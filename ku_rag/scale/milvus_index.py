"""A vector index whose candidates come from Milvus. SQLite remains the source of truth.

A collection contains the vectors of one kind up to a watermark, the number of the last change that
`sync` sent. Vectors stored since then are searched locally, and all scores are computed from the
stored vectors, so a search finds the same rows as an exact local index. A collection that does not
match the knowledge base is not used.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag.addresses import Address
from ku_rag.encoders.base import Vectors
from ku_rag.errors import IndexUnavailable, Locked
from ku_rag.indexes.segment import Rows, contains
from ku_rag.indexes.vector_index import TryLock, VectorIndex, nearest, top
from ku_rag.scale.milvus_collection import MOST_HITS, CollectionState, MilvusCollection
from ku_rag.store import vectors as stored
from ku_rag.store.connection import last_row, snapshot
from ku_rag.store.database import Database
from ku_rag.store.lock import WriterLock
from ku_rag.types import IndexSync, Progress

BATCH = 65_536
"""Rows that are sent before the watermark moves, and vectors held in memory at once."""
_GROWTH = 8
"""Factor by which the number of candidates grows while too few of them can be hits."""
_SPARE = 2
"""Candidates of a restricted search, as a multiple of those that contain k hits on average."""
_PAUSE_S = 30.0
"""Time after a failure in which only the local index is searched, seconds."""

_log = logging.getLogger("ku_rag")


class MilvusIndex(VectorIndex):
    """Nearest neighbours among the vectors of one kind and encoder, by Milvus.

    Args:
        database, folder, kind, encoder, dim, try_lock: See `VectorIndex`.
        address: Of the Milvus server.
        strict: Raise an error if the collection cannot be used, instead of searching locally.
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
        address: Address,
        strict: bool,
    ) -> None:
        super().__init__(database, folder, kind, encoder, dim, try_lock=try_lock)
        base = database.meta("id")
        self._collection = MilvusCollection(address, f"ku_{base}_{kind}", dim)
        (fingerprint,) = database.connection.execute(
            "SELECT fingerprint FROM encoders WHERE row = ?", (encoder,)
        ).fetchone()
        self._identity = (base, fingerprint)
        self._folder = folder
        self._runs_key = f"milvus:{kind}"
        self._strict = strict
        self._sync_lock = WriterLock(folder / f"milvus-{kind}.lock", wait_s=0)
        self._state: CollectionState | None = None
        self._retry_at = 0.0

    def search(
        self,
        queries: Vectors,
        k: int,
        *,
        among: Rows | None = None,
        most_probes: int | None = None,
    ) -> tuple[Rows, Vectors]:
        """See `VectorIndex.search`.

        Up to `BATCH` vectors of the rows `among` are read from the store. For more, Milvus proposes
        enough of all rows that k of them are expected to be `among` these. `most_probes` limits the
        search of the index on this machine alone.

        Raises:
            IndexUnavailable: The collection cannot be used, and the index is strict.
        """
        limit, is_small = k, False
        if among is not None:
            among = np.unique(among)
            last = last_row(self._database.connection, f"{self.kind}s")
            limit = max(k, _SPARE * k * last // max(1, len(among)))
            is_small = len(among) <= max(BATCH, len(queries) * limit)
        if limit > MOST_HITS or is_small:
            return self._scan(queries, k, self.rows() if among is None else among)
        if time.monotonic() >= self._retry_at:
            try:
                with snapshot(self._database.connection):
                    return self._search(queries, k, limit, among)
            except IndexUnavailable as error:
                self._state = None
                if self._strict:
                    raise
                self._retry_at = time.monotonic() + _PAUSE_S
                _log.warning("%s; the local index is searched", error)
        return super().search(queries, k, among=among, most_probes=most_probes)

    def _search(
        self, queries: Vectors, k: int, limit: int, among: Rows | None
    ) -> tuple[Rows, Vectors]:
        """Search the collection, and locally the vectors stored since its watermark."""
        before = self._state
        if before is None or self._misfit(before):
            before = self._usable()
        stored_since = self._changed_rows(before.seq, puts=True)
        hits = self._candidates(queries, k, limit, stored_since, among)
        # Another process may have recreated it meanwhile; the search then found too few rows.
        self._state = self._usable()
        if self._state.made != before.made:
            return self._search(queries, k, limit, among)
        if among is not None:
            stored_since = np.intersect1d(stored_since, among)
        return top([hits, self._scan(queries, k, stored_since)], k)

    def _candidates(
        self, queries: Vectors, k: int, limit: int, without: Rows, among: Rows | None
    ) -> tuple[Rows, Vectors]:
        """Return the k nearest stored rows of the collection, scored by their stored vectors."""
        while True:
            proposed = self._collection.search(queries, limit)
            ignored = np.isin(proposed, without)
            if among is not None:
                ignored |= ~contains(among, proposed.ravel()).reshape(proposed.shape)
            hits = self.score(queries, np.where(ignored, -1, proposed))
            complete = (hits[0] >= 0).sum(axis=1).min(initial=k) >= k
            if complete:
                return hits
            if proposed.shape[1] < limit or (among is not None and limit == MOST_HITS):
                # There are fewer than k rows, or the rows `among` are far from the query.
                rows = self.rows() if among is None else among
                return self._scan(queries, k, np.setdiff1d(rows, without))
            if limit == MOST_HITS:
                raise IndexUnavailable(
                    f"{self._collection} proposes too many rows that were deleted or replaced "
                    "since: run `ku index sync`"
                )
            limit = min(MOST_HITS, limit * _GROWTH)

    def _scan(self, queries: Vectors, k: int, rows: Rows) -> tuple[Rows, Vectors]:
        """Return the k nearest of some rows by their stored vectors, read in batches."""
        best = np.full((len(queries), 0), -1), np.empty((len(queries), 0), np.float32)
        for at in range(0, len(rows), BATCH):
            present, vectors = self.gather(rows[at : at + BATCH])
            best = top([best, nearest(queries, vectors, present, k)], k)
        return top([best], k)

    def _changed_rows(self, after: int, *, puts: bool = False) -> Rows:
        """Return the rows put or dropped after a change, or only those put: int64[n], unique."""
        connection = self._database.connection
        last = last_row(connection, "changes")
        runs = stored.changes(connection, self.kind, self._encoder, after, last)
        items = [run.items for run in runs if run.put or not puts]
        return np.unique(np.concatenate([np.empty(0, np.int64), *items]))

    def _usable(self) -> CollectionState:
        """Return the state of the collection; raise `IndexUnavailable` if it cannot answer."""
        state = self._collection.state()
        why = self._misfit(state)
        if state is None or why or state.uploaded is not None:
            why = why or "has not received all vectors yet"
            raise IndexUnavailable(f"{self._collection} {why}: run `ku index sync`")
        return state

    def _misfit(self, state: CollectionState | None) -> str:
        """Return why a collection cannot be brought up to date by changes alone; "" if it can."""
        if state is None:
            return "does not exist, or was not completely created"
        if state.knowledge_base != self._identity[0]:
            return f"belongs to another knowledge base, {state.knowledge_base}"
        if state.encoder != self._identity[1]:
            return f"holds vectors of the encoder {state.encoder}, not of {self._identity[1]}"
        if not self._knows(state.run):
            return (
                "is ahead of this knowledge base, which was restored from an older copy, or was "
                "synced from another copy of it"
            )
        if state.seq < int(self._database.meta("changes_pruned") or 0):
            return "lacks changes that `ku compact` has removed from the log"
        return ""

    def _knows(self, run: str) -> bool:
        """Return whether a sync is one of the base's last two, now or in the state being read."""
        if run in (self._database.meta(self._runs_key) or ()):
            return True
        with closing(self._database.connect()) as newest:
            rows = newest.execute("SELECT value FROM meta WHERE key = ?", (self._runs_key,))
            return any(run in json.loads(value) for (value,) in rows)

    def sync(self, *, rebuild: bool = False, progress: Progress | None = None) -> IndexSync:
        """Bring the collection up to date; continue a call that was interrupted.

        `rebuild` creates it anew. `progress` is called with the number of rows sent so far.

        Raises:
            IndexUnavailable: The server cannot be reached, or reports an error.
            Locked: Another call is syncing, or another process is writing to the base.
        """
        started, upserted, deleted, created = time.monotonic(), 0, 0, False
        self._folder.mkdir(exist_ok=True)
        with self._sync_lock.try_acquire() as acquired:
            if not acquired:
                raise Locked(f"{self._collection} is being synced: wait for that sync")
            current = self._collection.state()
            for rows, state in self._batches(None if rebuild else current):
                created = current is None or state.made != current.made
                sent = self._send(rows)
                self._collection.set_state(state)
                upserted, deleted = upserted + sent, deleted + len(rows) - sent
                if progress:
                    progress(upserted + deleted)
        self._state, self._retry_at = None, 0.0
        seconds = round(time.monotonic() - started, 3)
        return IndexSync(self.kind, upserted, deleted, created, seconds)

    def _batches(self, state: CollectionState | None) -> Iterator[tuple[Rows, CollectionState]]:
        """Yield batches of rows to send, each with the state that the collection has afterwards.

        `state` is the current one; the collection is created if it is None or does not fit.
        """
        run = uuid.uuid4().hex
        with self._database.writing(), self._database.change() as connection:
            last = last_row(connection, "changes")
            if state is None or self._misfit(state):
                begin, names = self._collection.create, [run]
                state = CollectionState(*self._identity, uuid.uuid4().hex, run, last, 0)
            elif state.uploaded is None and state.seq == last:
                return
            else:
                begin, names = self._collection.set_state, [run, state.run]
                state = replace(state, run=run)
            self._database.set_meta(self._runs_key, names)
            # Read here: `ku compact` may remove them from the log at any time.
            changes = stored.changes(connection, self.kind, self._encoder, state.seq, last)
        begin(state)
        while state.uploaded is not None:
            first = stored.place(self.kind, self._encoder, state.uploaded + 1)
            cursor = connection.execute(
                "SELECT item FROM vectors WHERE row BETWEEN ? AND ? ORDER BY row LIMIT ?",
                (first, stored.places(self.kind, self._encoder)[1], BATCH),
            )
            rows = np.fromiter((item for (item,) in cursor), np.int64)
            state = replace(state, uploaded=int(rows[-1]) if len(rows) == BATCH else None)
            yield rows, state
        items, size = [np.empty(0, np.int64)], 0
        for change in changes:
            items.append(change.items)
            size += len(change.items)
            if size >= BATCH:
                state = replace(state, seq=change.seq)
                yield np.unique(np.concatenate(items)), state
                items, size = items[:1], 0
        if state.seq < last:
            yield np.unique(np.concatenate(items)), replace(state, seq=last)

    def _send(self, rows: Rows) -> int:
        """Upsert the rows that have a vector, delete the others; return how many have one."""
        upserted = 0
        for at in range(0, len(rows), BATCH):
            part = rows[at : at + BATCH]
            present, vectors = self.gather(part)
            self._collection.upsert(present, vectors)
            self._collection.delete(np.setdiff1d(part, present))
            upserted += len(present)
        if len(rows):
            self._collection.flush()
        return upserted

    def refresh(self) -> None:
        """Do nothing: the local index is built only when it is needed."""

    def compact(self) -> None:
        """Bring the collection up to date before changes are pruned; delete local files."""
        try:
            self.sync()
        except IndexUnavailable as error:
            if self._strict:
                raise
            _log.warning("%s; it keeps deleted rows until `ku index sync`", error)
        self.remove_files()

    @property
    def count(self) -> int:
        """Number of chunks or images of the base."""
        statement = f"SELECT count(*) FROM {self.kind}s"
        return int(self._database.connection.execute(statement).fetchone()[0])

    def describe(self) -> dict[str, Any]:
        """See `VectorIndex.describe`; "problem" is why the collection cannot be used, or None."""
        count, problem = self.count, None
        try:
            tail = len(self._changed_rows(self._usable().seq, puts=True))
        except IndexUnavailable as error:
            tail, problem = count, str(error)
        fields = {"name": self.kind, "kind": "milvus", "recall": 1.0, "count": count}
        return {**fields, "segments": [], "tail": tail, "tombstones": 0, "problem": problem}

    def problems(self) -> Iterator[str]:
        """Compare the row numbers of the collection with those of the store, for `verify`."""
        yield from super().problems()
        with snapshot(self._database.connection):
            last = last_row(self._database.connection, f"{self.kind}s")
            spans = [(at, at + MOST_HITS - 1) for at in range(0, last + 1, MOST_HITS)]
            spans = [(-(2**62), -1), *spans, (spans[-1][1] + 1, 2**62)]
            try:
                changed, expected = self._changed_rows(self._usable().seq), self.rows()
                remote = np.concatenate([self._collection.rows(*span) for span in spans])
            except IndexUnavailable as error:
                yield str(error)
                return
        missing = np.setdiff1d(np.setdiff1d(expected, remote), changed)
        excess = np.setdiff1d(remote, expected), "holds", " that the knowledge base does not have"
        for rows, verb, where in (excess, (missing, "lacks", "")):
            if len(rows):
                yield (
                    f"{self._collection} {verb} {len(rows):,} rows{where}, such as {self.kind} "
                    f"{rows[0]}: run `ku index sync`, with --rebuild if it does not help"
                )
