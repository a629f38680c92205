"""From sources to blocks of records; a block becomes one shard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ku_rag.ingest.readers.folder import read
from ku_rag.ingest.readers.records import Item
from ku_rag.ingest.seen_sources import SeenSources
from ku_rag.types import Quarantined

_BLOCK_BYTES = 64 << 20
_PICTURE_BYTES = 256 << 10
"""What a picture counts for before it is read."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive records of one source.

    Args:
        place: Number of the source, number of the block in it.
        items: The records, and what the reader left out.
    """

    place: tuple[int, int]
    items: tuple[Item, ...]


def read_blocks(source: Path, number: int, size: int) -> Iterator[Block]:
    """Read a source in blocks that depend on its content only.

    Args:
        source: A folder or file, as `ku ingest` takes it.
        number: Of the source.
        size: Records of a block; one with long texts or many pictures has fewer.

    Raises:
        NotFound, BadInput: The source cannot be read; see `ku_rag.ingest.readers.folder.read`.
    """
    seen = SeenSources()
    items: list[Item] = []
    count = weight = 0
    for item in read(source):
        if isinstance(item, Quarantined):
            items.append(item)
        else:
            record, repeated = seen.new_sources(item)
            items += repeated
            if not record.sources:
                continue
            items.append(record)
            for one in record.sources:
                weight += sum(map(len, one.texts)) + _PICTURE_BYTES * len(one.images)
        if len(items) >= size or weight >= _BLOCK_BYTES:
            yield Block((number, count), tuple(items))
            items, weight, count = [], 0, count + 1
    if items:
        yield Block((number, count), tuple(items))
