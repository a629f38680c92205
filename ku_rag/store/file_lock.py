"""Advisory locks of the operating system, which drops them when their process ends."""

from __future__ import annotations

import sys

_WINDOWS_LOCK_AT = 1 << 30
"""The byte that is locked on Windows, where a locked byte cannot be read: past any content."""


def lock_file(file: int, *, wait: bool = False) -> None:
    """Lock an open file for this process, until the file is closed.

    Args:
        file: its descriptor, of a folder too, except on Windows.
        wait: whether to wait while another process holds the lock.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    # Each system lacks the module of the other one.
    if sys.platform == "win32":
        import msvcrt
        import os

        os.lseek(file, _WINDOWS_LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(error.errno, error.strerror) from error
        finally:
            os.lseek(file, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
