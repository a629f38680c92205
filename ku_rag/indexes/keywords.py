"""The keyword index: BM25 over FTS5, with CJK as overlapping bigrams.

Queries are built from folded words, each quoted, so nothing in a question can act as syntax.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ku_rag.language.tokens import content_words, is_cjk, search_terms, words
from ku_rag.store.rows import marks

_MOST_TERMS = 64
_EXACT = 3
"""Letters of the longest word that is taken as it is, not as the beginning of others."""


def query_of(text: str, stems: Sequence[str] = ()) -> str:
    """The FTS5 query that finds any content word of `text`; "" when it has none.

    Args:
        text: the question.
        stems: further words, looked for by their beginnings.
    """
    known = set(content_words(text) or words(text))
    wanted = [_quoted(t) for t in search_terms(text) if t in known or is_cjk(t)]
    return " OR ".join([*wanted, *map(_begins, stems)][:_MOST_TERMS])


def search(
    connection: sqlite3.Connection,
    text: str,
    k: int,
    *,
    stems: Sequence[str] = (),
    units: tuple[int, ...] | None = None,
) -> list[tuple[int, float]]:
    """The best chunks by BM25 as (row, score), higher is better.

    Args:
        connection: the database.
        text: the question.
        k: most chunks.
        stems: further words to look for, by their beginnings.
        units: when given, only chunks that one of these unit rows lists.
    """
    query = query_of(text, stems)
    if not query:
        return []
    within = ""
    values: tuple[int, ...] = ()
    if units is not None:
        # The plus keeps SQLite from running the whole query once for every row of the list.
        within = f" AND +rowid IN (SELECT chunk FROM unit_chunks WHERE unit IN ({marks(units)}))"
        values = units
    rows = connection.execute(
        f"SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?{within} "
        "ORDER BY bm25(words), rowid LIMIT ?",
        (query, *values, k),
    )
    return [(int(row), float(score)) for row, score in rows]


def chunks_with_all(connection: sqlite3.Connection, key: str) -> list[tuple[int, str]]:
    """Chunks (row, text) that hold all terms of a name key: the candidates for that name."""
    query = " AND ".join(map(_quoted, search_terms(key)))
    if not query:
        return []
    return connection.execute(
        "SELECT c.row, c.text FROM words CROSS JOIN chunks c ON c.row = words.rowid "
        "WHERE words MATCH ?",
        (query,),
    ).fetchall()


def _quoted(term: str) -> str:
    return f'"{term}"*' if len(term) == 1 and is_cjk(term) else f'"{term}"'


def units_with(
    connection: sqlite3.Connection, word: str, units: Sequence[int], *, whole: bool = False
) -> set[int]:
    """Which of these units list, as their own, a chunk with a word that begins with `word`.

    Args:
        connection: the database.
        word: folded.
        units: their rows.
        whole: whether only the word itself and its plain plural count.
    """
    # A cross join keeps the order that is written: the words once, not once for every listed chunk.
    rows = connection.execute(
        "SELECT DISTINCT l.unit FROM words CROSS JOIN unit_chunks l ON l.chunk = words.rowid "
        f"WHERE words MATCH ? AND l.owned AND l.unit IN ({marks(units)})",
        (_is(word) if whole else _begins(word), *units),
    )
    return {unit for (unit,) in rows}


def count_units_with(connection: sqlite3.Connection, word: str, *, whole: bool = False) -> int:
    """How many units have such a chunk of their own."""
    (count,) = connection.execute(
        "SELECT count(DISTINCT l.unit) FROM words CROSS JOIN unit_chunks l "
        "ON l.chunk = words.rowid "
        "WHERE words MATCH ? AND l.owned",
        (_is(word) if whole else _begins(word),),
    ).fetchone()
    return int(count)


def _is(word: str) -> str:
    return f'"{word}" OR "{word}s"'


def _begins(stem: str) -> str:
    return f'"{stem}"*' if len(stem) > _EXACT or is_cjk(stem) else f'"{stem}"'
