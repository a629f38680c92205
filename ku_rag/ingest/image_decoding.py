"""Decoding of pictures by threads, ahead of their encoding."""

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
"""One processor is left to the encoder."""
_GROUP = 64

T = TypeVar("T")


def decode_ahead(
    items: Sequence[T], decode: Callable[[T], Image]
) -> Iterator[tuple[list[tuple[T, Image]], list[tuple[T, KuError]]]]:
    """Decode pictures in groups of 64, the next group while the caller uses one.

    Several threads call `decode`, which returns RGB pictures.

    Yields:
        The decoded items of a group, and the broken ones with their errors, in order.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="decode") as pool:
        groups: deque[list[tuple[T, Future[Image]]]] = deque()
        for start in range(0, len(items) + _GROUP, _GROUP):
            groups.append(
                [(item, pool.submit(decode, item)) for item in items[start : start + _GROUP]]
            )
            if len(groups) < 2:
                continue
            sound, broken = [], []
            for item, future in groups.popleft():
                try:
                    sound.append((item, future.result()))
                except KuError as error:
                    broken.append((item, error))
            yield sound, broken
