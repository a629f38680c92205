"""Which words a base may contain, in memory while a run of changes looks up very many of them.

The words of a new name are looked up in the keyword index, and the words of a new text among the
names. Nearly all of them are not there, which a table of hashes tells in a fraction of the time of
a query. Whoever makes a run holds the writer lock, so only the run itself adds words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from ku_rag.store.connection import Connection, last_row

_BITS = 24
"""Of a hash: with a million words stored, 6 % of all others are taken for stored as well."""
_ROWS_A_LOOKUP = 4
"""Reading the words of so many rows takes about as long as looking up one word."""


class StoredWords:
    """The words of an index, or more: deleted ones, and others of the same hash.

    `select` is a statement that returns all words, `table` has the rows that they belong to.
    """

    def __init__(self, select: str, table: str) -> None:
        self._select = select
        self._table = table
        self._lookups = 0
        self._is_stored: NDArray[np.bool_] | None = None

    def add(self, words: Iterable[str]) -> None:
        """Add words that are stored now."""
        if self._is_stored is not None:
            self._is_stored[_hashes(words)] = True

    def among(self, connection: Connection, words: Collection[str]) -> Collection[str]:
        """Return those of some words that may be stored; all of them until reading them pays."""
        self._lookups += len(words)
        if self._is_stored is None:
            if self._lookups * _ROWS_A_LOOKUP < last_row(connection, self._table):
                return words
            self._is_stored = np.zeros(1 << _BITS, np.bool_)
            self.add(word for (word,) in connection.execute(self._select))
        return set(compress(words, self._is_stored[_hashes(words)].tolist()))


class Vocabulary:
    """The terms of the keyword index and words of new texts, and the first words of names."""

    def __init__(self) -> None:
        self.terms = StoredWords("SELECT DISTINCT term FROM word_places", "chunks")
        first = "SELECT substr(key, 1, instr(key || ' ', ' ') - 1) FROM names"
        self.beginnings = StoredWords(first, "units")


def of(connection: Connection) -> Vocabulary:
    """Return the vocabulary of the run that uses a connection, or else an empty one."""
    return connection.vocabulary or Vocabulary()


@contextmanager
def kept(connection: Connection) -> Iterator[None]:
    """Keep one vocabulary while the caller, who holds the writer lock, makes several changes."""
    connection.vocabulary = Vocabulary()
    try:
        yield
    finally:
        connection.vocabulary = None


def _hashes(words: Iterable[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, words), np.int64) & ((1 << _BITS) - 1)
