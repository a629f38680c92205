"""Vectors of a new encoder, stored beside those of the old one until the encoder is switched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ku_rag.store.connection import Connection
from ku_rag.store.vectors import places

_STATE = "s.hash || ':' || s.chunks"
_HALF = np.dtype("<f2")


@dataclass(frozen=True, slots=True)
class Shadow:
    """How the texts of a source are cut for another encoder, with their vectors.

    Args:
        cut: (number of the document, characters) of each chunk, in order.
        vectors: float32[len(cut), dim].
    """

    cut: tuple[tuple[int, int], ...]
    vectors: NDArray[np.float32]


def missing(connection: Connection, encoder: int, most: int) -> list[tuple[int, str]]:
    """Sources with texts that have no shadow, or one of what they were: (row, their state)."""
    found: list[tuple[int, str]] = connection.execute(
        f"SELECT s.row, {_STATE} FROM sources s "
        "LEFT JOIN shadows h ON h.encoder = ? AND h.source = s.row "
        f"WHERE s.chunks > 0 AND (h.state IS NULL OR h.state != {_STATE}) ORDER BY s.row LIMIT ?",
        (encoder, most),
    ).fetchall()
    return found


def images_missing(connection: Connection, encoder: int) -> list[tuple[int, str]]:
    """Images without a vector of this encoder: (row, file)."""
    found: list[tuple[int, str]] = connection.execute(
        "SELECT row, file FROM images WHERE row NOT IN "
        "(SELECT item FROM vectors WHERE row BETWEEN ? AND ?) ORDER BY row",
        places("image", encoder),
    ).fetchall()
    return found


def put(connection: Connection, encoder: int, source: int, state: str, shadow: Shadow) -> None:
    """Store a shadow if its source has not changed. Called inside a change."""
    still = connection.execute(
        f"SELECT 1 FROM sources s WHERE s.row = ? AND {_STATE} = ?", (source, state)
    ).fetchone()
    if not still:
        return
    cut = json.dumps(shadow.cut)
    blob = shadow.vectors.astype(_HALF).tobytes()
    connection.execute(
        "REPLACE INTO shadows VALUES (?, ?, ?, ?, ?)", (encoder, source, state, cut, blob)
    )


def get(connection: Connection, encoder: int, source: int, dim: int) -> Shadow:
    """The shadow of a source."""
    cut, blob = connection.execute(
        "SELECT cut, vectors FROM shadows WHERE encoder = ? AND source = ?",
        (encoder, source),
    ).fetchone()
    vectors = np.frombuffer(blob, _HALF).reshape(-1, dim).astype(np.float32)
    return Shadow(tuple((document, length) for document, length in json.loads(cut)), vectors)


def forget(connection: Connection, *, but: Sequence[int] = ()) -> None:
    """Delete the shadows, vectors and changes of other encoders. Called inside a change.

    Args:
        connection: the store.
        but: rows of the encoders whose rows stay.
    """
    kept = ", ".join(map(str, but)) or "NULL"
    for table in ("shadows", "vectors", "changes"):
        connection.execute(f"DELETE FROM {table} WHERE encoder NOT IN ({kept})")
    connection.execute(f"DELETE FROM encoders WHERE row NOT IN ({kept})")
