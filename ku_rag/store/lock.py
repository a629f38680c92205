"""One writer at a time: an advisory lock on a file, which the system drops when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ku_rag.errors import Locked

_POLL_S = 0.05
_WIDTH = 15


class WriterLock:
    """The writer lock of one knowledge base; re-entrant within the object.

    Args:
        path: the lock file; it holds the process number of the last holder.
        wait_s: seconds to wait for another writer before giving up.
    """

    def __init__(self, path: Path, *, wait_s: float) -> None:
        self._path = path
        self._wait_s = wait_s
        self._file: int | None = None
        self._depth = 0

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._depth > 0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._file = self._acquire(self._wait_s)
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            os.close(self._file)
            self._file = None

    @contextmanager
    def at_once(self) -> Iterator[bool]:
        """Hold it if nobody else does, and say whether: for what can as well be done later."""
        if self._depth == 0:
            try:
                self._file = self._acquire(0)
            except (Locked, OSError):
                yield False
                return
        self._depth += 1
        try:
            yield True
        finally:
            self.__exit__()

    def _acquire(self, wait_s: float) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                    continue
                holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
                os.close(file)
                raise Locked(
                    f"process {holder} is writing to {self._path.parent} and did not finish "
                    f"within {wait_s:g} s: wait for it, or stop it"
                ) from None
            # Written over: file systems flush a file that was cut to nothing and written anew.
            os.pwrite(file, f"{os.getpid():<{_WIDTH}}\n".encode(), 0)
            return file
