"""The keyword index: BM25 over stems of chunks and of their units' names (FTS5).

The index holds no texts, only terms (`text.stems.index_terms`). Queries are built from terms, each
quoted, so nothing in a question can act as syntax.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ku_rag.indexes.segment import contains
from ku_rag.store import vocabulary
from ku_rag.store.connection import Connection, as_json, distinct, fetch_rows
from ku_rag.store.text_lengths import note_replaced, totals
from ku_rag.text.stems import index_terms, query_terms, stem
from ku_rag.text.tokens import content_words, is_cjk, words

_MOST_TERMS = 64
_LARGE = 10_000
"""Number of chunks above which a base is large, and of a common term's chunks that are read."""
_MOST_READ = 100_000
"""Largest number of chunks of a common term that are all read where no rarer term is present."""
_COMMON = 0.1
"""A term is common if a larger share of the chunks have it."""
_K1, _B, _LEAST_IDF = 1.2, 0.75, 1e-6
"""Parameters of BM25, as in FTS5; the weight of a term that more than half of the texts have."""
_TOKENS = re.compile(r"[0-9A-Za-z\x80-\U0010ffff]+")
_EXACT = 3
"""Letters of the longest stem that matches only itself; a longer one is a prefix."""

_Hits = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows of chunks, ascending, and how often each has a term."""


def put(
    connection: Connection,
    units: Collection[int],
    chunks: Iterable[tuple[int, int | None, Sequence[str]]],
    *,
    again: bool = False,
) -> None:
    """Index chunks, or index them again. Called inside a change.

    A chunk has its row, the row of the unit that owns it, and the folded words of its text;
    `units` are the rows of all owners.
    """
    if again:
        note_replaced(connection)
    language = language_of(connection)
    names = {None: ""} | {
        unit: f"{index_terms(words(name), language)} "
        for unit, name in connection.execute(
            "SELECT u.row, u.name FROM json_each(?) w CROSS JOIN units u ON u.row = w.value",
            (as_json(units),),
        )
    }
    connection.executemany(
        "INSERT OR REPLACE INTO words (rowid, terms) VALUES (?, ?)",
        ((row, names[unit] + index_terms(cut, language)) for row, unit, cut in chunks),
    )


def language_of(connection: Connection) -> str:
    """Return the language of the stems in a base."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'language'").fetchone()
    return row[0].strip('"') if row else "english"


