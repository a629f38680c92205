"""Sources are read in blocks; a shard is an export of one block, under the hash of its content.

A shard appears when everything in it is written and synced. It contains no timestamps, so equal
blocks give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ku_rag import arguments
from ku_rag.encoders.base import Encoder
from ku_rag.errors import KuError
from ku_rag.ingest.batch_encoding import BatchEncoder
from ku_rag.ingest.preparation import PreparedRecord, prepare
from ku_rag.ingest.readers.folder import read, renamed
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.seen_sources import SeenSources
from ku_rag.store.connection import as_json
from ku_rag.transfer import atomic_folder
from ku_rag.transfer.object_storage import RemoteFolder, StagedSource
from ku_rag.transfer.parquet_reader import Export
from ku_rag.transfer.record_export import write_records
from ku_rag.transfer.shard_set import SHARDS
from ku_rag.transfer.tables import MANIFEST
from ku_rag.types import Quarantined, Serializable

_BLOCK_BYTES = 64 << 20
_PICTURE_BYTES = 256 << 10
"""Assumed size of a picture that has not been read."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive records of one source, by the numbers of the source and of the block in it.

    The items are the records, and what the reader left out.
    """

    source: StagedSource
    place: tuple[int, int]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Shard(Serializable):
    """The result of encoding one block.

    Args:
        place: Number of the source, number of the block in it.
        name: SHA-256 of the block's content; the name of its folder in shards/.
        digest: SHA-256 of the shard's manifest.
    """

    place: tuple[int, int]
    name: str
    digest: str
    counts: Mapping[str, int]
    left_out: Sequence[Quarantined]
    reused: bool


def read_blocks(source: StagedSource, number: int, size: int) -> Iterator[Block]:
    """Read a source in blocks that depend only on its content.

    A block has `size` records, or fewer if texts are long or pictures are many. `NotFound` or
    `BadInput` if the source cannot be read.
    """
    seen = SeenSources()
    items: list[Item] = []
    count = weight = 0
    for item in renamed(read(source.path), source.folder, source.root):
        if isinstance(item, Quarantined):
            items.append(item)
        else:
            record, repeated = seen.new_sources(item)
            items += repeated
            if not record.sources:
                continue
            items.append(record)
            for part in record.sources:
                weight += sum(map(len, part.texts)) + _PICTURE_BYTES * len(part.images)
        if len(items) >= size or weight >= _BLOCK_BYTES:
            yield Block(source, (number, count), tuple(items))
            items, weight, count = [], 0, count + 1
    if items:
        yield Block(source, (number, count), tuple(items))


@dataclass(frozen=True, slots=True)
class ShardWriter:
    """Prepares, cuts and encodes blocks and writes their shards; several threads may use it.

    Args:
        folder: Folder of all shards; every worker reaches it under this name.
        header: Fields of each manifest that describe how the shard was made.
        remote: Shards are uploaded to it.
    """

    folder: Path
    header: Mapping[str, Any]
    encoder: Encoder
    remote: RemoteFolder | None = None

    def write(self, block: Block) -> Shard:
        """Write the shard of a block, unless a sound one exists; `ReadOnly` if that fails."""
        records, left_out = _prepare(block)
        name = _content_hash(records, left_out)
        folder = self.folder / SHARDS / name
        manifest = self._sound_manifest(folder)
        if reused := bool(manifest):
            left_out = [Quarantined(**item) for item in manifest["left_out"]]
        else:
            batches = BatchEncoder(self.encoder, self.header["max_tokens"])
            plan = batches.plan(records)
            batches.encode(plan)
            left_out += block.source.report(batches.assign(records, plan))
            with atomic_folder.create(folder, replaces=lambda _: True, what="a shard") as out:
                manifest = {**self.header, "block": name}
                manifest["left_out"] = [problem.to_dict() for problem in left_out]
                records = [record for record in records if record.sources]
                manifest |= write_records(out, records, self.encoder)
                text = json.dumps(manifest, ensure_ascii=False, indent=1)
                (out / MANIFEST).write_text(text + "\n", encoding="utf-8")
            if self.remote:
                self.remote.upload(self.folder, f"{SHARDS}/{name}")
        digest = arguments.file_hash(folder / MANIFEST)
        return Shard(block.place, name, digest, manifest["counts"], left_out, reused)

    def _sound_manifest(self, folder: Path) -> dict[str, Any]:
        """Return the manifest of a shard that is unchanged; {} if it is not."""
        try:
            export = Export(folder)
        except KuError:
            return {}
        expected = {**self.header, "block": folder.name}.items()
        return export.manifest if export.is_whole and expected <= export.manifest.items() else {}


def _prepare(block: Block) -> tuple[list[PreparedRecord], list[Quarantined]]:
    """Return the records of a block, one for each unit, and what was left out."""
    records: dict[object, PreparedRecord] = {}
    left_out = []
    for item in block.items:
        if isinstance(item, Quarantined):
            left_out.append(item)
            continue
        record, unread = prepare(item, "ingest")
        left_out += block.source.report(unread)
        key = object() if record.unit is None else record.unit
        records.setdefault(key, PreparedRecord(record.unit, [])).sources += record.sources
    # As in an export, texts that belong to no unit come last.
    return sorted(records.values(), key=lambda record: record.unit is None), left_out


def _content_hash(records: Iterable[PreparedRecord], left_out: Iterable[Quarantined]) -> str:
    digest = hashlib.sha256()
    for record in records:
        for source in record.sources:
            declared = source.declared.to_json() if source.declared else None
            digest.update(as_json([record.unit, source.uri, source.digest, declared]).encode())
    for problem in left_out:
        digest.update(as_json([problem.item, problem.reason]).encode())
    return digest.hexdigest()
