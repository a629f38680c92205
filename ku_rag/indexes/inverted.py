"""The inverted index: a list of chunks for every unit (KU-RAG, section 3.2.2, Assembly).

A unit's list holds the chunks of its own sources and the chunks that name it. The lists depend only
on the stored units and chunks, not on their order: a new chunk is searched for all names, and a new
name is searched in all chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

from ku_rag.indexes import keywords
from ku_rag.indexes.name_index import NameIndex, matchable
from ku_rag.store.connection import Connection, as_json, fields
from ku_rag.store.database import Database
from ku_rag.text.tokens import words

# A chunk of the unit's own source is already in its list and stays marked as owned.
_LINKED = f"INSERT OR IGNORE INTO unit_chunks SELECT {fields(2)}, 0 FROM json_each(?)"
_FEW_LETTERS = 20_000
"""For shorter texts, looking up names in the database is faster than loading all names."""


class InvertedIndex:
    """Updates the lists when units and chunks change; called inside changes.

    Args:
        database: the database that holds the lists.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: NameIndex | None = None
        self._version = -1

    def names(self) -> NameIndex:
        """All names to search for in texts, loaded once and kept up to date."""
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

    def _known(self) -> NameIndex | None:
        """The loaded names if they are up to date, else None."""
        return self._names if self._version == self._database.version() else None

    def forget(self) -> None:
        """Load the names again at the next use; called after a rollback."""
        self._names = None

    def rename(self, unit: int, *, before: set[str], after: set[str]) -> None:
        """Update a unit's list after its names have changed.

        Args:
            unit: row of the unit.
            before: its old name keys.
            after: its new name keys.
        """
        connection = self._database.connection
        names = self._known()
        before = set(filter(matchable, before))
        after = set(filter(matchable, after))
        if names:
            for key in before - after:
                names.remove(key, unit)
            for key in after - before:
                names.add(key, unit)
        if before - after:
            self._unlink(connection, unit, after)
        self._link_stored(connection, [(key, unit) for key in sorted(after - before)])

    def introduce(self, units: Mapping[int, set[str]]) -> None:
        """Add the names of new units: unit row → name keys."""
        connection = self._database.connection
        names = self._known()
        new = [(key, unit) for unit, keys in units.items() for key in filter(matchable, keys)]
        if names:
            for key, unit in new:
                names.add(key, unit)
        if connection.execute("SELECT 1 FROM chunks LIMIT 1").fetchone():
            self._link_stored(connection, new)

    def drop(self, unit: int, keys: set[str]) -> None:
        """Remove the names of a unit that is being deleted with its list."""
        if names := self._known():
            for key in filter(matchable, keys):
                names.remove(key, unit)

    def add_chunks(self, chunks: Mapping[int, tuple[int | None, str]]) -> None:
        """Add new chunks to the keyword index, and to the list of every unit that they name.

        Args:
            chunks: row → row of the unit that owns it, and its text.
        """
        connection = self._database.connection
        few = sum(len(text) for _, text in chunks.values()) <= _FEW_LETTERS
        one_by_one = few and not self._known()
        find = partial(named, connection) if one_by_one else self.names().find
        links: list[tuple[int, int]] = []

        def cut() -> Iterator[tuple[int, int | None, list[str]]]:
            for row, (owner, text) in chunks.items():
                said = words(text)
                links.extend((unit, row) for unit in find(said))
                yield row, owner, said

        keywords.put(connection, cut())
        _link(connection, links)

    @staticmethod
    def _link_stored(connection: Connection, names: Sequence[tuple[str, int]]) -> None:
        """List the stored chunks that name a unit; `names` are (key, unit)."""
        links: list[tuple[int, int]] = []
        candidates = keywords.chunks_with_all(connection, [key for key, _ in names])
        for place, found in groupby(candidates, key=itemgetter(0)):
            key, unit = names[place]
            wanted = _only({key}, unit)
            links += ((unit, chunk) for _, chunk, text in found if wanted.find(words(text)))
        _link(connection, links)

    @staticmethod
    def _unlink(connection: Connection, unit: int, left: set[str]) -> None:
        wanted = _only(left, unit)
        named = connection.execute(
            "SELECT c.row, c.text FROM unit_chunks l JOIN chunks c ON c.row = l.chunk "
            "WHERE l.unit = ? AND NOT l.owned",
            (unit,),
        ).fetchall()
        connection.executemany(
            "DELETE FROM unit_chunks WHERE unit = ? AND chunk = ?",
            ((unit, chunk) for chunk, text in named if not wanted.find(words(text))),
        )


def named(connection: Connection, tokens: Sequence[str]) -> set[int]:
    """Units that folded words name, looked up in the database: for few texts and many names."""
    found: set[int] = set()
    for start in range(len(tokens)):
        for end in range(start + 1, len(tokens) + 1):
            key = " ".join(tokens[start:end])
            # Names that begin with these words sort between the key with " " and with "!" appended.
            units = connection.execute(
                "SELECT n.unit FROM names n JOIN units u ON u.row = n.unit "
                "WHERE n.key = ? AND u.match",
                (key,),
            ).fetchall()
            if units and matchable(key):
                found.update(unit for (unit,) in units)
            if not connection.execute(
                "SELECT 1 FROM names WHERE key > ? AND key < ? LIMIT 1", (f"{key} ", f"{key}!")
            ).fetchone():
                break
    return found


def differences(database: Database) -> Iterator[str]:
    """Yield differences between the stored lists and the names in texts; for `verify`."""
    connection = database.connection
    names = InvertedIndex(database).names()
    for chunk, text, owner in connection.execute(
        "SELECT c.row, c.text, s.unit FROM chunks c JOIN sources s ON s.row = c.source"
    ):
        expected = {(unit, 0) for unit in names.find(words(text)) if unit != owner}
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


def _link(connection: Connection, links: Iterable[tuple[int, int]]) -> None:
    connection.execute(_LINKED, (as_json(links),))
