"""The inverted index: every unit lists the chunks that name it (KU-RAG, section 3.2.2, Assembly).

The lists are a function of the units and chunks that there are, whatever order they came in: a new
chunk is looked through for all names, and a new name is looked for in all chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from ku_rag.indexes import keywords
from ku_rag.indexes.name_index import NameIndex, matchable
from ku_rag.store.connection import Connection
from ku_rag.store.database import Database
from ku_rag.store.sql import as_json, fields
from ku_rag.text.tokens import words

# A chunk that a unit owns is in its list already and stays marked as owned.
_LINKED = f"INSERT OR IGNORE INTO unit_chunks SELECT {fields(2)}, 0 FROM json_each(?)"
_FEW_LETTERS = 20_000
"""Up to so many letters are sooner looked through name by name than all names are read."""


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

    def _known(self) -> NameIndex | None:
        """The names, if they were read and are up to date; what was not read needs no care."""
        return self._names if self._version == self._database.version() else None

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
        for key in sorted(after - before):
            self._link_stored(connection, unit, key)

    def introduce(self, units: Mapping[int, set[str]]) -> None:
        """Look up the names of new units from now on: unit row → name keys."""
        connection = self._database.connection
        names = self._known()
        searched = connection.execute("SELECT 1 FROM chunks LIMIT 1").fetchone() is not None
        for unit, keys in units.items():
            for key in sorted(filter(matchable, keys)):
                if names:
                    names.add(key, unit)
                if searched:
                    self._link_stored(connection, unit, key)

    def drop(self, unit: int, keys: set[str]) -> None:
        """Look a unit's names up no longer; the unit itself, lists included, is being deleted."""
        if names := self._known():
            for key in filter(matchable, keys):
                names.remove(key, unit)

    def add_chunks(self, chunks: Mapping[int, str]) -> None:
        """List new chunks under every unit that they name.

        Args:
            chunks: row → text.
        """
        connection = self._database.connection
        few = sum(map(len, chunks.values())) <= _FEW_LETTERS
        one_by_one = few and not self._known()
        find = partial(named, connection) if one_by_one else self.names().find
        links = [(unit, chunk) for chunk, text in chunks.items() for unit in find(text)]
        connection.execute(_LINKED, (as_json(links),))

    @staticmethod
    def _link_stored(connection: Connection, unit: int, key: str) -> None:
        wanted = _only({key}, unit)
        candidates = keywords.chunks_with_all(connection, key)
        _link(connection, ((unit, chunk) for chunk, text in candidates if wanted.find(text)))

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
            ((unit, chunk) for chunk, text in named if not wanted.find(text)),
        )


def named(connection: Connection, text: str) -> set[int]:
    """The units that a text names, looked up in the store: for few texts and many names."""
    tokens = words(text)
    found: set[int] = set()
    for start in range(len(tokens)):
        for end in range(start + 1, len(tokens) + 1):
            key = " ".join(tokens[start:end])
            # What begins with these words lies between them with a blank and the sign after it.
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


def _link(connection: Connection, links: Iterable[tuple[int, int]]) -> None:
    connection.execute(_LINKED, (as_json(links),))
