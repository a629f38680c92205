"""The inverted index: every unit lists the chunks that name it (KU-RAG, section 3.2.2, Assembly).

The lists are a function of the units and chunks that there are, whatever order they came in: a new
chunk is looked through for all names, and a new name is looked for in all chunks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from ku_rag.indexes import keywords
from ku_rag.indexes.names import NameIndex, matchable
from ku_rag.store.database import Database


class InvertedIndex:
    """Keeps the lists right while units and chunks come and go; called inside changes.

    Args:
        database: where the lists are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: NameIndex | None = None
        self._version = -1

    def names(self) -> NameIndex:
        """All names that are looked up in texts, read once and kept up to date."""
        version = self._database.version()
        if self._names is None or version != self._version:
            self._names = NameIndex()
            self._version = version
            for key, unit in self._database.connection.execute(
                "SELECT n.key, n.unit FROM names n JOIN units u ON u.row = n.unit WHERE u.match"
            ):
                if matchable(key):
                    self._names.add(key, unit)
        return self._names

    def forget(self) -> None:
        """Read the names again at the next use; called when a change was taken back."""
        self._names = None

    def rename(self, unit: int, *, before: set[str], after: set[str]) -> None:
        """Follow a unit's names: lists that a name no longer earns are shortened, others grow.

        Args:
            unit: row of the unit.
            before: name keys that were looked up until now.
            after: name keys that are looked up from now on.
        """
        connection = self._database.connection
        names = self.names()
        before = set(filter(matchable, before))
        after = set(filter(matchable, after))
        for key in before - after:
            names.remove(key, unit)
        for key in after - before:
            names.add(key, unit)
        if before - after:
            self._unlink(connection, unit, after)
        for key in sorted(after - before):
            self._link_stored(connection, unit, key)

    def introduce(self, units: Mapping[int, set[str]]) -> None:
        """Look up the names of new units from now on: unit row → name keys."""
        connection = self._database.connection
        names = self.names()
        searched = connection.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is not None
        for unit, keys in units.items():
            for key in sorted(filter(matchable, keys)):
                names.add(key, unit)
                if searched:
                    self._link_stored(connection, unit, key)

    def drop(self, unit: int, keys: set[str]) -> None:
        """Look a unit's names up no longer; the unit itself, lists included, is being deleted."""
        names = self.names()
        for key in filter(matchable, keys):
            names.remove(key, unit)

    def add_chunks(self, chunks: Mapping[int, str]) -> None:
        """List new chunks under every unit that they name."""
        names = self.names()
        _link(
            self._database.connection,
            ((unit, chunk) for chunk, text in chunks.items() for unit in names.find(text)),
        )

    @staticmethod
    def _link_stored(connection: sqlite3.Connection, unit: int, key: str) -> None:
        wanted = _only({key}, unit)
        candidates = keywords.chunks_with_all(connection, key)
        _link(connection, ((unit, chunk) for chunk, text in candidates if wanted.find(text)))

    @staticmethod
    def _unlink(connection: sqlite3.Connection, unit: int, left: set[str]) -> None:
        wanted = _only(left, unit)
        named = connection.execute(
            "SELECT c.row, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
            "WHERE l.unit = ? AND NOT l.owned",
            (unit,),
        ).fetchall()
        connection.executemany(
            "DELETE FROM unit_chunks WHERE unit = ? AND chunk = ?",
            ((unit, chunk) for chunk, text in named if not wanted.find(text)),
        )


def differences(database: Database) -> Iterator[str]:
    """Where the stored lists are not what the names and texts say; for `verify`."""
    connection = database.connection
    names = InvertedIndex(database).names()
    for chunk, text, owner in connection.execute(
        "SELECT c.row, c.text, s.unit FROM chunks c JOIN sources s ON s.row = c.source"
    ):
        expected = {(unit, 0) for unit in names.find(text) if unit != owner}
        if owner is not None:
            expected.add((owner, 1))
        stored = set(
            connection.execute("SELECT unit, owned FROM unit_chunks WHERE chunk = ?", (chunk,))
        )
        if stored != expected:
            yield (
                f"chunk {chunk} is listed by units {sorted(stored)}, its text says "
                f"{sorted(expected)} (unit row, 1 when owned)"
            )


def _only(keys: Iterable[str], unit: int) -> NameIndex:
    index = NameIndex()
    for key in keys:
        index.add(key, unit)
    return index


def _link(connection: sqlite3.Connection, links: Iterable[tuple[int, int]]) -> None:
    # A chunk that a unit owns is in its list already and stays marked as owned.
    connection.executemany("INSERT OR IGNORE INTO unit_chunks VALUES (?, ?, 0)", links)
