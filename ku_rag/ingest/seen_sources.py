"""The sources that an ingest has read, kept on disk: there may be more than fit into memory."""

from __future__ import annotations

import re

from ku_rag.store.database import Database
from ku_rag.types import Quarantined, Record

_LINE = re.compile(r":\d+$")
_BOUNDARY = re.compile(r"[/#]|$")


class SeenSources:
    """The uris read so far; a context manager that discards them at its end.

    Args:
        database: The store, whose temporary tables are used.
    """

    def __init__(self, database: Database) -> None:
        self._connection = database.connection
        self._table = f"seen_{id(self)}"
        self._broken: set[str] = set()

    def __enter__(self) -> SeenSources:
        self._connection.execute(f"CREATE TEMP TABLE {self._table} (uri TEXT PRIMARY KEY)")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.execute(f"DROP TABLE temp.{self._table}")

    def new_sources(self, record: Record) -> tuple[Record, list[Quarantined]]:
        """Return a record without the sources that were read before, and a report of these."""
        new, repeated = [], []
        for source in record.sources:
            if self._add(source.uri):
                new.append(source)
                continue
            name = record.unit.id if record.unit and record.unit.id else ""
            repeated.append(
                Quarantined(
                    source.uri,
                    f"id {name!r} stands more than once in {source.uri.removesuffix('#' + name)}: "
                    "the first is kept, give every record an id of its own",
                )
            )
        return Record(record.unit, tuple(new)), repeated

    def add(self, item: Record | Quarantined) -> None:
        """Add the sources of an item.

        A broken item stands for its whole file, or for all files below it if it is a folder: what
        cannot be read now has not been deleted. A number at its end may be that of a line or part
        of the name, so both are taken for broken.
        """
        if isinstance(item, Quarantined):
            self._broken |= {item.item, _LINE.sub("", item.item)}
            return
        for source in item.sources:
            self._add(source.uri)

    def missing_below(self, folder: str) -> list[int]:
        """Return rows of stored sources below a folder that were not read and are not broken."""
        below = folder.rstrip("/") + "/"
        rows = self._connection.execute(
            "SELECT s.row, s.uri FROM sources s WHERE s.uri >= ? AND s.uri < ? "
            f"AND s.uri NOT IN (SELECT uri FROM {self._table}) ORDER BY s.row",
            (below, below[:-1] + "0"),
        ).fetchall()
        return [row for row, uri in rows if not self._is_broken(uri)]

    def _is_broken(self, uri: str) -> bool:
        ends = (m.start() for m in _BOUNDARY.finditer(uri))
        return bool(self._broken) and any(uri[:end] in self._broken for end in ends)

    def _add(self, uri: str) -> bool:
        self._connection.execute(f"INSERT OR IGNORE INTO {self._table} VALUES (?)", (uri,))
        return self._connection.changes() == 1
