"""Small pieces of SQL that every table needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_MOST_PARAMETERS = 500


def marks(values: Sequence[object]) -> str:
    """As many question marks as there are values, for `IN (…)`."""
    return ",".join("?" * len(values))


def batched(items: Sequence[int], size: int = _MOST_PARAMETERS) -> Iterator[Sequence[int]]:
    """Slices that are short enough for one statement."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
