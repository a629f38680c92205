"""Which sources an ingest came across: on disk, because there may be more than memory holds."""

from __future__ import annotations

import re

from ku_rag.store.database import Database
from ku_rag.types import IngestReport, Quarantined, Record

_LINE = re.compile(r":\d+$")
_BOUNDARY = re.compile(r"[/#]|$")


class Seen:
    """The uris met so far; a context manager, gone at its end.

    Args:
        database: whose temporary tables are used.
    """

    def __init__(self, database: Database) -> None:
        self._connection = database.connection
        self._table = f"seen_{id(self)}"
        self._broken: set[str] = set()

    def __enter__(self) -> Seen:
        self._connection.execute(f"CREATE TEMP TABLE {self._table} (uri TEXT PRIMARY KEY)")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.execute(f"DROP TABLE temp.{self._table}")

    def first_time(self, record: Record, report: IngestReport) -> Record:
        """The record without the sources that were met before; those are reported."""
        fresh = []
        for source in record.sources:
            if self._add(source.uri):
                fresh.append(source)
                continue
            name = record.unit.id if record.unit and record.unit.id else ""
            report.quarantined.append(
                Quarantined(
                    source.uri,
                    f"id {name!r} stands more than once in {source.uri.removesuffix('#' + name)}: "
                    "the first is kept, give every record an id of its own",
                )
            )
        return Record(record.unit, tuple(fresh))

    def note(self, item: Record | Quarantined) -> None:
        """Remember what an item stands for.

        A broken item vouches for its whole file, or for all below it if it is a folder: what cannot
        be read now is not gone. Whether a number at its end is a line's or part of the name cannot
        be told, so both are vouched for.
        """
        if isinstance(item, Quarantined):
            self._broken |= {item.item, _LINE.sub("", item.item)}
            return
        for source in item.sources:
            self._add(source.uri)

    def missing_below(self, folder: str) -> list[int]:
        """Rows of the stored sources below a folder that were not met and are not broken."""
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
