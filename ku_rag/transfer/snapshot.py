"""A copy of the whole base that opens as one, taken while others read and write.

The store is copied by `VACUUM INTO`: one read transaction that hinders no writer, and a copy
without holes, so without the texts that were deleted. Pictures never change under their name, so
those that the copy names are copied after it. Caches are left out; they are made anew.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag.store.connection import connect
from ku_rag.store.database import Database, explained
from ku_rag.store.layout import Layout
from ku_rag.transfer import atomic_folder
from ku_rag.types import Quarantined

_TRIES = 3


@dataclass(slots=True)
class Snapshot:
    """What was copied.

    Args:
        pictures: number of files.
        bytes: size of everything.
        left_out: pictures that are missing or not what they were.
        seconds: how long it took.
    """

    pictures: int = 0
    bytes: int = 0
    left_out: list[Quarantined] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The shape that `ku snapshot --json` prints."""
        return {
            "pictures": self.pictures,
            "bytes": self.bytes,
            "left_out": [{"item": one.item, "reason": one.reason} for one in self.left_out],
            "seconds": round(self.seconds, 3),
        }


def take(database: Database, layout: Layout, folder: Path, *, link: bool = False) -> Snapshot:
    """Copy a base into a folder that is new or empty.

    Args:
        database: the store.
        layout: where it lies.
        folder: appears when everything is copied and synced.
        link: give the pictures a second name instead of copying them, where the file system can.

    Raises:
        Refused: the folder holds something.
        ReadOnly: it cannot be written.
        Corrupt: the store is damaged.
    """
    started = time.monotonic()
    with atomic_folder.beside(folder, replaces=lambda _: False, what="a snapshot") as made:
        for left in reversed(range(_TRIES)):
            copy = Layout(made)
            _copy_store(database, copy)
            found = _copy_pictures(layout, copy, link=link)
            if not (left and _moved_on(database, found)):
                break
            atomic_folder.empty(made)
        copy.images.mkdir(exist_ok=True)
        copy.indexes.mkdir()
        if layout.settings.exists():
            atomic_folder.copy_file(layout.settings, copy.settings)
        found.bytes = copy.bytes()
    found.seconds = time.monotonic() - started
    return found


def _copy_store(database: Database, copy: Layout) -> None:
    with explained(database.path):
        database.connection.execute("VACUUM INTO ?", (str(copy.database),))
    with closing(connect(copy.database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def _copy_pictures(layout: Layout, copy: Layout, *, link: bool) -> Snapshot:
    found = Snapshot()
    with closing(connect(copy.database, read_only=True)) as connection:
        for digest, file in connection.execute("SELECT hash, file FROM images ORDER BY hash"):
            path = layout.image(file)
            try:
                if copy.image(file) == path:  # linked in place: an absolute path
                    path.stat()
                    continue
                copied = atomic_folder.copy_file(path, copy.image(file), link=link)
            except OSError as error:
                found.left_out.append(Quarantined(digest, f"{path}: {error.strerror}"))
                continue
            found.pictures += 1
            if copied not in ("", digest):
                found.left_out.append(
                    Quarantined(digest, f"{path}: its content has changed; copied as it is")
                )
    return found


def _moved_on(database: Database, found: Snapshot) -> bool:
    """Whether a picture is missing because its rows were deleted, and it swept, meanwhile."""
    return any(
        not database.connection.execute(
            "SELECT 1 FROM images WHERE hash = ?", (one.item,)
        ).fetchone()
        for one in found.left_out
    )
