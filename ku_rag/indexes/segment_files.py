"""Files of an index: a header, and for each segment its row numbers and a FAISS file.

Segments are immutable. The header lists them with their checksums and the rows that were deleted
since. Replacing the header makes a new state current.
"""

from __future__ import annotations

import json
import logging
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ku_rag.indexes.index_kinds import ByteQuantizer, IndexPlan, faiss_module
from ku_rag.indexes.segment import Segment
from ku_rag.store.layout import delete_file, sync_path, write_durably

_FORMAT = 5
_SUFFIXES = (".faiss", ".rows")
_FIRST, _LAST = 16 << 20, 1 << 20
"""Bytes of a file that are verified when it is opened: all but codes and positions of large files.
Damage to these can hide a neighbour; all hits are scored with the stored vectors."""

_log = logging.getLogger("ku_rag")


@dataclass(frozen=True, slots=True)
class Header:
    """Description of the files of an index.

    Args:
        seq: number of the last change that they contain.
        lost: commits that the knowledge base had lost by then; change numbers repeat after a loss.
        segments: for each segment its "file", "count", "plan", "fit" (quantiser), "sums" and
            "ends" (the checksums of its files, whole and of their ends).
        dropped: deleted rows that segments still contain.
    """

    knowledge_base: str
    seq: int
    lost: int
    segments: Sequence[dict[str, Any]]
    dropped: Sequence[int]
    format: int = _FORMAT


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """The files of one index: a folder, and the prefix of their names."""

    folder: Path
    stem: str

    @property
    def header_path(self) -> Path:
        """Path of the header."""
        return self.folder / f"{self.stem}.json"

    def read_header(self, knowledge_base: str, lost: int) -> Header | None:
        """Read the header; None if there is none for this base, with the commits that it has lost.

        A broken one is logged.
        """
        try:
            fields, crc = json.loads(self.header_path.read_bytes())
            if zlib.crc32(json.dumps(fields).encode()) != crc:
                raise ValueError("checksum mismatch")
            if fields["format"] != _FORMAT:
                return None
            header = Header(**fields)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, OSError) as error:
            _log.warning("%s cannot be used (%s): it is rebuilt", self.header_path, error)
            return None
        ours = (header.knowledge_base, header.lost) == (knowledge_base, lost)
        return header if ours else None

    def read_segment(self, entry: dict[str, Any], *, verify: bool = False) -> Segment:
        """Open a segment memory-mapped, after verifying its checksums.

        Of large files only the ends are verified, unless `verify` says so.

        Raises:
            FileNotFoundError: it was deleted because the header was replaced.
            OSError, ValueError, RuntimeError (by FAISS): it is damaged.
        """
        faiss = faiss_module()
        name = entry["file"]
        paths = [self.folder / f"{name}{suffix}" for suffix in _SUFFIXES]
        whole = verify or "ends" not in entry
        checksum, sums = (_checksum, "sums") if whole else (_checksum_of_ends, "ends")
        for path, stored in zip(paths, entry[sums], strict=True):
            if checksum(path) != stored:
                raise ValueError(f"{path} is damaged")
        index = faiss.read_index(str(paths[0]), faiss.IO_FLAG_MMAP_IFC)
        rows = np.memmap(paths[1], np.dtype("<i8"), "r") if entry["count"] else np.empty(0, "<i8")
        # A plain array view: indexing a memmap object is several times slower.
        quantizer = entry.get("fit") and ByteQuantizer.from_dict(entry["fit"])
        return Segment(np.asarray(rows), index, IndexPlan(**entry["plan"]), quantizer, name)

    def write(
        self,
        knowledge_base: str,
        lost: int,
        seq: int,
        segments: Sequence[Segment],
        current: Header | None,
    ) -> Header:
        """Write the segments that have no file yet, then the header, then delete old files.

        Raises:
            OSError, ReadOnly, RuntimeError (by FAISS): a file cannot be written.
        """
        faiss = faiss_module()
        self.folder.mkdir(parents=True, exist_ok=True)
        entries = {entry["file"]: entry for entry in (current.segments if current else ())}
        for segment in segments:
            if segment.file:
                continue
            name = f"{self.stem}-{uuid.uuid4().hex[:12]}"
            paths = [self.folder / f"{name}{suffix}" for suffix in _SUFFIXES]
            try:
                faiss.write_index(segment.index, str(paths[0]))
                paths[1].write_bytes(np.asarray(segment.rows, "<i8").tobytes())
                for path in paths:
                    sync_path(path)
            except BaseException:
                for path in paths:
                    path.unlink(missing_ok=True)
                raise
            segment.file = name
            entries[name] = {
                "file": name,
                "count": len(segment.rows),
                "plan": asdict(segment.plan),
                "fit": segment.quantizer and segment.quantizer.to_dict(),
                "sums": [_checksum(path) for path in paths],
                "ends": [_checksum_of_ends(path) for path in paths],
            }
        sync_path(self.folder)
        header = Header(
            knowledge_base,
            seq,
            lost,
            [entries[segment.file] for segment in segments],
            [int(row) for segment in segments for row in segment.dropped],
        )
        fields = asdict(header)
        text = json.dumps([fields, zlib.crc32(json.dumps(fields).encode())])
        write_durably([(self.header_path, text.encode())])
        self.sweep(header)
        return header

    def sweep(self, header: Header | None) -> None:
        """Delete the files that a header does not name; without a header, all files."""
        kept = {entry["file"] for entry in header.segments} if header else set()
        if header is None:
            delete_file(self.header_path)
            try:
                sync_path(self.folder)
            except OSError:
                return  # a header never names a file that is gone; a later sweep deletes them
        for path in self.folder.glob(f"{self.stem}-*"):
            if path.name.split(".")[0] not in kept:
                delete_file(path)


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    return zlib.crc32(np.memmap(path, np.uint8, "r").data if path.stat().st_size else b"")


def _checksum_of_ends(path: Path) -> int:
    """Return the CRC-32 of the size of a file and of its first and last bytes."""
    size = path.stat().st_size
    data = np.memmap(path, np.uint8, "r") if size else np.empty(0, np.uint8)
    first = zlib.crc32(data[:_FIRST].data, zlib.crc32(str(size).encode()))
    return zlib.crc32(data[-_LAST:].data, first)
