"""Reading order of lines on a page: columns, and rows within them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from ku_rag.ingest.readers.pdf_page import Box

_GRID = 100
"""Places across a page where a gap between two columns is looked for."""
_CROSSING = 0.5
"""Share of the lines of the smaller column that may cross the gap, such as headings."""
_NARROWEST, _FILLED = 0.2, 0.6
"""Share of the page that a column has at least, and share of a column that its lines fill."""
_FEWEST_LINES = 4
_SAME_ROW = 0.5
"""Share of the height of the lower line by which two lines of a row overlap."""


def reading_order(boxes: Sequence[Box]) -> list[list[Box]]:
    """Return the rows of a page in reading order, each from left to right.

    A column is read to its end before the next one, up to a line that crosses both. Short texts
    side by side, as in a table without lines, are no columns.

    Args:
        boxes: Left, top, right and bottom of each line, in shares of the page.
    """
    gap = _column_gap(boxes)
    if gap is None:
        return _rows(boxes)
    ordered: list[list[Box]] = []
    by_height = sorted(boxes, key=lambda box: box[1] + box[3])
    for crosses, run in groupby(by_height, lambda box: box[0] < gap < box[2]):
        band = list(run)
        columns = [b for b in band if b[2] <= gap], [b for b in band if b[0] >= gap]
        if crosses or not all(map(_is_column, filter(None, columns))):
            ordered += _rows(band)
        else:
            ordered += (row for column in columns for row in reading_order(column))
    return ordered


def _column_gap(boxes: Sequence[Box]) -> float | None:
    """Return where the gap between two columns is, or None."""
    best: tuple[int, float] | None = None
    for place in range(1, _GRID):
        x = place / _GRID
        left = [box for box in boxes if box[2] <= x]
        right = [box for box in boxes if box[0] >= x]
        crossing = len(boxes) - len(left) - len(right)
        fewest = min(len(left), len(right))
        if fewest < _FEWEST_LINES or crossing > _CROSSING * fewest:
            continue
        if (best is None or crossing < best[0]) and _is_column(left) and _is_column(right):
            best = crossing, x
    return best and best[1]


def _is_column(boxes: Sequence[Box]) -> bool:
    """Return whether lines are a column of text: wide, and mostly filled."""
    width = max(box[2] for box in boxes) - min(box[0] for box in boxes)
    return width >= _NARROWEST and median(box[2] - box[0] for box in boxes) >= _FILLED * width


def _rows(boxes: Sequence[Box]) -> list[list[Box]]:
    """Return lines from above to below, those of the same height in one row."""
    rows: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box[1] + box[3]):
        last = rows[-1][-1] if rows else None
        if last and min(last[3], box[3]) - max(last[1], box[1]) > _SAME_ROW * (box[3] - box[1]):
            rows[-1].append(box)
        else:
            rows.append([box])
    return [sorted(row) for row in rows]
