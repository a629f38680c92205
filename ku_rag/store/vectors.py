"""Vectors in the store, which all search indexes are derived from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from ku_rag.errors import BadInput
from ku_rag.store.connection import Connection, array_of

Kind = Literal["chunk", "image"]
KINDS: tuple[Kind, ...] = ("chunk", "image")
Vectors = NDArray[np.float32]

_HALF = np.dtype("<f2")
_ITEM_BITS = 40
_KIND_BIT = 62


def place(kind: Kind, encoder: int, item: int = 0) -> int:
    """The row of a vector; those of one kind and encoder follow each other."""
    return (kind == "chunk") << _KIND_BIT | encoder << _ITEM_BITS | item


def places(kind: Kind, encoder: int) -> tuple[int, int]:
    """The first and the last row that vectors of one kind and encoder may have."""
    first = place(kind, encoder)
    return first, first + (1 << _ITEM_BITS) - 1


def encoder_row(connection: Connection, fingerprint: str, dim: int) -> int:
    """The row of an encoder, made if it is new. Called inside a change."""
    connection.execute(
        "INSERT OR IGNORE INTO encoders (fingerprint, dim) VALUES (?, ?)", (fingerprint, dim)
    )
    (row,) = connection.execute(
        "SELECT row FROM encoders WHERE fingerprint = ?", (fingerprint,)
    ).fetchone()
    return int(row)


def put(
    connection: Connection,
    kind: Kind,
    encoder: int,
    items: Sequence[int],
    vectors: Sequence[Vectors],
) -> None:
    """Store vectors in half precision, one row an item, and record it for the indexes.

    Called inside a change. `encoder` is the row of what made the vectors, `items` are rows of
    chunks or images. `vectors` are arrays float32 or float16[n, dim] of len(items) vectors in all,
    in order.

    Raises:
        BadInput: they hold NaN, infinity, or numbers too large for half precision.
    """
    if not len(items):
        return
    with np.errstate(over="ignore"):
        array = np.concatenate(vectors, dtype=_HALF, casting="same_kind")
    # Of bits of float16, negative infinity and NaN are the largest unsigned integers, positive ones
    # the largest signed integers.
    if array.view(np.uint16).max() >= 0xFC00 or array.view(np.int16).max() >= 0x7C00:
        raise BadInput(
            "the encoder made vectors that hold no numbers (NaN or infinite): nothing was stored; "
            "its weights are damaged, or do not belong to it"
        )
    halves = array.view(np.uint8).reshape(-1).data
    size = 2 * array.shape[1]
    first = place(kind, encoder)
    connection.executemany(
        "INSERT INTO vectors (row, vector) VALUES (?, ?)",
        (
            (first + item, halves[at : at + size])
            for item, at in zip(items, range(0, len(halves), size), strict=True)
        ),
    )
    _record_change(connection, kind, encoder, "put", items)


def drop(connection: Connection, kind: Kind, items: Sequence[int]) -> None:
    """Delete the vectors of items for every encoder, and record it for the indexes."""
    if not items:
        return
    for encoder in connection.column("SELECT row FROM encoders"):
        dropped = connection.column(
            "DELETE FROM vectors WHERE row IN (SELECT ? + value FROM carray(?)) RETURNING item",
            (place(kind, encoder), array_of(items)),
        )
        if dropped:
            _record_change(connection, kind, encoder, "drop", dropped)


def _record_change(
    connection: Connection, kind: Kind, encoder: int, op: str, items: Sequence[int]
) -> None:
    """Record for the indexes what was put or dropped: one row for each run of item numbers."""
    rows = np.unique(np.asarray(items, np.int64))
    ends = np.flatnonzero(np.diff(rows) > 1)
    connection.executemany(
        "INSERT INTO changes (kind, encoder, op, first, last) VALUES (?, ?, ?, ?, ?)",
        (
            (kind, encoder, op, first, last)
            for first, last in zip(
                rows[[0, *(ends + 1)]].tolist(), rows[[*ends, -1]].tolist(), strict=True
            )
        ),
    )


class Change(NamedTuple):
    """A change: its number, whether vectors were put or dropped, and the rows of their items."""

    seq: int
    put: bool
    items: NDArray[np.int64]


def changes(
    connection: Connection, kind: Kind, encoder: int, after: int, until: int
) -> list[Change]:
    """Return the recorded changes with numbers above `after`, up to `until`, in order."""
    return [
        Change(seq, bool(put), np.arange(first, last + 1))
        for seq, put, first, last in connection.execute(
            "SELECT seq, op = 'put', first, last FROM changes "
            "WHERE seq > ? AND seq <= ? AND kind = ? AND encoder = ? ORDER BY seq",
            (after, until, kind, encoder),
        )
    ]


def gather(
    connection: Connection,
    kind: Kind,
    encoder: int,
    items: Sequence[int] | NDArray[np.int64],
    dim: int,
) -> tuple[NDArray[np.int64], Vectors]:
    """The vectors of some items, as far as they have one: rows int64[n] ascending, float32[n, dim].

    Raises:
        apsw.Error: a page of the file is damaged.
    """
    wanted = np.unique(np.asarray(items, np.int64))
    if not len(wanted):
        return wanted, np.empty((0, dim), np.float32)
    rows = connection.execute(
        "SELECT r.value, v.vector FROM carray(?) r CROSS JOIN vectors v ON v.row = ? + r.value",
        (apsw.carray(wanted), place(kind, encoder)),
    ).fetchall()
    halves = np.frombuffer(b"".join(blob for _, blob in rows), _HALF)
    numbers = np.fromiter((item for item, _ in rows), np.int64, len(rows))
    return numbers, halves.reshape(len(rows), dim).astype(np.float32)
