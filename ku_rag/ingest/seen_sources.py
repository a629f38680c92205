"""The sources that an ingest has read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ku_rag.ingest.readers.registry import READERS
from ku_rag.store.connection import Connection
from ku_rag.types import Quarantined, Record

_LINE = re.compile(r":\d+$")
_BOUNDARY = re.compile(r"[/#]|$")


def uris_below(folder: Path) -> tuple[str, str]:
    """Return the range of the uris of files below a folder; the second one is exclusive."""
    path = folder.as_posix().rstrip("/")
    return f"{path}/", f"{path}0"  # "0" follows "/"


class SeenSources:
    """The uris read so far."""

    def __init__(self) -> None:
        self._uris: set[str] = set()
        self._broken: set[str] = set()
        self._files: set[str] = set()

    def new_sources(self, record: Record) -> tuple[Record, list[Quarantined]]:
        """Return a record without the sources that were read before, and a report of these."""
        new, repeated = [], []
        for source in record.sources:
            if source.uri not in self._uris:
                self._uris.add(source.uri)
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
        return replace(record, sources=tuple(new)), repeated

    def add(self, item: Record | Quarantined) -> None:
        """Add the sources of an item.

        A broken item stands for its whole file, or for all files below it if it is a folder: what
        cannot be read now has not been deleted. A number at its end may be that of a line or part
        of the name, so both are taken for broken.
        """
        if isinstance(item, Quarantined):
            self._broken |= {item.item, _LINE.sub("", item.item)}
        else:
            self._uris.update(source.uri for source in item.sources)
            self._files.update(source.uri.partition("#")[0] for source in item.sources)

    def missing_below(self, connection: Connection, folder: Path) -> dict[int, str]:
        """Return row → uri of stored sources below a folder that were not read, or broken."""
        # Of a document that was read, all is known; a remark is on a picture or a page.
        broken = {file for file in self._broken if not (file in self._files and is_document(file))}
        rows = connection.execute(
            "SELECT row, uri FROM sources WHERE uri >= ? AND uri < ? ORDER BY row",
            uris_below(folder),
        )
        return {
            row: uri
            for row, uri in rows
            if uri not in self._uris
            and broken.isdisjoint(uri[: m.start()] for m in _BOUNDARY.finditer(uri))
        }

    def has_other_form(self, uri: str) -> bool:
        """Return whether the file of a part was read whole, or a whole file in parts."""
        file, _, part = uri.partition("#")
        return file in (self._uris if part else self._files)


def is_document(file: str) -> bool:
    """Return whether a file is a text or document, by its suffix."""
    reader = READERS.get(Path(file).suffix.lower())
    return reader is not None and reader.returns == "outline"
