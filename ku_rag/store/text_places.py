"""Places of texts and rows of tables in their documents: heading, pages and boxes of lines."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter

import orjson

from ku_rag.store.connection import Connection, as_json
from ku_rag.types import ChunkPlace, Line, Table, TextPlace

_TRANSCRIBED, _FEWEST_FIELDS, _MOST_FIELDS = 3, 6, 7
"""Fields of a line that was transcribed, and of others without and with a confidence."""
_MOST_OF_SECTION = 10
PlaceRow = tuple[int, str, str]
"""Number of the document, section, and lines in JSON."""


def rows(places: Sequence[TextPlace], tables: Sequence[Table]) -> list[PlaceRow]:
    """Return the rows that are stored of places.

    `places` are those of each text, then of each table; empty if none has one. Each row of a table
    has its place.
    """
    if not places:
        return []
    texts = len(places) - len(tables)
    row_places = map(_row_places, places[texts:], tables)
    document_places = chain(places[:texts], chain.from_iterable(row_places))
    return [
        (document, place.section, as_json(place.lines))
        for document, place in enumerate(document_places)
        if place.section or place.lines
    ]


def _row_places(place: TextPlace, table: Table) -> Iterable[TextPlace]:
    """Return the place of each row: its own line, if the header and each row have one."""
    if len(place.lines) != len(table.rows) + 1:
        return repeat(place, len(table.rows))
    return (TextPlace(place.section, (line,)) for line in place.lines[1:])


def checked_lines(text: str) -> str:
    """Return lines in JSON as they are stored; `ValueError` for something else."""
    try:
        lines = [
            (int(start), int(page), *map(float if len(box) > 1 else str, box))
            for start, page, *box in json.loads(text)
        ]
        stored = as_json(lines)  # with null for NaN
        sizes = {_TRANSCRIBED, _FEWEST_FIELDS, _MOST_FIELDS}
        if {*map(len, lines)} <= sizes and ",null" not in stored:
            return stored
    except (OverflowError, TypeError, ValueError):
        pass
    raise ValueError(f"expected a list of character, page and box, not {text[:40]}")


def put(connection: Connection, source: int, places: Sequence[PlaceRow]) -> None:
    """Store the places of a source that has none. Called inside a change."""
    connection.executemany(
        "INSERT INTO text_places (source, document, section, lines) VALUES (?, ?, ?, ?)",
        ((source, *row) for row in places),
    )


def of_source(connection: Connection, source: int) -> list[PlaceRow]:
    """Return the stored rows of a source."""
    return list(
        connection.execute(
            "SELECT document, section, lines FROM text_places WHERE source = ? ORDER BY document",
            (source,),
        )
    )


def drop(connection: Connection, source: int) -> None:
    """Delete the places of a source; those of a source that is deleted go with it."""
    connection.execute("DELETE FROM text_places WHERE source = ?", (source,))


def sections(connection: Connection, chunks: Iterable[int]) -> dict[int, str]:
    """Return chunk → heading above it, for those of the chunks that have a place."""
    return dict(
        connection.execute(
            "SELECT c.row, p.section FROM json_each(?) w CROSS JOIN chunks c ON c.row = w.value "
            "JOIN text_places p ON p.source = c.source AND p.document = c.document "
            "WHERE EXISTS (SELECT 1 FROM text_places)",
            (as_json(chunks),),
        )
    )


def of_section(connection: Connection, number: str, units: Iterable[int]) -> list[int]:
    """Return the first chunks of sections with a number, such as "4.2", in their headings.

    The heading begins with the number. `units` are rows of the documents; none for all.
    """
    return connection.column(
        "SELECT c.row FROM text_places p JOIN sources s ON s.row = p.source "
        "JOIN chunks c ON c.source = p.source AND c.document = p.document "
        "WHERE (p.section GLOB ?1 || '[ .:]*' OR p.section GLOB '* > ' || ?1 || '[ .:]*') "
        "AND (?2 = '[]' OR s.unit IN (SELECT value FROM json_each(?2))) ORDER BY c.row LIMIT ?3",
        (number, as_json(units), _MOST_OF_SECTION),
    )


def of_chunks(
    connection: Connection, spans: Mapping[int, tuple[int, int] | None]
) -> dict[int, ChunkPlace]:
    """Return chunk → its place, for those of the chunks that have one.

    The box surrounds the lines of a span on the page where it begins. `spans` is row of each chunk
    → start and end in its text, in characters; None for all of it.
    """
    texts: dict[tuple[int, int], tuple[str, list[Line]]] = {}
    places = {}
    for chunk, source, document, offset, length in connection.execute(
        "SELECT c.row, c.source, c.document, "
        "(SELECT coalesce(sum(length(b.text)), 0) FROM chunks b "
        "WHERE b.source = c.source AND b.document = c.document AND b.position < c.position), "
        "length(c.text) FROM json_each(?) w CROSS JOIN chunks c ON c.row = w.value "
        "JOIN text_places p ON p.source = c.source AND p.document = c.document "
        "WHERE EXISTS (SELECT 1 FROM text_places)",
        (as_json(spans),),
    ):
        if (text := (source, document)) not in texts:
            section, lines = connection.execute(
                "SELECT section, lines FROM text_places WHERE source = ? AND document = ?", text
            ).fetchone()
            texts[text] = section, orjson.loads(lines)
        start, end = spans[chunk] or (0, length)
        places[chunk] = _place(*texts[text], offset + start, offset + end)
    return places


def _place(section: str, lines: Sequence[Line], start: int, end: int) -> ChunkPlace:
    """Return the place of a span of a text, in characters, by the lines of the text."""
    first = max(0, bisect_right(lines, start, key=itemgetter(0)) - 1)
    inside = lines[first : bisect_left(lines, end, key=itemgetter(0))]
    if not inside:
        return ChunkPlace(section)
    page = int(inside[0][1]) or None
    if len(inside[0]) == _TRANSCRIBED:
        return ChunkPlace(section, page, transcribed_by=inside[0][2])
    boxes = [line[2:6] for line in inside if line[1] == (page or 0)]
    left, top, right, bottom = zip(*boxes, strict=True)
    confidence = min((line[6] for line in inside if len(line) > _FEWEST_FIELDS), default=None)
    return ChunkPlace(section, page, (min(left), min(top), max(right), max(bottom)), confidence)
