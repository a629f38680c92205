"""Encoding by threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ku_rag.scale.blocks import read_blocks
from ku_rag.scale.shards import Shard, ShardWriter

_AHEAD = 2
"""Blocks that wait for each thread."""


def run(sources: Sequence[Path], size: int, writer: ShardWriter, workers: int) -> Iterator[Shard]:
    """Yield the shards of sources, in order.

    Args:
        sources: Folders and files.
        size: Records of a block.
        writer: Writes the shards.
        workers: Number of threads; they share the encoder.
    """
    with ThreadPoolExecutor(workers, "ku-encode") as pool:
        waiting = deque[Future[Shard]]()
        try:
            for number, source in enumerate(sources):
                for block in read_blocks(source, number, size):
                    waiting.append(pool.submit(writer.write, block))
                    if len(waiting) > _AHEAD * workers:
                        yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
