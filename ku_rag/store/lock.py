"""One writer at a time: an advisory lock on a file, which the system drops when its holder dies."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ku_rag.errors import Locked, ReadOnly
from ku_rag.store.file_lock import lock_file

_POLL_S = 0.05
_WIDTH = 15


class WriterLock:
    """The writer lock of one knowledge base; re-entrant within a thread.

    A thread waits for the other threads of its process as long as they take, for another process
    `wait_s` seconds.

    Args:
        path: the lock file; it holds the process number of the last holder.
        wait_s: seconds to wait for another process before giving up.
    """

    def __init__(self, path: Path, *, wait_s: float) -> None:
        self._path = path
        self._wait_s = wait_s
        self._turn = threading.RLock()
        self._file: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        """Wait for the lock.

        Raises:
            ReadOnly: its file cannot be opened for writing.
            Locked: another process is writing.
        """
        self._acquire(self._wait_s)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            os.close(self._file)
            self._file = None
        self._turn.release()

    @contextmanager
    def try_acquire(self) -> Iterator[bool]:
        """Hold the lock unless it is held, even by this thread; yield whether it was acquired."""
        if not self._turn.acquire(blocking=False):
            yield False
            return
        acquired = False
        try:
            if self._depth == 0:
                with suppress(Locked, ReadOnly):
                    self._acquire(0)
                    acquired = True
            yield acquired
        finally:
            if acquired:
                self.__exit__()
            self._turn.release()

    def _acquire(self, wait_s: float) -> None:
        self._turn.acquire()
        try:
            if self._depth == 0:
                self._file = self._lock_file(wait_s)
        except BaseException:
            self._turn.release()
            raise
        self._depth += 1

    def _lock_file(self, wait_s: float) -> int:
        folder = self._path.parent
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._read_only(error) from error
        deadline = time.monotonic() + wait_s
        while True:
            try:
                lock_file(file)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                    continue
                holder = os.read(file, 32).decode(errors="replace").strip() or "unknown"
                os.close(file)
                raise Locked(
                    f"process {holder} is writing to {folder} and did not finish "
                    f"within {wait_s:g} s: wait for it, or stop it"
                ) from None
            # Written over: file systems flush a file that was cut to nothing and written anew.
            try:
                os.write(file, f"{os.getpid():<{_WIDTH}}\n".encode())
            except OSError as error:
                os.close(file)
                raise self._read_only(error) from error
            return file

    def _read_only(self, error: OSError) -> ReadOnly:
        return ReadOnly(
            f"{self._path.parent} cannot be written to ({self._path.name}: {error.strerror}): "
            "check its permissions and the room on the disk, or use it read-only"
        )
