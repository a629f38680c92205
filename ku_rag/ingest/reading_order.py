"""Reading order of lines on a page: columns, and rows within them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from ku_rag.ingest.readers.pdf_page import Box

_GRID = 100
"""Positions across a page that are tried as the gap between two columns."""
_CROSSING = 0.5
"""Lines that may cross the gap, such as headings, as a share of the lines of the shorter column."""
_NARROWEST, _FILLED = 0.2, 0.6
"""Least share of the page that a column has, and of the column that its lines fill."""
_FEWEST_LINES = 4
"""Lines of a column at least."""
_SAME_ROW = 0.5
"""Two lines are in one row if they overlap by this share of the height of the lower one."""


def reading_order(boxes: Sequence[Box]) -> list[list[Box]]:
    """Return the rows of a page in reading order, each from left to right.

    A column is read to its end, or to a line that crosses the gap, before the next one. Short
    texts side by side, as in a table without rules, are rows and not columns.

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
    """Return the position of the gap that the fewest lines cross; None if there is no gap."""
    gaps = []
    for place in range(1, _GRID):
        x = place / _GRID
        left = [box for box in boxes if box[2] <= x]
        right = [box for box in boxes if box[0] >= x]
        crossing = len(boxes) - len(left) - len(right)
        fewest = min(len(left), len(right))
        is_gap = fewest >= _FEWEST_LINES and crossing <= _CROSSING * fewest
        if is_gap and _is_column(left) and _is_column(right):
            gaps.append((crossing, x))
    return min(gaps)[1] if gaps else None


def _is_column(boxes: Sequence[Box]) -> bool:
    """Return whether lines form a column of text: a wide one that they mostly fill."""
    width = max(box[2] for box in boxes) - min(box[0] for box in boxes)
    return width >= _NARROWEST and median(box[2] - box[0] for box in boxes) >= _FILLED * width


def _rows(boxes: Sequence[Box]) -> list[list[Box]]:
    """Return lines from top to bottom, those at the same height in one row."""
    rows: list[list[Box]] = []
    for box in sorted(boxes, key=lambda box: box[1] + box[3]):
        last = rows[-1][-1] if rows else box
        beside = min(last[2], box[2]) - max(last[0], box[0]) < _SAME_ROW * (box[2] - box[0])
        below = min(last[3], box[3]) - max(last[1], box[1]) <= _SAME_ROW * (box[3] - box[1])
        if beside and not below:  # lines of a tilted page overlap, and are not beside each other
            rows[-1].append(box)
        else:
            rows.append([box])
    return [sorted(row) for row in rows]
