"""SQLite's write-ahead log, read from outside: which pages it holds, as far as it is sound.

SQLite tests the checksums of the log when the first process opens it, and then no more. Read here,
they are tested every time. The format is https://www.sqlite.org/fileformat2.html#walformat.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682  # the lowest bit says in which byte order checksums are taken
_BLOCK_BYTES = 4 << 20
_PAGE_SIZES = frozenset(512 << n for n in range(8))
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Log:
    """What a log holds up to its last whole transaction.

    Args:
        path: its file.
        page_size: bytes of a page.
        frames: number of them.
        pages: page number → where its last content begins in the file.
        size: pages of the database file once all is folded in.
    """

    path: Path
    page_size: int = 0
    frames: int = 0
    pages: dict[int, int] = field(default_factory=dict)
    size: int = 0

    def sums(self) -> dict[int, int]:
        """CRC-32 of the last content of every page."""
        if not self.pages:
            return {}
        found = {}
        with self.path.open("rb") as file:
            for page, place in sorted(self.pages.items(), key=lambda item: item[1]):
                file.seek(place)
                found[page] = zlib.crc32(file.read(self.page_size))
        return found


def log_of(database: Path) -> Path:
    """The log's file."""
    return database.with_name(database.name + "-wal")


def bytes_in_log(database: Path) -> int:
    """The size of the log's file; what it holds may be folded in already."""
    try:
        return log_of(database).stat().st_size
    except OSError:
        return 0


def read(database: Path, *, most: int | None = None) -> Log:
    """Read a log, up to its first frame that is not sound.

    Args:
        database: the SQLite file.
        most: frames that are read at most; None for all.
    """
    path = log_of(database)
    try:
        with path.open("rb") as file:
            return _read(path, file, most)
    except OSError:
        return Log(path)


def _read(path: Path, file: BinaryIO, most: int | None) -> Log:
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return Log(path)
    magic, _, page_size, _, *salt, first, second = _HEADER.unpack(header)
    if magic & ~1 != _MAGIC or page_size not in _PAGE_SIZES:
        return Log(path)
    order = ">u4" if magic & 1 else "<u4"
    if _header_sum(header[:24], order) != (first, second):
        return Log(path)
    pages: dict[int, int] = {}
    begun: dict[int, int] = {}
    frames = size = 0
    place = _HEADER.size
    chain = _Chain(page_size, order, (first, second))
    for number, frame in enumerate(chain.sound(file, tuple(salt), most), 1):
        page, committed = frame
        begun[page] = place + _FRAME.size
        place += _FRAME.size + page_size
        if committed:
            pages |= begun
            begun.clear()
            frames, size = number, committed
    return Log(path, page_size, frames, pages, size)


def _header_sum(data: bytes, order: str) -> tuple[int, int]:
    first = second = 0
    words = struct.unpack(f"{order[0]}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & _WORD
        second = (second + odd + first) & _WORD
    return first, second


class _Chain:
    """The checksums of frames, each of which goes on where the one before ended.

    A step is linear in what went before and in the data, modulo 2³², so the share of the data is
    one product for all frames of a block, and only two numbers a frame are left to carry on.
    """

    def __init__(self, page_size: int, order: str, start: tuple[int, int]) -> None:
        self._page_size = page_size
        self._order = order
        self._sum = start

    def sound(
        self, file: BinaryIO, salt: tuple[int, ...], most: int | None
    ) -> Iterator[tuple[int, int]]:
        """(page, pages of the file after it if a transaction ends here) of each sound frame."""
        import numpy as np

        length = _FRAME.size + self._page_size
        weights = _weights((8 + self._page_size) // 8)
        (a, b), (c, d) = _power((8 + self._page_size) // 8)
        left = most if most is not None else 1 << 62
        while left > 0:
            wanted = min(left, max(1, _BLOCK_BYTES // length))
            block = file.read(wanted * length)
            count = len(block) // length
            left -= count
            raw = np.frombuffer(block, np.uint8, count * length).reshape(count, length)
            heads = [_FRAME.unpack_from(block, n * length) for n in range(count)]
            data = np.concatenate([raw[:, :8], raw[:, _FRAME.size :]], axis=1)
            shares = data.view(self._order).astype(np.uint32) @ weights
            for (page, committed, *rest), share in zip(heads, shares.tolist(), strict=True):
                first, second = self._sum
                self._sum = (
                    (a * first + b * second + share[0]) & _WORD,
                    (c * first + d * second + share[1]) & _WORD,
                )
                if not page or tuple(rest) != (*salt, *self._sum):
                    return
                yield page, committed
            if count < wanted:
                return


def _power(pairs: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """What `pairs` steps without data make of the two sums: powers of ((1, 1), (1, 2))."""
    numbers = _fibonacci(2 * pairs + 2)
    return (
        (numbers[2 * pairs - 1], numbers[2 * pairs]),
        (numbers[2 * pairs], numbers[2 * pairs + 1]),
    )


@cache
def _weights(pairs: int) -> NDArray[np.uint32]:
    """How much each word of `pairs` pairs counts in the two sums: uint32[2 * pairs, 2]."""
    import numpy as np

    numbers = _fibonacci(2 * pairs + 2)
    weights: Any = np.empty((2 * pairs, 2), np.uint32)
    for n in range(pairs):
        after = 2 * (pairs - 1 - n)
        weights[2 * n] = numbers[after + 1], numbers[after + 2]
        weights[2 * n + 1] = numbers[after], numbers[after + 1]
    return weights  # type: ignore[no-any-return]


def _fibonacci(most: int) -> list[int]:
    numbers = [0, 1]
    while len(numbers) < most:
        numbers.append((numbers[-1] + numbers[-2]) & _WORD)
    return numbers
