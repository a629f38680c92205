"""Limit the threads of BLAS while a picture is matched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_users = 0
_limits: threadpool_limits | None = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread; the last of several concurrent users restores the former number.

    The matrices of a picture are small: a second BLAS thread only waits, at full load. The limit
    holds for the whole process, so it is set by the first user and removed by the last.
    """
    global _users, _limits
    with _lock:
        if _users == 0:
            _limits = threadpool_limits(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limits is not None:
                _limits.restore_original_limits()
                _limits = None
