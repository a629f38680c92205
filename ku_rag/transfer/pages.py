"""An SQLite file read page by page, without SQLite: what is left of it when it is damaged.

Every leaf holds whole rows, so they can be had whatever became of the pages above. The format is
described at https://www.sqlite.org/fileformat2.html; the log beside the file is laid over it. Pages
on the free list are passed over: they hold what was deleted.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ku_rag.errors import NotFound

Value = str | bytes | int | float | None

_MAGIC = b"SQLite format 3\0"
_LEAF_ROWS = 0x0D
_LEAF_KEYS = 0x0A
_NODE_KEYS = 0x02
_KINDS = (_LEAF_ROWS, _LEAF_KEYS, _NODE_KEYS, 0x05)
_PAGE_BYTES = 8192
_HEADER = 100
_WAL_HEADER = 32
_FRAME_HEADER = 24
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_MOST_FIELDS = 64
_MOST = 1 << 63


class Broken(ValueError):
    """Bytes that are not what the format says."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One row, or one entry of an index.

    Args:
        row: its number; None in an index and in a table without row numbers.
        fields: its values.
    """

    row: int | None
    fields: tuple[Value, ...]


class Pages:
    """The pages of a database file with its log; a context manager.

    Args:
        path: the file; it is only read.

    Attributes:
        broken: pages and cells that could not be read, as "page 7" or "page 7, cell 3".
        free_list_read: whether it is known which pages hold what was deleted.

    Raises:
        NotFound: it is not there, or empty.
    """

    def __init__(self, path: Path) -> None:
        self.broken: dict[str, None] = {}
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise NotFound(
                f"{path} cannot be read ({error.strerror}): there is no store"
            ) from error
        size = path.stat().st_size
        if not size:
            self._file.close()
            raise NotFound(f"{path} is empty: nothing is left that could be saved")
        self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._wal = _read(path.with_name(path.name + "-wal"))
        self._size = self._page_size()
        self._frames = self._log()
        count = max(size // self._size, *self._frames, 1)
        header = self._page(1)[:_HEADER]
        self.free_list_read = True
        said = int.from_bytes(header[28:32], "big")
        if header.startswith(_MAGIC) and said > count:
            self.broken[f"pages {count + 1} to {said}"] = None
        self._count = count
        self._free = self._free_list(header)

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def rows(self) -> Iterator[Cell]:
        """The rows of all tables that number theirs."""
        for number in self._live():
            # A first byte that means nothing was another: what is a row tells its checksum.
            kind = self._kind(number)
            if kind == _LEAF_ROWS or kind not in (0, *_KINDS):
                yield from self._numbered(number)

    def entries(self) -> Iterator[list[Cell]]:
        """What indexes, and tables without row numbers, hold: one page at a time."""
        for number in self._live():
            if self._kind(number) in (_LEAF_KEYS, _NODE_KEYS):
                yield list(self._cells(number))

    # ---- pages ---------------------------------------------------------------------------------

    def _live(self) -> Iterator[int]:
        return (number for number in range(1, self._count + 1) if number not in self._free)

    def _page(self, number: int) -> bytes:
        at = self._frames.get(number)
        if at is not None:
            return self._wal[at : at + self._size]
        page = self._data[(number - 1) * self._size : number * self._size]
        if number < 1 or len(page) < self._size:
            raise Broken(f"there is no page {number}")
        return page

    def _kind(self, number: int) -> int:
        try:
            return self._page(number)[_HEADER if number == 1 else 0]
        except Broken:
            return 0

    def _page_size(self) -> int:
        """What most pages look right with: the size that the header says may be damaged."""
        said = int.from_bytes(self._data[16:18], "big")
        sizes = {_PAGE_BYTES, 65536 if said == 1 else said}
        sizes = {size for size in sizes if size >= 512 and size & (size - 1) == 0}

        def fits(size: int) -> float:
            starts = range(size, len(self._data), size)
            return sum(self._data[at] in (0, *_KINDS) for at in starts) / max(1, len(starts))

        return max(sorted(sizes), key=fits)

    def _log(self) -> dict[int, int]:
        """Where in the log the last committed content of each page stands."""
        frames: dict[int, int] = {}
        waiting: dict[int, int] = {}
        salts = self._wal[16:24]
        step = _FRAME_HEADER + self._size
        for at in range(_WAL_HEADER, len(self._wal) - step + 1, step):
            number, committed = struct.unpack_from(">II", self._wal, at)
            if self._wal[at + 8 : at + 16] != salts:
                continue  # of an earlier use of the file, or damaged
            if number:
                waiting[number] = at + _FRAME_HEADER
            if committed:
                frames |= waiting
                waiting = {}
        return frames

    def _free_list(self, header: bytes) -> set[int]:
        free: set[int] = set()
        number = int.from_bytes(header[32:36], "big")
        expected = int.from_bytes(header[36:40], "big")
        with suppress(Broken):
            while number and number not in free and number <= self._count:
                page = self._page(number)
                free.add(number)
                number, leaves = struct.unpack_from(">II", page)
                leaves = min(leaves, self._size // 4 - 2)
                free.update(struct.unpack_from(f">{leaves}I", page, 8))
        # A wrong list would hide rows; what was deleted is rather shown, and that is said.
        self.free_list_read = header.startswith(_MAGIC) and len(free) == expected
        return free if self.free_list_read else set()

    # ---- cells ---------------------------------------------------------------------------------

    def _numbered(self, number: int) -> Iterator[Cell]:
        """The rows of a leaf; one whose number does not fit between its neighbours is put right.

        No checksum covers the number. Numbers rise, and mostly one by one.
        """
        cells = list(self._cells(number))
        numbers = [cell.row or 0 for cell in cells]
        for n, cell in enumerate(cells):
            before = numbers[n - 1] if n else 0
            after = numbers[n + 1] if n + 1 < len(numbers) else _MOST
            if before < numbers[n] and (numbers[n] < after or after <= before):
                yield cell
            elif after == before + 2:
                numbers[n] = before + 1
                yield Cell(before + 1, cell.fields)
            else:
                self.broken[f"page {number}, cell {n}"] = None

    def _cells(self, number: int) -> Iterator[Cell]:
        page = self._page(number)
        start = _HEADER if number == 1 else 0
        kind = page[start]
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        first = start + (12 if kind == _NODE_KEYS else 8)
        content = int.from_bytes(page[start + 5 : start + 7], "big") or 65536
        most = (min(content, self._size) - first) // 2
        if kind not in _KINDS or count > most:
            self.broken[f"page {number}"] = None
            count = max(0, min(count, most))
        for n in range(count):
            at = int.from_bytes(page[first + 2 * n : first + 2 * n + 2], "big")
            try:
                found = self._cell(page, at, kind)
            except (Broken, IndexError, OverflowError, struct.error, UnicodeDecodeError):
                self.broken[f"page {number}, cell {n}"] = None
            else:
                yield found

    def _cell(self, page: bytes, at: int, kind: int) -> Cell:
        if kind == _NODE_KEYS:
            at += 4
        size, at = _varint(page, at)
        row = None
        if whole_rows := kind not in (_LEAF_KEYS, _NODE_KEYS):
            row, at = _varint(page, at)
        return Cell(row, _record(self._payload(page, at, size, whole_rows=whole_rows)))

    def _payload(self, page: bytes, at: int, size: int, *, whole_rows: bool) -> bytes:
        """The bytes of a record; what does not fit its page goes on in others."""
        usable = self._size
        most = usable - 35 if whole_rows else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return page[at : at + size]
        if size > len(self._data) + len(self._wal):
            raise Broken("the record is longer than the file")
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= most else least
        pieces = [page[at : at + local]]
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        left = size - local
        while left > 0:
            more = self._page(following)
            pieces.append(more[4 : 4 + min(left, usable - 4)])
            following = int.from_bytes(more[:4], "big")
            left -= usable - 4
        return b"".join(pieces)


def _record(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
        if len(kinds) > _MOST_FIELDS:
            raise Broken("the record has too many fields")
    at = end
    values: list[Value] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        if at > len(payload):
            raise Broken("the record ends early")
        values.append(value)
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind >= 12:
        end = at + (kind - 12) // 2
        data = payload[at:end]
        return (data.decode() if kind % 2 else data), end
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind == 0:
        return None, at
    raise Broken(f"there is no value of kind {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(9):
        byte = data[at + n]
        if n == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    raise Broken("no number")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
