"""The pages of the database file, read beside SQLite and held against their sums.

Closing any handle of a file drops all locks that the process has on it (POSIX), those of SQLite
too. So the file is opened once in a process and closed after the last connection to it.
"""

from __future__ import annotations

import os
import random
import threading
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ku_rag.store import guard, wal

CHECKED_BYTES = 32 << 20
"""So much of the file is checked when it is opened: all of a smaller one, a window of others."""
_READ_BYTES = 1 << 20
_TRIES = 50
_PAUSE_S = 0.01
_SHOWN = 8


@dataclass(slots=True)
class _Held:
    handle: int | None = None
    users: int = 0


_held: dict[tuple[int, int], _Held] = {}
opening = threading.RLock()
"""Held while a connection is made or let go of, so that no handle is closed beside one."""


class PageFile:
    """A database file that a connection is open to. Made and closed under `opening`.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        found = path.stat()
        self._key = (found.st_dev, found.st_ino)
        _held.setdefault(self._key, _Held()).users += 1

    def close(self) -> None:
        """Let go of the file; its connection must be closed."""
        one = _held[self._key]
        one.users -= 1
        if not one.users:
            if one.handle is not None:
                os.close(one.handle)
            del _held[self._key]

    def sums(self, page_size: int, first: int = 0, last: int | None = None) -> Iterator[int]:
        """CRC-32 of pages `first` to `last` - 1, numbered from 0 on, as far as there are any."""
        many = max(1, _READ_BYTES // page_size)
        place = first
        while last is None or place < last:
            wanted = many if last is None else min(many, last - place)
            data = memoryview(os.pread(self._handle(), wanted * page_size, place * page_size))
            whole = len(data) // page_size
            for n in range(whole):
                yield zlib.crc32(data[n * page_size : (n + 1) * page_size])
            if whole < wanted:
                return
            place += whole

    def _handle(self) -> int:
        with opening:
            one = _held[self._key]
            if one.handle is None:
                one.handle = os.open(self.path, os.O_RDONLY)
            return one.handle


def differing(file: PageFile, *, most_bytes: int | None = None) -> list[int]:
    """The pages, numbered from 1 on, that are not what they must be.

    Pages that the log holds are not looked at: SQLite reads them there.

    Args:
        file: the database file.
        most_bytes: of a larger file only a random window of this size is read.

    Raises:
        guard.Damaged: the guard is not what was written.
        OSError: a file cannot be read.
    """
    stored = guard.read(file.path)
    if stored is None or not stored.whole:
        return []
    first, last = _window(len(stored.sums), stored.page_size, most_bytes)
    found = list(file.sums(stored.page_size, first, last))
    pages: list[int] = [
        first + n + 1
        for n in range(last - first)
        if n >= len(found) or not stored.accepts(first + n + 1, found[n])
    ]
    return _confirmed(file, pages) if pages else []


def _window(pages: int, page_size: int, most_bytes: int | None) -> tuple[int, int]:
    most = pages if most_bytes is None else max(1, most_bytes // page_size)
    if pages <= most:
        return 0, pages
    first = random.randrange(pages - most + 1)  # any window will do
    return first, first + most


def _confirmed(file: PageFile, pages: Sequence[int]) -> list[int]:
    """Those that still differ when no other process can have written them meanwhile.

    What is about to change stands in the guard before it does, and is in the log until it has. So
    if the guard says the same before and after a page was read, the page is to be as it says.
    """
    left = list(pages)
    for _ in range(_TRIES):
        before = guard.read(file.path)
        if before is None or not before.whole:
            return []
        in_log = wal.read(file.path).pages
        left = [page for page in left if page not in in_log and not _is_sound(file, before, page)]
        after = guard.read(file.path)
        if not left or (after is not None and after.state == before.state):
            return left
        time.sleep(_PAUSE_S)
    return []  # a process that writes without end; the next opening looks again


def _is_sound(file: PageFile, stored: guard.Guard, page: int) -> bool:
    found = next(file.sums(stored.page_size, page - 1, page), None)
    return page > stored.least if found is None else stored.accepts(page, found)


def as_it_lies(file: PageFile, page_size: int) -> array[int]:
    """The sums of all pages as they are now."""
    return array("I", file.sums(page_size))


def ranges(pages: Iterable[int]) -> str:
    """Page numbers in few words: `3, 7-9`."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and runs[-1][1] == page - 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:_SHOWN]]
    return ", ".join(shown) + (" …" if len(runs) > _SHOWN else "")
