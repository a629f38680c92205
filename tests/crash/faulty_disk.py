"""A disk that fails: below the page checksums, the n-th operation of SQLite fails.

`cksumvfs` stacks on the VFS that is the default when it is loaded, so a VFS that is registered
before it serves every connection of the process, and no code under test is replaced. Python cannot
override the methods for shared memory; their system calls are replaced instead, as in SQLite's own
tests.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fcntl import F_UNLCK
from typing import Any

import apsw

_BASE = "unix"
_CODES = {
    "xOpen": apsw.SQLITE_CANTOPEN,
    "xDelete": apsw.SQLITE_IOERR_DELETE,
    "xAccess": apsw.SQLITE_IOERR_ACCESS,
    "xRead": apsw.SQLITE_IOERR_READ,
    "xWrite": apsw.SQLITE_IOERR_WRITE,
    "xSync": apsw.SQLITE_IOERR_FSYNC,
    "xTruncate": apsw.SQLITE_IOERR_TRUNCATE,
    "xFileSize": apsw.SQLITE_IOERR_FSTAT,
    "xLock": apsw.SQLITE_IOERR_LOCK,
    "xUnlock": apsw.SQLITE_IOERR_UNLOCK,
}
_SYSTEM_CALLS = {
    "open": (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
    "ftruncate": (ctypes.c_int, ctypes.c_int, ctypes.c_long),
    "fcntl": (ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p),
    "pread64": (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long),
    "pwrite64": (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long),
    "mmap": (
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long),
    ),
}
_FAILED = {"mmap": ctypes.c_void_p(-1).value}

FAULTS: dict[str, tuple[str, ...]] = {
    # An operation does nothing and fails.
    "EIO": tuple(_CODES),
    # Half of the data is written, then there is no room.
    "ENOSPC": ("xWrite",),
    # The process ends before an operation.
    "kill": tuple(_CODES),
    # A system call fails, those for shared memory among them.
    "call": ("open", "ftruncate", "mmap", "pwrite64"),
    # A lock is not granted.
    "lock": ("fcntl",),
    # The system reads or writes less than requested, which is no error.
    "short": ("pread64", "pwrite64"),
}
"""The operations that each fault affects, by the name of the fault."""


@dataclass
class Disk:
    """The fault of a process and its time.

    Attributes:
        fault: a name of `FAULTS`; "" for none.
        at: the operation that fails, counted from 1 among those that the fault affects.
        lasting: the following operations fail as well.
        log: is called with the name of each such operation.
        count: the number of such operations so far.
    """

    fault: str = ""
    at: int = 0
    lasting: bool = False
    log: Callable[[str], None] | None = None
    count: int = 0

    def arm(self, fault: str, at: int, *, lasting: bool = False) -> None:
        """Choose the fault of connections that are opened from now on.

        A process that has chosen operations of the VFS cannot choose system calls later: an error
        of this VFS is a Python exception, and Python cannot be called while one is pending.
        """
        self.fault, self.at, self.lasting, self.count = fault, at, lasting, 0
        if FAULTS[fault][0] in _SYSTEM_CALLS:
            _replace_calls(FAULTS[fault])
        elif not _registered:
            with suppress(ValueError):  # the next connection reloads it, above this one
                apsw.unregister_vfs("cksmvfs")
            _registered.append(_FaultyVFS("faulty", base=_BASE, makedefault=True))

    def disarm(self) -> None:
        """Let all operations succeed again."""
        self.fault = ""

    def fails(self, operation: str) -> bool:
        """Count an operation; return whether it fails."""
        if operation not in FAULTS.get(self.fault, ()):
            return False
        self.count += 1
        if self.log:
            self.log(operation)
        if self.count != self.at and not (self.lasting and self.count > self.at):
            return False
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def check(self, operation: str) -> None:
        """Count an operation that cannot be done partly; raise SQLite's error if it fails."""
        if self.fails(operation):
            raise _error(_CODES[operation], "disk I/O error")


DISK = Disk()


def _error(code: int, message: str) -> Exception:
    error = apsw.exception_for(code)
    error.args = (message,)
    return error


class _File(apsw.VFSFile):
    def __init__(self, filename: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(_BASE, filename, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        DISK.check("xRead")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if DISK.fails("xWrite"):
            if DISK.fault != "ENOSPC":
                raise _error(apsw.SQLITE_IOERR_WRITE, "disk I/O error")
            super().xWrite(data[: len(data) // 2], offset)
            raise _error(apsw.SQLITE_FULL, "database or disk is full")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        DISK.check("xSync")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        DISK.check("xTruncate")
        super().xTruncate(size)

    def xFileSize(self) -> int:  # noqa: N802
        DISK.check("xFileSize")
        return super().xFileSize()

    def xLock(self, level: int) -> None:  # noqa: N802
        DISK.check("xLock")
        super().xLock(level)

    def xUnlock(self, level: int) -> None:  # noqa: N802
        DISK.check("xUnlock")
        super().xUnlock(level)


class _FaultyVFS(apsw.VFS):
    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        DISK.check("xOpen")
        return _File(name, flags)

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
        DISK.check("xDelete")
        super().xDelete(name, sync)

    def xAccess(self, name: str, flags: int) -> bool:  # noqa: N802
        DISK.check("xAccess")
        return super().xAccess(name, flags)


_registered: list[Any] = []
"""Objects that SQLite has pointers to."""


def _replace_calls(names: Iterable[str]) -> None:
    handle = apsw.VFS("system-calls", base=_BASE)
    _registered.append(handle)
    for name in names:
        result, *arguments = _SYSTEM_CALLS[name]
        prototype = ctypes.CFUNCTYPE(result, *arguments, use_errno=True)
        replacement = prototype(_system_call(name, prototype(handle.xGetSystemCall(name))))
        _registered.append(replacement)
        if not handle.xSetSystemCall(name, ctypes.cast(replacement, ctypes.c_void_p).value):
            raise RuntimeError(f"the system call {name} of VFS {_BASE} cannot be replaced")


def _system_call(name: str, real: Callable[..., int]) -> Callable[..., int]:
    def call(*values: Any) -> int:
        # The system always releases a lock.
        is_release = name == "fcntl" and ctypes.c_short.from_address(values[2]).value == F_UNLCK
        if is_release or not DISK.fails(name):
            return real(*values)
        if DISK.fault == "short":
            handle, buffer, size, place = values
            return real(handle, buffer, (size + 1) // 2, place)
        ctypes.set_errno(errno.ENOSPC if name == "pwrite64" else errno.EIO)
        return _FAILED.get(name, -1)

    return call
