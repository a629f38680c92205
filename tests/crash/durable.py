"""The durable steps of a process, as Python sees them: counted, and the n-th of them ends it.

A step changes the content of the disk or makes it durable: opening a file for writing, a write, a
sync, a rename, a deletion, a new folder, and the statements by which SQLite makes changes durable.
The only assumption about the code under test is that it calls Python.
"""

from __future__ import annotations

import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from ku_rag.store import connection

_CALLS = (
    *("fsync", "fdatasync", "replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link"),
    *("symlink", "ftruncate", "truncate", "write", "pwrite", "posix_fallocate"),
)
_STATEMENTS = ("BEGIN", "COMMIT", "ROLLBACK", "VACUUM", "PRAGMA JOURNAL")
_LASTING = ("COMMIT", "VACUUM")

Watcher = Callable[[str], None]
"""Called with the name of each step just before the step."""


class Torn(io.BufferedWriter):
    """A file that writes in two steps: the first half, then the second."""

    watch: Watcher

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.watch("write, nothing of it")
        half = super().write(view[: len(view) // 2])
        super().flush()
        self.watch("write, half of it")
        return half + super().write(view[len(view) // 2 :])


def watch(watcher: Watcher, root: Path, *, pages: bool = False) -> None:
    """Report every durable step in a folder, until this process ends.

    Args:
        watcher: is called with each step.
        root: steps that affect files elsewhere are not reported.
        pages: also report the writes, syncs, truncations and deletions of SQLite.
    """
    for name in _CALLS:
        setattr(os, name, _reporting(getattr(os, name), name, watcher, root))
    io.open = _opening(io.open, watcher, root)
    _watch_statements(watcher)
    if pages:
        _watch_pages(watcher)


def _watch_pages(watcher: Watcher) -> None:
    class File(apsw.VFSFile):
        def __init__(self, name: Any, flags: list[int]) -> None:
            super().__init__("cksmvfs", name, flags)
            self.name = Path(name.filename() if hasattr(name, "filename") else str(name)).name

        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - of apsw
            watcher(f"write to {self.name}")
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:  # noqa: N802 - of apsw
            watcher(f"sync {self.name}")
            super().xSync(flags)

        def xTruncate(self, size: int) -> None:  # noqa: N802 - of apsw
            watcher(f"truncate {self.name}")
            super().xTruncate(size)

    class Watched(apsw.VFS):
        def __init__(self) -> None:
            super().__init__("watched", "cksmvfs")

        def xOpen(self, name: Any, flags: list[int]) -> File:  # noqa: N802 - of apsw
            return File(name, flags)

        def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802 - of apsw
            watcher(f"delete {Path(name).name}")
            super().xDelete(name, sync)

    connection.connect(Path(":memory:")).close()  # registers cksmvfs
    _registered.append(Watched())
    connection._VFS = "watched"


_registered: list[object] = []


def _reporting(
    call: Callable[..., Any], name: str, watcher: Watcher, root: Path
) -> Callable[..., Any]:
    def report(*args: Any, **options: Any) -> Any:
        if args and (place := _within(args[0], root)):
            watcher(f"{name} {place}")
        return call(*args, **options)

    return report


def _opening(real: Callable[..., Any], watcher: Watcher, root: Path) -> Callable[..., Any]:
    def opening(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if set(mode) & set("wax") and (place := _within(file, root)):
            watcher(f"open {place}")
            if mode in ("wb", "xb", "ab") and not args and not set(options) - {"buffering"}:
                torn = Torn(io.FileIO(file, mode.replace("b", "")))
                torn.watch = watcher
                return torn
        return real(file, mode, *args, **options)

    return opening


def _watch_statements(watcher: Watcher) -> None:
    def trace(_: apsw.Cursor, sql: str, __: Any) -> bool:
        if sql.lstrip().upper().startswith(_STATEMENTS):
            watcher(sql.strip())
        return True

    class Watched(connection.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.exec_trace = trace

        def execute(self, sql: str, *args: Any) -> apsw.Cursor:
            if not sql.lstrip().upper().startswith(_LASTING):
                return super().execute(sql, *args)
            (level,) = super().execute("PRAGMA synchronous").fetchone()
            cursor = super().execute(sql, *args)
            watcher(f"after {sql.strip()}, synchronous {level}")
            return cursor

        def wal_checkpoint(self, *args: Any, **options: Any) -> tuple[int, int]:
            watcher("checkpoint")
            return super().wal_checkpoint(*args, **options)

        def close(self, *args: Any) -> None:
            watcher("close the database")
            super().close(*args)

    connection.Connection = Watched


def die(at: int) -> Watcher:
    """A watcher that kills the process just before step `at`, counted from 1; 0 never does."""
    count = 0

    def watcher(_: str) -> None:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return watcher


_FILES = ("open", "write", "mkdir", "fsync", "replace", "unlink", "rmdir", "rename")
FULL = ("open", "write", "mkdir", "fsync", "replace")
"""Steps that need room on the disk."""


def fail(at: int, code: int, *, lasting: bool = False) -> Watcher:
    """A watcher that makes the step `at` fail, counted from 1 among those that affect files.

    Statements do not fail: `tests.crash.faulty_disk` covers the files of SQLite.

    Args:
        at: the step, among those that can fail with the error.
        code: number of the error. `ENOSPC` affects the steps that need room.
        lasting: the following steps fail as well.
    """
    count = 0
    failing = failing_steps(code)

    def watcher(step: str) -> None:
        nonlocal count
        if step.startswith(failing):
            count += 1
            if count == at or (lasting and count > at):
                raise OSError(code, os.strerror(code))

    return watcher


def failing_steps(code: int) -> tuple[str, ...]:
    """The first words of the steps that can fail with an error."""
    return FULL if code == errno.ENOSPC else _FILES


def _within(file: object, root: Path) -> str | None:
    """The name of a file in a folder, given its path or handle; None if it is elsewhere."""
    if isinstance(file, int):
        try:
            file = os.readlink(f"/proc/self/fd/{file}")
        except OSError:
            return "a file"  # this system has no such folder: report too many rather than too few
    path = Path(str(file)).absolute()
    if not path.is_relative_to(root):
        return None
    return path.name if path != root else "the folder itself"
