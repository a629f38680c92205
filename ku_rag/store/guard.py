"""ku.guard: what the pages of the database file must be, and how many commits there were.

SQLite has no checksums of its own: a flipped bit in an index makes it miss a hit without a word,
and one in the log makes it drop every commit after it. So a small file beside the database holds

    header   the size of a page, and the number of the last commit
    sums     CRC-32 of each page
    FOLD …   pages that are about to change, with their new sums: written before they are
    DONE     they have changed
    FOLD …

A page is sound if it has its last sum, or, while a fold is not known to be done, one of the sums
that it may have in between. So there is no moment at which the file cannot be checked.
"""

from __future__ import annotations

import os
import struct
import sys
import time
import zlib
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ku_rag.store.layout import sync_folder

MAGIC = b"KUGUARD1"
_HEADER = struct.Struct("<8sIIII")  # magic, page size, whole, pages, CRC of the sums
_COMMITS = struct.Struct("<QI")  # number, CRC-32 of it
_COMMITS_AT = 48
_START = 64
_RECORD = struct.Struct("<4sIII")  # FOLD or DONE, pages of the file, entries, CRC-32
_ENTRY = struct.Struct("<II")
_FOLD = b"FOLD"
_DONE = b"DONE"
_MOST_RECORDS = 1 << 16
_TRIES = 4
_RETRY_S = 0.005


class Damaged(ValueError):
    """The guard itself is not what was written."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What a guard says.

    Args:
        page_size: bytes of a page of the database file.
        commits: number of the last commit that is known of.
        whole: whether the sums of all pages are known.
        sums: CRC-32 of each page, of the first one first.
        between: further sums that pages may have while a fold is under way, by page number.
        least: pages that the file has at least.
        state: changes with everything but the number of commits.
    """

    page_size: int = 0
    commits: int = 0
    whole: bool = False
    sums: array[int] = field(default_factory=lambda: array("I"))
    between: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    least: int = 0
    state: tuple[int, int] = (0, 0)

    def accepts(self, page: int, found: int) -> bool:
        """Whether a page, numbered from 1 on, may have this sum."""
        if page <= len(self.sums) and self.sums[page - 1] == found:
            return True
        return found in self.between.get(page, ())


def guard_of(database: Path) -> Path:
    """The guard's file."""
    return database.with_name("ku.guard")


def read(database: Path) -> Guard | None:
    """The guard of a database; None if there is none.

    Raises:
        Damaged: it is not what was written.
        OSError: it cannot be read.
    """
    for tried in range(_TRIES):
        try:
            data = guard_of(database).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return _parse(data) if len(data) >= _START else None
        except Damaged:
            # Another process may be in the middle of writing.
            if tried == _TRIES - 1:
                raise
            time.sleep(_RETRY_S)
    return None


def knows_pages(database: Path) -> bool:
    """Whether there is a guard that says of every page what it must be, by its header alone."""
    try:
        with guard_of(database).open("rb") as file:
            head = file.read(_START)
    except OSError:
        return False
    return len(head) == _START and _is_sound(head) and bool(_HEADER.unpack_from(head)[2])


def write(database: Path, guard: Guard) -> None:
    """Put a guard in the place of the one before, durably.

    Raises:
        OSError: it cannot be written.
    """
    path = guard_of(database)
    partial = path.with_name(path.name + ".partial")
    sums = _stored(guard.sums)
    header = bytearray(_START)
    fields = (MAGIC, guard.page_size, guard.whole, len(guard.sums), zlib.crc32(sums))
    _HEADER.pack_into(header, 0, *fields)
    struct.pack_into("<I", header, _HEADER.size, zlib.crc32(header[: _HEADER.size]))
    header[_COMMITS_AT : _COMMITS_AT + _COMMITS.size] = _commits(guard.commits)
    with partial.open("wb") as file:
        file.write(header)
        file.write(sums)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def last_commit(database: Path) -> int:
    """The number of the last commit that is known of; 0 if the guard does not say."""
    try:
        file = os.open(guard_of(database), os.O_RDONLY)
    except OSError:
        return 0
    try:
        data = os.pread(file, _COMMITS.size, _COMMITS_AT)
    finally:
        os.close(file)
    if len(data) < _COMMITS.size:
        return 0
    number: int = _COMMITS.unpack(data)[0]
    return int(number) if data == _commits(number) else 0


def note_commit(database: Path, number: int) -> None:
    """Note that a commit is durable. Not synced: a guard that is behind does no harm."""
    with suppress(OSError):
        try:
            file = os.open(guard_of(database), os.O_WRONLY)
        except FileNotFoundError:
            write(database, Guard(commits=number))
            return
        try:
            os.pwrite(file, _commits(number), _COMMITS_AT)
        finally:
            os.close(file)


def begin_fold(database: Path, sums: Mapping[int, int], size: int) -> None:
    """Note durably what pages are about to become.

    Args:
        database: the SQLite file.
        sums: page number → its new CRC-32.
        size: pages that the file will have.

    Raises:
        OSError: it cannot be written; then the pages must not be changed.
    """
    entries = b"".join(_ENTRY.pack(page, found) for page, found in sorted(sums.items()))
    _append(database, _record(_FOLD, size, len(sums), entries), durable=True)


