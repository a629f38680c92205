"""The vector index: a cache over the store's vectors, exact, and never trusted beyond it.

A written base (FAISS, half precision, mapped) and a tail in memory are searched together. The
`changes` table feeds the tail and masks what was dropped. Small collections have no base at all:
their vectors are read from the store, which takes milliseconds.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors
from ku_rag.store import vectors as stored
from ku_rag.store.database import Database
from ku_rag.store.layout import write_durably

Rows = NDArray[np.int64]

BASE_MIN = 4096
"""A tail of this many vectors is worth a base file."""
_GATHER_MOST = 1000
_BLOCK = 1 << 20

_log = logging.getLogger("ku_rag")


@dataclass(frozen=True, slots=True)
class _Header:
    """What a base file says of itself."""

    knowledge_base: str
    kind: stored.Kind
    encoder: int
    seq: int
    count: int
    file: str
    blocks: tuple[int, ...]


class VectorIndex:
    """Nearest neighbours among the vectors of one kind and encoder.

    Args:
        database: the truth.
        folder: where base files lie.
        kind: "chunk" or "image".
        encoder: row of the encoder in the store.
        dim: length of a vector.
    """

    def __init__(
        self, database: Database, folder: Path, kind: stored.Kind, encoder: int, dim: int
    ) -> None:
        self._database = database
        self._folder = folder
        self._kind: stored.Kind = kind
        self._encoder = encoder
        self._dim = dim
        self._seq = -1
        self._base: Any = None
        self._header: _Header | None = None
        self._dropped: set[int] = set()
        self._tail_rows: Rows = np.empty(0, np.int64)
        self._tail: Vectors = np.empty((0, dim), np.float32)

    def search(
        self, queries: Vectors, k: int, *, among: Rows | None = None
    ) -> tuple[Rows, Vectors]:
        """The k nearest rows of each query by cosine, best first.

        Args:
            queries: float32[n, dim], L2-normalised.
            k: most hits a query.
            among: only these rows. Up to 1,000 their vectors are gathered from the store; beyond,
                the index is searched under a selector.

        Returns:
            (rows int64[n, k], cosines float32[n, k]); missing hits are row -1, cosine -1.
        """
        if among is not None and len(among) <= _GATHER_MOST:
            held, gathered = self._gather(among)
            return _top([_nearest(queries, gathered, held, k)], k)
        self.refresh()
        rows, tail = self._tail_rows, self._tail
        if among is not None:
            inside = np.isin(rows, among)
            rows, tail = rows[inside], tail[inside]
        found = [_nearest(queries, tail, rows, k)]
        if self._base is not None:
            found.append(self._search_base(queries, k, among))
        return _top(found, k)

    def sample(self, most: int) -> tuple[Rows, Vectors]:
        """Up to `most` vectors, evenly spread over the rows: (int64[n], float32[n, dim])."""
        rows = self._database.connection.execute(
            "SELECT item FROM vectors WHERE kind = ? AND encoder = ? ORDER BY item",
            (self._kind, self._encoder),
        ).fetchall()
        chosen = np.array(rows[:: max(1, -(-len(rows) // most))], np.int64).reshape(-1)
        return self._gather(chosen)

    @property
    def count(self) -> int:
        """Number of vectors that a search sees."""
        self.refresh()
        based = self._header.count if self._header else 0
        return based - len(self._dropped) + len(self._tail_rows)

    def describe(self) -> dict[str, Any]:
        """Kind, size and state, for `stats`."""
        count = self.count
        return {
            "name": self._kind,
            "kind": "flat-fp16" if self._base is not None else "flat",
            "count": count,
            "tail": len(self._tail_rows),
            "tombstones": len(self._dropped),
        }

    # ---- following the store -------------------------------------------------------------------

    def refresh(self) -> None:
        """Catch up with every change that was committed since the last look."""
        seq = _last_seq(self._database)
        if seq == self._seq:
            return
        pruned = int(self._database.meta("changes_pruned") or 0)
        if self._seq < 0 or self._seq < pruned or seq < self._seq:
            self._open_base(seq, pruned)
        self._follow(seq)

    def _open_base(self, seq: int, pruned: int) -> None:
        self._base, self._header = None, None
        self._dropped = set()
        self._tail_rows = np.empty(0, np.int64)
        self._tail = np.empty((0, self._dim), np.float32)
        self._seq = -1
        header = self._read_header()
        if header is None:
            return
        if header.seq > seq:
            _log.warning(
                "%s knows change %d, the database only %d: %d commits were lost (an older copy of "
                "ku.sqlite?); the cache is left aside",
                header.file, header.seq, seq, header.seq - seq,
            )  # fmt: skip
            return
        if header.seq < pruned:
            return
        base = self._read_base(header)
        if base is not None:
            self._base, self._header, self._seq = base, header, header.seq

    def _follow(self, seq: int) -> None:
        connection = self._database.connection
        if self._seq < 0:
            parts = list(stored.scan(connection, self._kind, self._encoder, self._dim))
            if parts:
                self._tail_rows = np.concatenate([rows for rows, _ in parts])
                self._tail = np.concatenate([found for _, found in parts])
            self._seq = seq
            return
        changes = connection.execute(
            "SELECT item, op FROM changes WHERE seq > ? AND seq <= ? AND kind = ? AND encoder = ? "
            "ORDER BY seq",
            (self._seq, seq, self._kind, self._encoder),
        ).fetchall()
        last = dict(changes)
        gone = np.array([item for item, op in last.items() if op == "drop"], np.int64)
        come = np.array([item for item, op in last.items() if op == "put"], np.int64)
        if len(gone):
            kept = ~np.isin(self._tail_rows, gone)
            in_tail = set(self._tail_rows[~kept].tolist())
            self._tail_rows, self._tail = self._tail_rows[kept], self._tail[kept]
            put_here = {item for item, op in changes if op == "put"}
            self._dropped |= set(gone.tolist()) - in_tail - put_here
        if len(come):
            rows, found = self._gather(come)
            self._tail_rows = np.concatenate([self._tail_rows, rows])
            self._tail = np.concatenate([self._tail, found])
        self._seq = seq

    # ---- the base file -------------------------------------------------------------------------

    def worth_writing(self) -> bool:
        """Whether the tail or the tombstones have grown enough for a new base."""
        self.refresh()
        based = self._header.count if self._header else 0
        moved = len(self._tail_rows) + len(self._dropped)
        return moved >= max(BASE_MIN, based // 4)

    def write_base(self) -> None:
        """Write all vectors as a new base and forget the old; only the writer does this."""
        import faiss

        self.refresh()
        if self.count < BASE_MIN:
            self.remove_files()
            self._seq = -1
            return
        index = faiss.IndexIDMap2(
            faiss.IndexScalarQuantizer(
                self._dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
            )
        )
        seq = self._seq
        count = 0
        for rows, found in stored.scan(
            self._database.connection, self._kind, self._encoder, self._dim
        ):
            index.add_with_ids(found, rows)
            count += len(rows)
        data = faiss.serialize_index(index).tobytes()
        header = _Header(
            knowledge_base=self._database.meta("id"),
            kind=self._kind,
            encoder=self._encoder,
            seq=seq,
            count=count,
            file=f"{self._stem}-{seq}.faiss",
            blocks=_block_sums(data),
        )
        self._folder.mkdir(exist_ok=True)
        write_durably([(self._folder / header.file, data)])
        self._header_path.unlink(missing_ok=True)
        write_durably([(self._header_path, json.dumps(asdict(header)).encode())])
        self.remove_files(keep=header.file)
        self._seq = -1

    def remove_files(self, *, keep: str | None = None) -> None:
        """Delete base files, all but one."""
        if keep is None:
            self._header_path.unlink(missing_ok=True)
        for file in self._folder.glob(f"{self._stem}-*.faiss"):
            if file.name != keep:
                file.unlink()

    def problems(self) -> list[str]:
        """What is wrong with the base file, for `verify`."""
        header = self._read_header()
        if header is None:
            return []
        seq = _last_seq(self._database)
        if header.seq > seq:
            return [
                f"{header.file} is ahead of the database by {header.seq - seq} changes: commits "
                "were lost; restore ku.sqlite from a newer copy or ingest again, then run "
                "`ku compact`"
            ]
        return []

    @property
    def _stem(self) -> str:
        return f"{self._kind}-{self._encoder}"

    @property
    def _header_path(self) -> Path:
        return self._folder / f"{self._stem}.json"

    def _read_header(self) -> _Header | None:
        try:
            fields = json.loads(self._header_path.read_bytes())
            header = _Header(**{**fields, "blocks": tuple(fields["blocks"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError):
            _log.warning("%s cannot be read and is left aside", self._header_path)
            return None
        ours = (header.knowledge_base, header.kind, header.encoder) == (
            self._database.meta("id"), self._kind, self._encoder,
        )  # fmt: skip
        return header if ours else None

    def _read_base(self, header: _Header) -> Any:  # noqa: ANN401 - faiss has no types
        import faiss

        path = self._folder / header.file
        try:
            with path.open("rb") as file:
                sums = _block_sums_of_file(file.fileno())
            if sums != header.blocks:
                _log.warning("%s is damaged; its vectors are read from the database", path)
                return None
            return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (OSError, RuntimeError) as error:
            _log.warning("%s cannot be used (%s); reading from the database", path, error)
            return None

    def _search_base(self, queries: Vectors, k: int, among: Rows | None) -> tuple[Rows, Vectors]:
        import faiss

        dropped = np.fromiter(self._dropped, np.int64, len(self._dropped))
        params = None
        if among is not None or len(dropped):
            params = faiss.SearchParameters()
            if among is not None:
                params.sel = faiss.IDSelectorBatch(np.setdiff1d(among, dropped))
            else:
                masked = faiss.IDSelectorBatch(dropped)  # must outlive the search
                params.sel = faiss.IDSelectorNot(masked)
        _, rows = self._base.search(queries, min(k, self._base.ntotal), params=params)
        return self._exact(queries, rows)

    def _gather(self, rows: Rows) -> tuple[Rows, Vectors]:
        return stored.gather(
            self._database.connection, self._kind, self._encoder, rows.tolist(), self._dim
        )

    def _exact(self, queries: Vectors, rows: Rows) -> tuple[Rows, Vectors]:
        """Replace the cache's scores by those of the store's own vectors."""
        wanted = np.unique(rows[rows >= 0])
        held, found = self._gather(wanted)
        order = np.argsort(held)
        held, found = held[order], found[order]
        cosines = np.full(rows.shape, -1.0, np.float32)
        rows = np.where(np.isin(rows, held), rows, -1)
        places = np.searchsorted(held, np.where(rows >= 0, rows, held[0] if len(held) else 0))
        for query, row, place, out in zip(queries, rows, places, cosines, strict=True):
            hit = row >= 0
            out[hit] = found[place[hit]] @ query
        return rows, cosines


def _last_seq(database: Database) -> int:
    found = database.connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = 'changes'"
    ).fetchone()
    return int(found[0]) if found else 0


def _nearest(queries: Vectors, vectors: Vectors, rows: Rows, k: int) -> tuple[Rows, Vectors]:
    if not len(rows):
        return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    cosines = queries @ vectors.T
    if k < len(rows):
        best = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        return rows[best], np.take_along_axis(cosines, best, 1)
    return np.broadcast_to(rows, cosines.shape), cosines


def _top(found: list[tuple[Rows, Vectors]], k: int) -> tuple[Rows, Vectors]:
    """The best k of several hit lists, padded with row -1."""
    rows = np.concatenate([rows for rows, _ in found], axis=1)
    cosines = np.concatenate([cosines for _, cosines in found], axis=1)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    missing = ((0, 0), (0, max(0, k - rows.shape[1])))
    return (
        np.pad(np.take_along_axis(rows, order, 1), missing, constant_values=-1),
        np.pad(np.take_along_axis(cosines, order, 1), missing, constant_values=-1.0),
    )


def _block_sums(data: bytes) -> tuple[int, ...]:
    return tuple(zlib.crc32(data[i : i + _BLOCK]) for i in range(0, len(data), _BLOCK))


def _block_sums_of_file(handle: int) -> tuple[int, ...]:
    sums = []
    while block := os.read(handle, _BLOCK):
        sums.append(zlib.crc32(block))
    return tuple(sums)
