"""Pictures named after a unit: `photos/blue-lamp-2.jpg`, or `photos/Blue Lamp/1.jpg`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ku_rag.ingest.readers.item_codec import Item
from ku_rag.picture_paths import PICTURE_SUFFIXES
from ku_rag.store.layout import Layout
from ku_rag.text.tokens import name_key
from ku_rag.types import Record, Source, Unit

_VIEWS = frozenset({"front", "back", "side", "top", "bottom", "left", "right", "detail"})


class PictureNames:
    """Units that pictures or folders of pictures below `root` are named after.

    The names of files are collected first, and only units with one of these names are stored.
    """

    def __init__(self, root: Path) -> None:
        self._units: dict[str, set[tuple[str, str]]] = {}
        for folder, folders, files in os.walk(root):
            if Layout(root).database.name in files:  # a knowledge base
                folders.clear()
                continue
            pictures = [
                stem
                for stem, suffix in map(os.path.splitext, files)
                if suffix.lower() in PICTURE_SUFFIXES
            ]
            for name in [*pictures, os.path.basename(folder)] if pictures else []:
                self._units.update((key, set()) for key in _keys(name))

    def add(self, item: Item) -> None:
        """Store the id, name and aliases of a record's unit, unless its id may still change."""
        if isinstance(item, Record) and (unit := item.unit) and unit.id and not item.is_document:
            for key in map(name_key, (unit.id, unit.name, *unit.aliases)):
                if key in self._units:
                    self._units[key].add((unit.id, unit.name))

    def unit(self, name: str, *, is_view: bool = False) -> Unit | None:
        """Return the only unit of a name; that of a view may end with numbers or "front"."""
        for key in _keys(name) if is_view else (name_key(name),):
            units = list(self._units.get(key, ()))
            if len(units) == 1:
                return Unit(units[0][1], id=units[0][0])
        return None


def picture_record(unit: Unit, pictures: Iterable[Path]) -> Record:
    """Return a record with a source for each picture."""
    return Record(unit, tuple(Source(path.as_posix(), images=(path,)) for path in pictures))


def _keys(name: str) -> Iterator[str]:
    """Yield the key of a name, and shorter ones without numbers and words of views at its end."""
    words = name_key(name).split()
    while words:
        yield " ".join(words)
        last = words.pop()
        if not (last.isdecimal() or last in _VIEWS):
            return
