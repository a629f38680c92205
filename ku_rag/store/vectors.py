"""Vectors in the store: the truth that every cache is checked against."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ku_rag.errors import BadInput
from ku_rag.store.connection import Connection
from ku_rag.store.database import check
from ku_rag.store.sql import SLICE, as_json, batched, marks

Kind = Literal["chunk", "image"]
KINDS: tuple[Kind, ...] = ("chunk", "image")
Vectors = NDArray[np.float32]
Found = tuple[list[int], list[bytes]]

_NOTED = "INSERT INTO changes (kind, encoder, item, op) SELECT ?, ?, value, ? FROM json_each(?)"
_SELECT = (
    "SELECT v.item, v.vector, v.checksum FROM json_each(?) r CROSS JOIN vectors v WHERE v.row "
)
_FEW = 64
"""So many vectors are sooner read one by one than it is found out which follow each other."""
_HALF = np.dtype("<f2")
_ITEM_BITS = 40
_KIND_BIT = 62


def place(kind: Kind, encoder: int, item: int = 0) -> int:
    """The row of a vector; those of one kind and encoder follow each other."""
    return (kind == "chunk") << _KIND_BIT | encoder << _ITEM_BITS | item


def placed(row: int) -> tuple[Kind, int, int]:
    """What a vector's row says: kind, item, encoder."""
    kind: Kind = "chunk" if row >> _KIND_BIT else "image"
    encoder = row >> _ITEM_BITS & (1 << _KIND_BIT - _ITEM_BITS) - 1
    return kind, row & (1 << _ITEM_BITS) - 1, encoder


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
    vectors: Vectors,
) -> None:
    """Store float32[n, dim] as half precision, one row an item, and note it for the caches.

    Args:
        connection: inside a change.
        kind: of the items.
        encoder: row of what made the vectors.
        items: rows of chunks or images.
        vectors: float32[len(items), dim].

    Raises:
        BadInput: some of the numbers are none, or infinite.
    """
    if not np.isfinite(vectors).all():
        raise BadInput(
            "the encoder made vectors that hold no numbers (NaN or infinite): nothing was stored; "
            "its weights are damaged, or do not belong to it"
        )
    size = 2 * vectors.shape[1]
    for start in range(0, len(items), SLICE):
        some = items[start : start + SLICE]
        blob = vectors[start : start + SLICE].astype(_HALF).tobytes()
        sums = (
            (item, _checksum(kind, encoder, item, blob[at : at + size]))
            for item, at in zip(some, range(0, len(blob), size), strict=True)
        )
        connection.execute(
            "INSERT INTO vectors (row, vector, checksum) "
            "SELECT ? + json_extract(value, '$[0]'), substr(?, 1 + key * ?, ?), "
            "json_extract(value, '$[1]') FROM json_each(?)",
            (place(kind, encoder), blob, size, size, as_json(sums)),
        )
    connection.execute(_NOTED, (kind, encoder, "put", as_json(items)))


def drop(connection: Connection, kind: Kind, items: Sequence[int]) -> None:
    """Delete the vectors of items for every encoder, and note it for the caches."""
    for (encoder,) in connection.execute("SELECT row FROM encoders").fetchall():
        dropped: list[int] = []
        for some in batched(items):
            dropped += (
                item
                for (item,) in connection.execute(
                    f"DELETE FROM vectors WHERE row IN ({marks(some)}) RETURNING item",
                    [place(kind, encoder, item) for item in some],
                )
            )
        if dropped:
            connection.execute(_NOTED, (kind, encoder, "drop", as_json(dropped)))


def items_of(connection: Connection, kind: Kind, encoder: int, most: int = -1) -> NDArray[np.int64]:
    """The rows of chunks or images that have a vector: int64[n], ascending.

    Args:
        connection: to the store.
        kind: of the items.
        encoder: row of what made the vectors.
        most: no more than these; -1 for all.
    """
    found = connection.execute(
        "SELECT item FROM vectors WHERE row BETWEEN ? AND ? ORDER BY row LIMIT ?",
        (*places(kind, encoder), most),
    )
    return np.fromiter((item for (item,) in found), np.int64)


def gather(
    connection: Connection,
    kind: Kind,
    encoder: int,
    items: Sequence[int] | NDArray[np.int64],
    dim: int,
) -> tuple[NDArray[np.int64], Vectors]:
    """The vectors of some items, as far as they have one: rows int64[n] ascending, float32[n, dim].

    Items that follow each other, as those of one unit mostly do, are read in one go.

    Raises:
        Corrupt: a vector fails its checksum.
    """
    lone, runs = _runs(np.asarray(items, np.int64) + place(kind, encoder))
    rows: list[tuple[int, bytes, int]] = []
    if lone:
        rows += connection.execute(f"{_SELECT} = r.value", (str(lone),))
    if runs:
        ends = "json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')"
        rows += connection.execute(f"{_SELECT} BETWEEN {ends}", (str(runs),))
        if lone:
            rows.sort()
    return _stack(_checked(rows, kind, encoder), dim)


def _runs(wanted: NDArray[np.int64]) -> tuple[list[int], list[list[int]]]:
    """Numbers that stand alone, ascending; and first and last of those that follow each other."""
    if len(wanted) <= _FEW:
        return sorted(set(wanted.tolist())), []
    wanted.sort()
    starts = np.ones(len(wanted), np.bool_)
    np.greater(wanted[1:] - wanted[:-1], 1, out=starts[1:])
    ends = np.ones(len(wanted), np.bool_)
    ends[:-1] = starts[1:]
    alone = starts & ends
    runs = np.stack([wanted[starts > alone], wanted[ends > alone]], axis=1)
    return wanted[alone].tolist(), runs.tolist()


def _checked(rows: Iterable[tuple[int, bytes, int]], kind: Kind, encoder: int) -> Found:
    """Rows with their vectors, each tested; this loop is most of what a search costs."""
    items, blobs = [], []
    crc32, size = zlib.crc32, -1
    before = after = b""
    for item, blob, stored in rows:
        try:
            if len(blob) != size:
                size = len(blob)
                before, after = _framing(kind, encoder, size)
            digits = b"%d" % item
            framed = before + _LENGTHS[len(digits)] + digits + after
            sound = crc32(blob, crc32(framed)) == stored
        except TypeError:  # no number, no bytes: damaged
            sound = False
        if not sound:
            check(stored, kind, item, encoder, blob, what=f"the vector of {kind} {item}")
        items.append(item)
        blobs.append(blob)
    return items, blobs


def _checksum(kind: Kind, encoder: int, item: int, blob: bytes) -> int:
    """`checksum(kind, item, encoder, blob)`, some times faster."""
    before, after = _framing(kind, encoder, len(blob))
    digits = b"%d" % item
    return zlib.crc32(blob, zlib.crc32(before + _LENGTHS[len(digits)] + digits + after))


@lru_cache(maxsize=64)
def _framing(kind: Kind, encoder: int, length: int) -> tuple[bytes, bytes]:
    """What stands before and behind the number of an item in what is summed up."""
    named, made = kind.encode(), str(encoder).encode()
    return _length(len(named)) + named, _length(len(made)) + made + _length(length)


def _length(number: int) -> bytes:
    return number.to_bytes(8, "little")


_LENGTHS = tuple(map(_length, range(24)))


def _stack(found: Found, dim: int) -> tuple[NDArray[np.int64], Vectors]:
    items, blobs = found
    halves = np.frombuffer(b"".join(blobs), _HALF)
    return np.array(items, np.int64), halves.reshape(len(items), dim).astype(np.float32)
