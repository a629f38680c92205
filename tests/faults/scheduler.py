"""A scheduler that lets one thread run at a time and chooses the next one by a seed.

Threads are switched at control points: operations of SQLite's VFS, sleeps of code that waits for a
lock, and statements that begin or end a transaction. A thread that waits for a lock reaches a
control point repeatedly, so that other threads run meanwhile; only the seed decides the order.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import apsw

_BASE = "unix"
_PATIENCE_S = 120


class Stuck(AssertionError):
    """A thread did not reach a control point."""


class Scheduler:
    """Runs functions in threads, interleaved at control points.

    Args:
        seed: chooses the order.

    Attributes:
        trace: (thread, control point) of each switch.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._turn = threading.Condition()
        self._running: int | None = None
        self._numbers: dict[int, int] = {}
        self._waiting: set[int] = set()
        self.trace: list[tuple[int, str]] = []
        self.errors: list[BaseException] = []

    def is_mine(self) -> bool:
        """Whether the scheduler runs the calling thread."""
        return threading.get_ident() in self._numbers

    def point(self, name: str) -> None:
        """Let another thread run, if the scheduler runs the calling thread."""
        number = self._numbers.get(threading.get_ident())
        if number is None:
            return
        with self._turn:
            self.trace.append((number, name))
            self._choose()
            self._wait(number)

    def _choose(self) -> None:
        self._running = self._random.choice(sorted(self._waiting)) if self._waiting else None
        self._turn.notify_all()

    def _wait(self, number: int) -> None:
        if not self._turn.wait_for(lambda: self._running == number, _PATIENCE_S):
            raise Stuck(f"thread {self._running} came to no control point: {self.trace[-5:]}")

    def run(self, functions: Sequence[Callable[[], Any]]) -> None:
        """Run functions until all have returned.

        Raises:
            BaseException: the first error that a function raised.
        """
        threads = [
            threading.Thread(target=self._play, args=(number, function))
            for number, function in enumerate(functions)
        ]
        self._waiting = set(range(len(threads)))
        for thread in threads:
            thread.start()
        with self._turn:
            self._turn.wait_for(lambda: len(self._numbers) == len(threads))
            self._choose()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _play(self, number: int, function: Callable[[], Any]) -> None:
        with self._turn:
            self._numbers[threading.get_ident()] = number
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._running == number)
        try:
            function()
        except BaseException as error:
            self.errors.append(error)
        finally:
            with self._turn:
                del self._numbers[threading.get_ident()]  # the system may reuse it
                self._waiting.discard(number)
                self._choose()


current: Scheduler | None = None
"""The scheduler whose threads stop at the control points of this process."""


def _point(name: str) -> None:
    if current:
        current.point(name)


class _File(apsw.VFSFile):
    def __init__(self, filename: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(_BASE, filename, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        _point("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        _point("sync")
        super().xSync(flags)

    def xLock(self, level: int) -> None:  # noqa: N802
        _point("lock")
        super().xLock(level)


class _SteppedVFS(apsw.VFS):
    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        _point("open")
        return _File(name, flags)

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        if current and current.is_mine():
            _point("busy")
            return microseconds
        return super().xSleep(microseconds)


def install() -> list[object]:
    """Add control points to the VFS and the sleeps of this process; the caller keeps the result.

    Call it before the first knowledge base is opened, because the page checksums stack on the VFS
    that is the default at that time.
    """
    if "cksmvfs" in apsw.vfs_names():
        raise RuntimeError("cksumvfs is loaded already: install the control points before it")
    sleep = time.sleep

    def stepped_sleep(seconds: float) -> None:
        if current and current.is_mine():
            _point("sleep")
        else:
            sleep(seconds)

    time.sleep = stepped_sleep
    return [_SteppedVFS("stepped", base=_BASE, makedefault=True)]