@dataclass(frozen=True, slots=True)
class TermScores:
    """BM25 scores of chunks for each term of a text.

    Args:
        rows: int64[chunks], ascending: the chunks that have one of the terms.
        scores: float64[terms, chunks], at least 0; 0 where a chunk does not have the term.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


def term_scores(
    connection: Connection, text: str, *, among: NDArray[np.int64] | None = None
) -> TermScores:
    """Return BM25 scores of the chunks that have a term of a text.

    Stop words are left out if other terms remain. In large bases very common terms count only in
    chunks that have another term, and once. If all terms are common, the rarest is that other one;
    if too many chunks have it, the first chunks with all terms have scores. `among` are rows of the
    chunks that count, ascending; None for all.
    """
    terms = query_terms(content_words(text) or words(text), language_of(connection))
    # The index cuts terms at other ASCII characters, which compatibility forms such as "⑴" have.
    tokens = (token for term in terms for token in _TOKENS.findall(term))
    hits, frequencies = _hits(connection, list(dict.fromkeys(tokens))[:_MOST_TERMS])
    if among is not None:
        masks = [contains(among, rows) for rows, _ in hits]
        hits = [
            (rows[mask], numbers[mask]) for (rows, numbers), mask in zip(hits, masks, strict=True)
        ]
    rows = distinct(np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in hits)]))
    counts = np.zeros((len(hits), len(rows)))
    for of_term, (chunks, numbers) in zip(counts, hits, strict=True):
        of_term[np.searchsorted(rows, chunks)] = numbers
    return TermScores(rows, _bm25(connection, rows, counts, frequencies))


def _hits(connection: Connection, terms: Sequence[str]) -> tuple[list[_Hits], list[int]]:
    """Return chunks of each term that are scored, and the numbers of chunks that have each term."""
    common = _common_terms(connection, terms)
    rare = {term: _chunks_with(connection, term) for term in terms if term not in common}
    if common and not any(len(rows) for rows, _ in rare.values()):
        rarest = min(common, key=lambda term: common[term])
        if common[rarest] > _MOST_READ:
            return _first_with_all(connection, common)
        del common[rarest]
        rare[rarest] = _chunks_with(connection, rarest)
    hits, either = list(rare.values()), " OR ".join(map(_quote, rare))
    frequencies = [len(rows) for rows, _ in hits]
    for term, count in common.items():
        both = f"{_quote(term)} AND ({either})"
        rows = fetch_rows(connection, "SELECT rowid FROM words WHERE words MATCH ?", both)
        hits.append((rows, np.ones(len(rows), np.int64)))
        frequencies.append(count)
    return hits, frequencies


def _common_terms(connection: Connection, terms: Sequence[str]) -> dict[str, int]:
    """Return the very common terms of a large base, with estimated numbers of chunks.

    The estimate follows from the first chunks: counting takes up to 20 ms at a million.
    """
    (last,) = connection.execute("SELECT coalesce(max(row), 0) FROM chunks").fetchone()
    if last <= _LARGE:
        return {}
    most = min(_LARGE, int(_COMMON * last))
    query = "SELECT rowid FROM words WHERE words MATCH ? LIMIT 1 OFFSET ?"
    rows = {term: connection.execute(query, (_quote(term), most)).fetchone() for term in terms}
    return {term: most * last // row[0] for term, row in rows.items() if row}


def _first_with_all(
    connection: Connection, common: Mapping[str, int]
) -> tuple[list[_Hits], list[int]]:
    """Return the first chunks with all of some terms, or else with the rarest; see `_hits`."""
    query = "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?"
    rarest = min(common, key=lambda term: common[term])
    for terms in ([*common], [rarest]):
        rows = fetch_rows(connection, query, " AND ".join(map(_quote, terms)), _LARGE)
        if len(rows):
            break
    hits = [(rows, np.ones(len(rows), np.int64))] * len(terms)
    return hits, [common[term] for term in terms]


def _chunks_with(connection: Connection, term: str) -> _Hits:
    """Return the rows of the chunks with a term, ascending, and how often each has it."""
    (places,) = connection.execute(
        "SELECT group_concat(doc) FROM word_places WHERE term >= ? AND term <= ?", _range(term)
    ).fetchone()
    every = np.fromstring(places or "", np.int64, sep=",")
    rows, counts = np.unique(every, return_counts=True)
    return rows, counts


def _bm25(
    connection: Connection,
    rows: NDArray[np.int64],
    counts: NDArray[np.float64],
    frequencies: Sequence[int],
) -> NDArray[np.float64]:
    """Return the BM25 scores, float64[terms, chunks], as FTS5 computes them.

    Its own function looks up the length of each text, which takes ten times as long. `counts` are
    of the terms in the chunks `rows`, `frequencies` the numbers of chunks that have each term.
    """
    texts, terms = totals(connection)
    lengths = connection.text_lengths.of(connection, rows)
    norms = _K1 * (1 - _B + _B * lengths * texts / max(1, terms))
    chunks = np.array(frequencies, float)[:, None]
    idf = np.maximum(np.log((texts - chunks + 0.5) / (chunks + 0.5)), _LEAST_IDF)
    scores: NDArray[np.float64] = idf * counts * (_K1 + 1) / (counts + norms)
    return scores


def in_vocabulary(connection: Connection, keys: Collection[str]) -> set[str]:
    """Return those of some name keys whose words may all be in indexed texts."""
    language, stored = language_of(connection), vocabulary.of(connection).terms
    wanted = {word for key in keys for word in key.split()}
    present = set(stored.among(connection, wanted))
    # In scripts without spaces, terms are not words.
    terms = {word: stem for word in wanted - present for stem in query_terms([word], language)}
    stems = stored.among(connection, terms.values())
    present |= {word for word, stem in terms.items() if is_cjk(word) or stem in stems}
    return {key for key in keys if present.issuperset(key.split())}


def chunks_with_all(connection: Connection, keys: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (place of the key, chunk row, text) for each chunk with all terms of a name key.

    They are the candidates for that name, key by key.
    """
    language = language_of(connection)
    queries = (" AND ".join(map(_quote, query_terms(key.split(), language))) for key in keys)
    yield from connection.execute(
        "SELECT k.key, c.row, c.text FROM json_each(?) k CROSS JOIN words ON words MATCH k.value "
        "CROSS JOIN chunks c ON c.row = words.rowid",
        (as_json(queries),),
    )


