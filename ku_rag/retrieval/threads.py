"""Limit the threads of BLAS while a picture is matched."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread, unless another thread of the process is in such a block already.

    The matrices of a picture are small: a second BLAS thread only waits, at full load. The limit
    holds for the whole process, so one thread at a time sets it, and the same thread restores the
    former number. A concurrent question runs under whatever limit there is.
    """
    if not _lock.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        _lock.release()