def end_fold(database: Path, size: int) -> None:
    """Note that they have become it; not synced, since it may as well be taken for under way."""
    _append(database, _record(_DONE, size, 0, b""), durable=False)


def grown(database: Path, guard: Guard) -> bool:
    """Whether so much was appended that writing it anew is worth it."""
    size = guard_of(database).stat().st_size
    return size - _START - 4 * len(guard.sums) > max(_MOST_RECORDS, 4 * len(guard.sums))


def _append(database: Path, data: bytes, *, durable: bool) -> None:
    file = os.open(guard_of(database), os.O_RDWR)
    try:
        end = _end(file)
        os.ftruncate(file, end)
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(file, data[written:], end + written)
        except OSError:
            os.ftruncate(file, end)
            raise
        if durable:
            os.fsync(file)
    finally:
        os.close(file)


def _end(file: int) -> int:
    """Where the last whole record ends; what a writer that was killed began is written over."""
    head = os.pread(file, _START, 0)
    if len(head) < _START:
        raise OSError("the guard has no header")
    pages: int = _HEADER.unpack_from(head)[3]
    place = _START + 4 * pages
    size = os.fstat(file).st_size
    while len(record := os.pread(file, _RECORD.size, place)) == _RECORD.size:
        entries: int = _RECORD.unpack(record)[2]
        after = place + _RECORD.size + _ENTRY.size * entries
        if after > size:
            break
        place = after
    return place


def _parse(data: bytes) -> Guard:
    _, page_size, whole, pages, sums_crc = _HEADER.unpack_from(data)
    if not _is_sound(data):
        raise Damaged("its header fails its checksum")
    number, number_crc = _COMMITS.unpack_from(data, _COMMITS_AT)
    if zlib.crc32(number.to_bytes(8, "little")) != number_crc:
        raise Damaged("its number of commits fails its checksum")
    stored = data[_START : _START + 4 * pages]
    if len(stored) < 4 * pages or zlib.crc32(stored) != sums_crc:
        raise Damaged("its page sums fail their checksum")
    sums = array("I", stored)
    if sys.byteorder == "big":
        sums.byteswap()
    between, least = _replay(data, _START + 4 * pages, sums)
    state = (zlib.crc32(data[:_COMMITS_AT]), zlib.crc32(data[_START:]))
    return Guard(page_size, number, bool(whole), sums, between, least, state)


def _is_sound(data: bytes) -> bool:
    """Whether a header is one, and what was written."""
    crc = zlib.crc32(data[: _HEADER.size]).to_bytes(4, "little")
    return data.startswith(MAGIC) and data[_HEADER.size : _HEADER.size + 4] == crc


def _replay(data: bytes, place: int, sums: array[int]) -> tuple[dict[int, tuple[int, ...]], int]:
    """Apply the folds that are done to `sums`; what pages may be in those that may be under way."""
    between: dict[int, tuple[int, ...]] = {}
    least = len(sums)
    begun: dict[int, int] = {}
    while place + _RECORD.size <= len(data):
        kind, size, count, crc = _RECORD.unpack_from(data, place)
        place += _RECORD.size
        if kind not in (_FOLD, _DONE):
            if not any(data[place - _RECORD.size :]):
                break  # what was not synced before the power went
            raise Damaged("a record of it is neither of its two kinds")
        if kind == _DONE and not count:
            _check_record(_DONE, size, 0, b"", crc)
            _settle(sums, begun, size)
            begun.clear()
            between.clear()
            least = size
            continue
        entries = data[place : place + _ENTRY.size * count]
        if len(entries) < _ENTRY.size * count:
            break  # its writer was killed before it changed any page
        _check_record(_FOLD, size, count, entries, crc)
        place += len(entries)
        for page, found in _ENTRY.iter_unpack(entries):
            begun[page] = found
            between[page] = (*between.get(page, ()), found)
        least = min(least, size)
    return between, least


def _check_record(kind: bytes, size: int, count: int, entries: bytes, crc: int) -> None:
    if _record(kind, size, count, entries)[12:16] != crc.to_bytes(4, "little"):
        raise Damaged("a record of it fails its checksum")


def _settle(sums: array[int], begun: Mapping[int, int], size: int) -> None:
    del sums[size:]
    for page in sorted(begun):
        if page == len(sums) + 1:
            sums.append(begun[page])
        elif page <= len(sums):
            sums[page - 1] = begun[page]


def _record(kind: bytes, size: int, count: int, entries: bytes) -> bytes:
    crc = zlib.crc32(entries, zlib.crc32(kind + struct.pack("<II", size, count)))
    return _RECORD.pack(kind, size, count, crc) + entries


def _commits(number: int) -> bytes:
    return _COMMITS.pack(number, zlib.crc32(number.to_bytes(8, "little")))


def _stored(sums: array[int]) -> bytes:
    if sys.byteorder == "big":
        sums = sums[:]
        sums.byteswap()
    return sums.tobytes()