def units_with(
    connection: Connection, word: str, units: Sequence[int], *, whole: bool = False
) -> set[int]:
    """Return which of some units own a chunk with a word that begins with the folded `word`.

    `whole` accepts only forms of the word itself.
    """
    # A cross join keeps the written order: the words are read once, not once per listed chunk.
    rows = connection.column(
        "SELECT DISTINCT l.unit FROM words CROSS JOIN unit_chunks l ON l.chunk = words.rowid "
        "WHERE words MATCH ? AND l.owned AND l.unit IN (SELECT value FROM json_each(?))",
        (_word(word, whole=whole), as_json(units)),
    )
    return set(rows)


def chunks_without_facts(
    connection: Connection, phrases: Sequence[frozenset[str]], labels: Sequence[int], most: int
) -> list[tuple[int, str]]:
    """Return (row of the unit, text) of chunks with all stems of one of some phrases.

    Units with a fact under one of the labels, by their rows, are left out, as are further chunks
    than `most`.
    """
    language = language_of(connection)
    # Some stems have another stem: "employe".
    terms = {
        base: " OR ".join(map(_quote, dict.fromkeys([base, *query_terms([base], language)])))
        for base in frozenset().union(*phrases) - {""}
    }
    every = (" AND ".join(f"({terms[base]})" for base in bases & terms.keys()) for bases in phrases)
    query = " OR ".join(f"({phrase})" for phrase in every if phrase)
    if not query:
        return []
    rows: list[tuple[int, str]] = connection.execute(
        "SELECT l.unit, c.text FROM words CROSS JOIN unit_chunks l ON l.chunk = words.rowid "
        "CROSS JOIN chunks c ON c.row = l.chunk WHERE words MATCH ? AND l.owned AND NOT EXISTS "
        "(SELECT 1 FROM facts f WHERE f.unit = l.unit "
        "AND f.label IN (SELECT value FROM json_each(?))) LIMIT ?",
        (query, as_json(labels), most),
    ).fetchall()
    return rows


def has_word(connection: Connection, word: str, *, least: int = 1) -> bool:
    """Return whether so many chunks at least have a folded word, or another form of it."""
    (term,) = query_terms([word], language_of(connection))
    query = "SELECT 1 FROM words WHERE words MATCH ? LIMIT ?"
    return len(connection.execute(query, (f'"{term}"', least)).fetchall()) == least


def count_units_with(connection: Connection, word: str, *, whole: bool = False) -> int:
    """Return how many units own such a chunk; see `units_with`."""
    (count,) = connection.execute(
        "SELECT count(DISTINCT l.unit) FROM words CROSS JOIN unit_chunks l "
        "ON l.chunk = words.rowid "
        "WHERE words MATCH ? AND l.owned",
        (_word(word, whole=whole),),
    ).fetchone()
    return int(count)


def differences(connection: Connection) -> Iterator[str]:
    """Yield differences between the index and the stored texts and names; for `verify`."""
    language = language_of(connection)
    stored: Counter[int] = Counter()
    for row, term in connection.execute("SELECT doc, term FROM word_places"):
        stored[row] += zlib.crc32(term.encode())
    for row, name, text in connection.execute(
        "SELECT c.row, u.name, c.text FROM chunks c JOIN sources s ON s.row = c.source "
        "LEFT JOIN units u ON u.row = s.unit"
    ):
        terms = index_terms(words(name or ""), language), index_terms(words(text), language)
        if stored.pop(row, 0) != sum(zlib.crc32(term.encode()) for term in " ".join(terms).split()):
            yield f"the terms of chunk {row} in the keyword index differ from its text and name"
    for row in stored:
        yield f"the keyword index has row {row}, which is not a chunk"


def _range(term: str) -> tuple[str, str]:
    """Return the first and the last term of the index that a term matches."""
    return term, term + chr(0x10FFFF) if len(term) == 1 and is_cjk(term) else term


def _quote(term: str) -> str:
    return f'"{term}"*' if len(term) == 1 and is_cjk(term) else f'"{term}"'


def _word(word: str, *, whole: bool) -> str:
    base = stem(word)
    return f'"{base}"' if whole or (len(base) <= _EXACT and not is_cjk(base)) else f'"{base}"*'
