"""The keyword index: BM25 over FTS5, with CJK as overlapping bigrams.

Queries are built from folded words, each quoted, so nothing in a question can act as syntax.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ku_rag.store.connection import Connection, as_json, marks
from ku_rag.text.tokens import content_words, is_cjk, search_terms, terms, words

_MOST_TERMS = 64
_MANY = 50_000
"""Up to this many chunks, FTS5 scores all that have a word."""
_COMMON = 10_000
"""A word that so many chunks have is common."""
_READ_MOST = 1000
"""Of units that list up to so many chunks, these are read."""
_K1, _B = 1.2, 0.75
_EXACT = 3
"""Letters of the longest word that is taken as it is, not as the beginning of others."""


def expressions(text: str, stems: Sequence[str] = ()) -> list[str]:
    """What FTS5 is asked for: each content word of `text`, quoted, with a star where it begins one.

    Args:
        text: the question.
        stems: further words, looked for by their beginnings.
    """
    known = set(content_words(text) or words(text))
    wanted = [_quoted(t) for t in search_terms(text) if t in known or is_cjk(t)]
    return list(dict.fromkeys([*wanted, *map(_begins, stems)]))[:_MOST_TERMS]


def search(
    connection: Connection,
    text: str,
    k: int,
    *,
    stems: Sequence[str] = (),
    units: tuple[int, ...] | None = None,
) -> list[tuple[int, float]]:
    """The best chunks by BM25 as (row, score), higher is better.

    FTS5 scores every chunk that has one of the words. Where there are very many, the chunks of a
    few units are read and scored here instead; and in the whole base, words that very many have are
    left out as long as there are others, since they hardly tell chunks apart.

    Args:
        connection: the database.
        text: the question.
        k: most chunks.
        stems: further words to look for, by their beginnings.
        units: when given, only chunks that one of these unit rows lists.
    """
    wanted = expressions(text, stems)
    if not wanted:
        return []
    (total,) = connection.execute("SELECT coalesce(max(row), 0) FROM chunks").fetchone()
    if total > _MANY:
        counts = {one: _count(connection, one) for one in wanted}
        if units is None:
            wanted = [one for one in wanted if counts[one] < _COMMON] or wanted
        else:
            listed = _listed(connection, units)
            if len(listed) <= _READ_MOST:
                return _ranked(listed, counts, total)[:k]
    within = ""
    values: tuple[int, ...] = ()
    if units is not None:
        # The plus keeps SQLite from running the whole query once for every row of the list.
        within = f" AND +rowid IN (SELECT chunk FROM unit_chunks WHERE unit IN ({marks(units)}))"
        values = units
    rows = connection.execute(
        f"SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?{within} "
        "ORDER BY bm25(words), rowid LIMIT ?",
        (" OR ".join(wanted), *values, k),
    )
    return [(int(row), float(score)) for row, score in rows]


def _count(connection: Connection, expression: str) -> int:
    """How many chunks have a word; no further than what is common."""
    (count,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)",
        (expression, _COMMON),
    ).fetchone()
    return int(count)


def _listed(connection: Connection, units: Sequence[int]) -> list[tuple[int, str]]:
    """The chunks (row, text) that units list; one more than are read at most."""
    found: list[tuple[int, str]] = connection.execute(
        "SELECT row, text FROM chunks WHERE row IN "
        f"(SELECT chunk FROM unit_chunks WHERE unit IN ({marks(units)})) ORDER BY row LIMIT ?",
        (*units, _READ_MOST + 1),
    ).fetchall()
    return found


def _ranked(
    chunks: Sequence[tuple[int, str]], counts: Mapping[str, int], total: int
) -> list[tuple[int, float]]:
    """Chunks that have one of the words, best first, by BM25 as FTS5 computes it.

    Args:
        chunks: (row, text).
        counts: how many chunks of the base have each word.
        total: how many chunks there are.
    """
    held = [(row, list(terms(text))) for row, text in chunks]
    usual = sum(len(found) for _, found in held) / max(len(held), 1)
    scored = []
    for row, found in held:
        score = 0.0
        for expression, count in counts.items():
            word = expression.strip('"*')
            begins = expression.endswith("*")
            times = sum(one.startswith(word) if begins else one == word for one in found)
            weight = max(math.log((total - count + 0.5) / (count + 0.5)), 1e-6)
            damped = _K1 * (1 - _B + _B * len(found) / max(usual, 1))
            score += weight * times * (_K1 + 1) / (times + damped)
        if score > 0:
            scored.append((row, score))
    return sorted(scored, key=lambda one: (-one[1], one[0]))


def chunks_with_all(connection: Connection, keys: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (place of the key, chunk row, text) for each chunk with all terms of a name key.

    They are the candidates for that name, key by key.
    """
    queries = (" AND ".join(map(_quoted, search_terms(key))) for key in keys)
    yield from connection.execute(
        "SELECT k.key, c.row, c.text FROM json_each(?) k CROSS JOIN words ON words MATCH k.value "
        "CROSS JOIN chunks c ON c.row = words.rowid",
        (as_json(queries),),
    )


def _quoted(term: str) -> str:
    return f'"{term}"*' if len(term) == 1 and is_cjk(term) else f'"{term}"'


def units_with(
    connection: Connection, word: str, units: Sequence[int], *, whole: bool = False
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


def count_units_with(connection: Connection, word: str, *, whole: bool = False) -> int:
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
