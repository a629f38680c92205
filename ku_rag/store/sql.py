"""Small pieces of SQL that every table needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apsw
import numpy as np
import orjson

from ku_rag.store.connection import Connection

_MOST_PARAMETERS = 500

SLICE = 2048
"""So many rows go into one statement."""


def marks(values: Sequence[object]) -> str:
    """As many question marks as there are values, for `IN (…)`."""
    return ",".join("?" * len(values))


def batched(items: Sequence[int], size: int = _MOST_PARAMETERS) -> Iterator[Sequence[int]]:
    """Slices that are short enough for one statement."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def as_json(rows: Iterable[object]) -> str:
    """Rows for `json_each(?)`: one statement then takes them all in, without Python in between."""
    return orjson.dumps(list(rows)).decode()


def fields(count: int) -> str:
    """The fields of a row of `json_each`, each row being a list of so many."""
    return ", ".join(f"json_extract(value, '$[{n}]')" for n in range(count))


def next_row(connection: Connection, table: str) -> int:
    """The number that the next row of a table gets; numbers are never used twice."""
    found = connection.execute(
        "SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)
    ).fetchone()
    return int(found[0]) + 1 if found else 1


def array_of(rows: Sequence[int]) -> apsw.CArrayBinding:
    """Row numbers as a parameter for `carray(?)`; there must be at least one."""
    return apsw.carray(np.asarray(rows, np.int64))
