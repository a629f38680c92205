"""Tables of PDF pages: text in columns between horizontal rules.

Tables with a line around each cell, with lines between columns, and with rules above, below the
header and below are read alike. Their columns are divided by vertical lines and by gaps.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import Any, NamedTuple

from ku_rag.ingest.readers.pdf_page import Box, PageWord, TextLine, TextPage
from ku_rag.plugins import extra

_MOST_SEGMENTS = 20_000
"""Drawn segments at most of a page whose tables are read."""
_SAME = 0.004
"""Share of a page by which aligned edges may differ."""
_SHORTEST, _LONGEST = 0.06, 0.97
"""Shares of the width of a page between which the length of a rule is."""
_CELL_GAP = 0.7
"""Words further apart than this share of their letter size are in different cells."""
_LEADERS = re.compile(r"(?:\.\s*){4,}")
"""Dots in a line of a table of contents."""
_WIDE, _FILLED = 0.25, 0.6
"""Shares of the page that a column of prose has, and of the column that its lines fill."""

_MARGIN, _PROSE, _MOST_PROSE = 0.1, 0.7, 0.2
"""Of the width of a table, a line of prose begins within the first share and has the second share;
such lines are at most the third share of a part of a table."""

_FEW, _ALIGNED = 3, 0.7
"""In this number of lines or more, at least this share of the texts must be aligned."""
_LEAST_FILLED = 0.6
"""Share of the cells of a table that are not empty."""
_ROW_HEIGHT = 2.5
"""A row outside the outer rules is within so many letter heights of one."""

Rows = list[list[str]]


class _Edge(NamedTuple):
    """A drawn line in shares of the page: y (or x), left (or upper) end, right (or lower) end."""

    place: float
    start: float
    end: float


class _Run(NamedTuple):
    """Words of a row that are in one cell."""

    left: float
    right: float
    text: str
    top: float
    bottom: float


class _Band(NamedTuple):
    """The lines of text between two rules, or outside one (`is_outer`), as runs, in columns."""

    upper: _Edge
    lower: _Edge
    lines: list[list[_Run]]
    dividers: list[float]
    region: Sequence[list[_Run]] = ()
    is_outer: bool = False

    @property
    def is_part(self) -> bool | None:
        """Whether it is a part of a table; None for a single text, which may be a title."""
        if self.dividers or not self.lines:
            return bool(self.lines)
        in_columns = [line for line in self.lines if len(line) > 1]
        if len(self.lines) == 1 and not in_columns:
            return None
        left, width = self.upper.start, self.upper.end - self.upper.start
        begin = left + _MARGIN * width
        prose = sum(
            run.left < begin and run.right - run.left > _PROSE * width
            for line in self.lines
            for run in line
        )
        prose += sum(
            _LEADERS.search(" ".join(run.text for run in line)) is not None for line in self.lines
        )
        alone = sum(len(line) == 1 and line[0].left < begin for line in self.lines)
        if prose > _MOST_PROSE * len(self.lines) or 2 * alone > len(self.lines):
            return False
        return len(in_columns) < _FEW or _is_aligned(in_columns, self.region)


def _is_aligned(lines: Sequence[list[_Run]], region: Sequence[list[_Run]]) -> bool:
    """Return whether most texts after the first of a line align with a text of another line."""
    counts = [_aligned(line, [other for other in region if other is not line]) for line in lines]
    return sum(counts) >= _ALIGNED * sum(len(line) - 1 for line in lines)


def _aligned(line: Sequence[_Run], others: Sequence[Sequence[_Run]]) -> int:
    """Return how many texts after the first of a line align at an end or middle with others."""

    def places(run: _Run) -> tuple[float, float, float]:
        return run.left, run.right, (run.left + run.right) / 2

    targets = [places(run) for other in others for run in other]
    return sum(
        any(
            abs(x - y) < _SAME
            for target in targets
            for x, y in zip(places(run), target, strict=True)
        )
        for run in line[1:]
    )


def page_tables(
    text_page: TextPage, lines: Sequence[TextLine]
) -> Iterator[tuple[Box, Rows, list[Box]]]:
    """Yield box, rows and boxes of the rows of each table of a page, the header first."""
    across, down = _edges(text_page)
    if not (regions := list(_regions(across))):
        return
    words = [word for line in lines for word in text_page.words(line)]
    for rules in sorted(regions, key=lambda rules: rules[0].end - rules[0].start):
        bands = list(_bands(rules, words, down))
        for is_table, group in groupby(bands, lambda band: band.is_part is not False):
            parts = _parts(list(group)) if is_table else []
            rows, heights = _table(parts) if parts else ([], [])
            if rows:
                upper, lower = parts[0].upper, parts[-1].lower
                box = upper.start, upper.place, upper.end, lower.place
                words = [word for word in words if not is_inside(word[:4], box)]
                yield box, rows, [(box[0], top, box[2], bottom) for top, bottom in heights]


def _parts(bands: list[_Band]) -> list[_Band]:
    """Return bands without titles and unaligned outer rows at both ends."""
    for end in (0, -1):
        while bands and (
            bands[end].is_part is None
            or (bands[end].is_outer and not _continues_table(bands[end], bands))
        ):
            bands.pop(end)
    return bands


def _continues_table(outer: _Band, bands: Sequence[_Band]) -> bool:
    """Return whether an outer row has as many texts as most lines of a table, and is aligned."""
    lines = [line for band in bands if not band.is_outer for line in band.lines]
    count = len(outer.lines[0])
    if not lines or count < median(map(len, lines)):
        return False
    return _aligned(outer.lines[0], lines) == count - 1


def _bands(
    rules: Sequence[_Edge], words: Sequence[PageWord], down: Sequence[_Edge]
) -> Iterator[_Band]:
    """Yield the bands between rules of the same width, and outer rows above and below them."""
    top, left, right = rules[0]
    words = [word for word in words if left - 2 * _SAME <= word.left]
    words = [word for word in words if word.right <= right + 2 * _SAME]
    if not any(top < word.middle < rules[-1].place for word in words):
        return
    height = _ROW_HEIGHT * median(word.bottom - word.top for word in words)
    edges = [_Edge(0.0, left, right), *rules, _Edge(1.0, left, right)]
    contents = []
    for upper, lower in pairwise(edges):
        inside = [word for word in words if upper.place <= word.middle < lower.place]
        dividers = [
            edge.place
            for edge in down
            if left + _SAME < edge.place < right - _SAME
            and min(edge.end, lower.place) - max(edge.start, upper.place)
            > (lower.place - upper.place) / 2
        ]
        lines = list(_lines(inside))
        contents.append((upper, lower, lines, [_runs(line, dividers) for line in lines], dividers))
    region = [line for *_, runs, _ in contents[1:-1] for line in runs]
    for number, (upper, lower, lines, runs, dividers) in enumerate(contents):
        band = _Band(upper, lower, runs, dividers, region)
        if 0 < number < len(rules) and band.is_part is not False:
            yield band
        elif lines or lower.place - upper.place > height:  # else it is a double rule
            if number and lines and lines[0][0].middle - upper.place < height:
                yield _outer_row(list(_first_row(lines, height)), upper)
            yield _Band(upper, lower, [], [])
            if number < len(rules) and lines and lower.place - lines[-1][0].middle < height:
                yield _outer_row(lines[-1:], lower)


def _first_row(lines: Sequence[Sequence[PageWord]], height: float) -> Iterator[Sequence[PageWord]]:
    """Yield the first line, and close lines below it whose first column is empty."""
    yield lines[0]
    for above, line in pairwise(lines):
        if line[0].left < lines[0][0].right or line[0].middle - above[0].middle > height:
            return
        yield line


def _outer_row(lines: Sequence[Sequence[PageWord]], rule: _Edge) -> _Band:
    """Return the band of lines above or below a rule."""
    upper = rule._replace(place=min(word.top for line in lines for word in line))
    lower = rule._replace(place=max(word.bottom for line in lines for word in line))
    return _Band(upper, lower, [_runs(line, ()) for line in lines], [], is_outer=True)


def is_inside(box: Box, outer: Box) -> bool:
    """Return whether the middle of a box is in another."""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return outer[0] <= x <= outer[2] and outer[1] <= y <= outer[3]


# ---- drawn lines ---------------------------------------------------------------------------------


def _edges(text_page: TextPage) -> tuple[list[_Edge], list[_Edge]]:
    """Return horizontal and vertical lines: sides of boxes and thin pictures are lines, too."""
    raw, page = extra("documents", "pypdfium2.raw"), text_page.page
    paths = page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=2)
    counts = [(path, max(0, raw.FPDFPath_CountSegments(path))) for path in paths]
    pictures = page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=2)
    boxes = [picture.get_bounds() for picture in pictures]
    across, down = list[_Edge](), list[_Edge]()
    if sum(count for _, count in counts) + len(boxes) <= _MOST_SEGMENTS:
        boxes += (
            (*first, *second)
            for path, count in counts
            for first, second in _strokes(raw, path, count)
        )
    for box in boxes:
        x0, y0, x1, y1 = text_page.shares(box)
        (left, right), (top, bottom) = sorted((x0, x1)), sorted((y0, y1))
        if bottom - top < _SAME < right - left:
            across.append(_Edge((top + bottom) / 2, left, right))
        elif right - left < _SAME < bottom - top:
            down.append(_Edge((left + right) / 2, top, bottom))
    return _joined(across), _joined(down)


Point = tuple[float, float]


def _strokes(raw: Any, path: Any, count: int) -> Iterator[tuple[Point, Point]]:  # noqa: ANN401
    """Yield the ends of each straight segment of a path, in points."""
    matrix, x, y = path.get_matrix(), ctypes.c_float(), ctypes.c_float()
    start = last = (0.0, 0.0)
    for number in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = matrix.on_point(x.value, y.value)
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_LINETO:
            yield last, point
        elif kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        if raw.FPDFPathSegment_GetClose(segment):
            yield point, start
        last = point


def _joined(edges: Sequence[_Edge]) -> list[_Edge]:
    """Return edges in order of their places; edges that touch in one line are merged."""
    groups: list[list[_Edge]] = []
    for edge in sorted(edges):
        if groups and edge.place - groups[-1][0].place < _SAME:
            groups[-1].append(edge)
        else:
            groups.append([edge])
    joined: list[_Edge] = []
    for group in groups:
        merged: list[_Edge] = []
        for edge in sorted(group, key=lambda edge: edge.start):
            if merged and edge.start <= merged[-1].end + _SAME:
                merged[-1] = merged[-1]._replace(end=max(merged[-1].end, edge.end))
            else:
                merged.append(edge._replace(place=group[0].place))
        joined += merged
    return joined


def _regions(across: Sequence[_Edge]) -> Iterator[list[_Edge]]:
    """Yield the rules of each table, which have the same ends; a longer one ends the table."""
    groups: list[list[_Edge]] = []
    ended: list[list[_Edge]] = []
    for rule in across:
        if not _SHORTEST < rule.end - rule.start < _LONGEST:
            continue
        shorter = [g for g in groups if rule.start <= g[0].start and g[0].end <= rule.end]
        same = [
            group
            for group in groups
            if max(abs(group[0].start - rule.start), abs(group[0].end - rule.end)) < 2 * _SAME
        ]
        ended += (group for group in shorter if group not in same)
        groups = [group for group in groups if group not in shorter or group in same]
        if same:
            same[0].append(rule)
        else:
            groups.append([rule])
    yield from (group for group in ended + groups if len(group) > 1)


# ---- cells ---------------------------------------------------------------------------------------


def _table(bands: Sequence[_Band]) -> tuple[Rows, list[tuple[float, float]]]:
    """Return the rows of a table, and top and bottom of each; no rows if the bands are no table."""
    runs = [run for band in bands for line in band.lines for run in line]
    dividers = sorted({x for band in bands for x in band.dividers})
    is_grid = bool(dividers) and len(bands) > 2
    if is_grid and median(len(band.lines) for band in bands[1:]) == 1:
        columns = [*pairwise((0.0, *dividers, 1.0))]
    else:
        columns = _columns(runs, dividers)
    titles = sum(band.is_part is None for band in bands)
    in_columns = [line for band in bands for line in band.lines if len(line) > 1]
    is_aligned = bool(dividers) or _is_aligned(in_columns, in_columns)
    if len(columns) < 2 or 4 * titles > len(bands) or not is_aligned or _is_prose(runs, columns):
        return [], []
    rows: Rows = []
    heights: list[tuple[float, float]] = []
    for number, band in enumerate(bands):
        is_header = number == 0 and len(bands) > 1
        band_rows: Rows = []
        for line in band.lines:
            cells = _cells(line, columns)
            top, bottom = min(run.top for run in line), max(run.bottom for run in line)
            if band_rows and (is_header or _continues(cells, band_rows, is_grid=is_grid)):
                joined = zip(band_rows[-1], cells, strict=True)
                band_rows[-1] = [" ".join(filter(None, both)) for both in joined]
                heights[-1] = heights[-1][0], bottom
            else:
                band_rows.append(cells)
                heights.append((top, bottom))
        rows += band_rows
    filled = sum(bool(cell) for row in rows for cell in row)
    is_table = len(rows) > 1 and filled > _LEAST_FILLED * len(rows) * len(columns)
    return (rows, heights) if is_table else ([], [])


def _continues(cells: Sequence[str], rows: Rows, *, is_grid: bool) -> bool:
    """Return whether a line of a band continues the row above it."""
    if is_grid:
        return any(first and not cell for first, cell in zip(rows[0], cells, strict=True))
    return not cells[0] and any(
        above and not cell for above, cell in zip(rows[-1][1:], cells[1:], strict=True)
    )


def _lines(words: Sequence[PageWord]) -> Iterator[list[PageWord]]:
    """Yield the words of each line, from left to right."""
    if not words:
        return
    line: list[PageWord] = []
    for word in sorted(words, key=lambda word: word.middle):
        last = line[-1] if line else word
        height = min(word.bottom - word.top, last.bottom - last.top)
        if min(word.bottom, last.bottom) - max(word.top, last.top) < height / 2:
            yield sorted(line)
            line = []
        line.append(word)
    yield sorted(line)


def _runs(line: Sequence[PageWord], dividers: Sequence[float]) -> list[_Run]:
    runs: list[_Run] = []
    for left, top, right, bottom, text, size in line:
        last = runs[-1] if runs else None
        is_divided = last and any(last.right <= x + _SAME and x - _SAME <= left for x in dividers)
        if last and left - last.right < _CELL_GAP * size and not is_divided:
            ends = min(last.top, top), max(last.bottom, bottom)
            runs[-1] = _Run(last.left, max(last.right, right), f"{last.text} {text}", *ends)
        else:
            runs.append(_Run(left, right, text, top, bottom))
    return runs


def _columns(runs: Sequence[_Run], dividers: Sequence[float]) -> list[tuple[float, float]]:
    """Return left and right of each column; a run across columns, such as a title, makes none."""
    columns: list[tuple[float, float]] = []
    bridges: list[_Run] = []
    for run in sorted(runs, key=lambda run: run.right - run.left):
        touching = [column for column in columns if _overlap(run, column) > 0]
        if len(touching) > 1:
            bridges.append(run)
            continue
        column = touching[0] if touching else (run.left, run.right)
        columns = [other for other in columns if other not in touching]
        columns.append((min(column[0], run.left), max(column[1], run.right)))
    columns.sort()
    merged = columns[:1]
    for left, right in columns[1:]:
        pair = merged[-1], (left, right)
        across = sum(all(_overlap(run, column) > 0 for column in pair) for run in bridges)
        fewest = min(sum(_overlap(run, column) > 0 for run in runs) - across for column in pair)
        is_divided = any(pair[0][1] <= x + _SAME and x - _SAME <= left for x in dividers)
        if across > fewest and not is_divided:
            merged[-1] = merged[-1][0], max(merged[-1][1], right)
        else:
            merged.append((left, right))
    return merged


def _overlap(run: _Run, column: tuple[float, float]) -> float:
    return min(run.right, column[1]) - max(run.left, column[0])


def _cells(line: Sequence[_Run], columns: Sequence[tuple[float, float]]) -> list[str]:
    """Return the text of each column; a run across columns is in the first of them."""
    cells = [""] * len(columns)
    for run in line:
        overlaps = [_overlap(run, column) for column in columns]
        half = min(run.right - run.left, max(overlaps)) / 2
        place = next(n for n, overlap in enumerate(overlaps) if overlap >= half)
        cells[place] = " ".join(filter(None, (cells[place], run.text)))
    return cells


def _is_prose(runs: Sequence[_Run], columns: Sequence[tuple[float, float]]) -> bool:
    """Return whether most columns are columns of prose."""
    wide = 0
    for column in columns:
        width = column[1] - column[0]
        widths = [run.right - run.left for run in runs if _overlap(run, column) > 0]
        wide += width > _WIDE and bool(widths) and median(widths) > _FILLED * width
    return 2 * wide > len(columns)
