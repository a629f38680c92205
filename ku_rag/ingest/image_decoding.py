"""Decoding pictures ahead: while some are encoded, the next are read by other threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from PIL.Image import Image

from ku_rag.errors import KuError

LONGEST = 640
"""Pictures are decoded to about this many pixels for encoding; the file is kept as it is."""
_THREADS = max(1, min(8, (os.cpu_count() or 1) - 1))
"""One processor is left to what encodes meanwhile."""
_TOGETHER = 64

T = TypeVar("T")


def decoded(
    items: Sequence[T], decode: Callable[[T], Image]
) -> Iterator[tuple[list[tuple[T, Image]], list[tuple[T, KuError]]]]:
    """Decode pictures, 64 at a time, the next ones while those are in use.

    Args:
        items: what to decode.
        decode: makes an RGB picture of one; called by several threads.

    Yields:
        (those decoded, those that are broken with what is wrong), in order.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="decode") as pool:
        coming: deque[list[tuple[T, Future[Image]]]] = deque()
        for start in range(0, len(items), _TOGETHER):
            group = items[start : start + _TOGETHER]
            coming.append([(one, pool.submit(decode, one)) for one in group])
            if len(coming) > 1:
                yield _sorted(coming.popleft())
        while coming:
            yield _sorted(coming.popleft())


def _sorted(
    group: list[tuple[T, Future[Image]]],
) -> tuple[list[tuple[T, Image]], list[tuple[T, KuError]]]:
    sound, broken = [], []
    for item, future in group:
        try:
            sound.append((item, future.result()))
        except KuError as error:
            broken.append((item, error))
    return sound, broken
