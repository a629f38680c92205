"""The files of an index: one header, and for each segment its rows and what FAISS wrote.

Segments are immutable and have names of their own. The header names them, with a checksum of every
block of every file, and what was dropped since; replacing it is what makes a new state count.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ku_rag.indexes.index_kinds import ByteQuantizer, Plan, faiss_module
from ku_rag.indexes.segment import Segment
from ku_rag.store.layout import replace_durably, sync_folder

_BLOCK = 1 << 20
_FORMAT = 3
_SUFFIXES = (".faiss", ".rows")

_log = logging.getLogger("ku_rag")


@dataclass(frozen=True, slots=True)
class Header:
    """What the files of an index say of themselves.

    Args:
        knowledge_base: id of the base that they were made from.
        seq: the last change that they know.
        lost: how many commits the base had lost by then: after a loss numbers come again.
        segments: for each, its "file", "count", "plan", "fit", and the "sums" of the blocks of its
            files.
        dropped: rows that segments hold and that are gone.
        format: version of the layout.
    """

    knowledge_base: str
    seq: int
    lost: int
    segments: tuple[dict[str, Any], ...]
    dropped: tuple[int, ...]
    format: int = _FORMAT


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """The files of one index.

    Args:
        folder: where they lie.
        stem: what their names begin with.
    """

    folder: Path
    stem: str

    @property
    def header_path(self) -> Path:
        """The header."""
        return self.folder / f"{self.stem}.json"

    def read_header(self, knowledge_base: str, lost: int) -> Header | None:
        """The header, if there is one of this base that can be read; a broken one is logged.

        Args:
            knowledge_base: id of the base.
            lost: how many commits it has lost.
        """
        try:
            fields, crc = json.loads(self.header_path.read_bytes())
            if zlib.crc32(json.dumps(fields).encode()) != crc:
                raise ValueError("its checksum is another")
            if fields["format"] != _FORMAT:
                return None
            header = Header(
                **{
                    **fields,
                    "segments": tuple(fields["segments"]),
                    "dropped": tuple(fields["dropped"]),
                }
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, OSError) as error:
            _log.warning("%s cannot be used (%s): it is made anew", self.header_path, error)
            return None
        ours = (header.knowledge_base, header.lost) == (knowledge_base, lost)
        return header if ours else None

    def read_segment(self, entry: dict[str, Any]) -> Segment | None:
        """A segment, mapped where FAISS can, after all its blocks were tested; None if doubtful.

        Raises:
            FileNotFoundError: it is gone: the header was replaced meanwhile.
        """
        faiss = faiss_module()
        name = entry["file"]
        paths = [self.folder / f"{name}{suffix}" for suffix in _SUFFIXES]
        for path, sums in zip(paths, entry["sums"], strict=True):
            if _sums_of_file(path) != sums:
                _log.warning("%s is damaged: it is made anew from the database", path)
                return None
        try:
            index = faiss.read_index(str(paths[0]), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            _log.warning("%s cannot be used (%s): it is made anew", paths[0], error)
            return None
        rows = np.memmap(paths[1], np.dtype("<i8"), "r") if entry["count"] else np.empty(0, "<i8")
        # As plain arrays: looking into a mapped one costs some times as much.
        fit = entry.get("fit") and ByteQuantizer.from_dict(entry["fit"])
        return Segment(np.asarray(rows), index, Plan(**entry["plan"]), fit, name)

    def write(
        self,
        knowledge_base: str,
        seq: int,
        lost: int,
        segments: Sequence[Segment],
        known: Header | None,
    ) -> Header:
        """Write the segments that have no file yet, then the header; then others go.

        Args:
            knowledge_base: id of the base.
            seq: the last change that the segments know.
            lost: how many commits the base has lost.
            segments: all of them; those without a file get one.
            known: the header that is in force, for the sums of segments that have files.
        """
        faiss = faiss_module()
        self.folder.mkdir(parents=True, exist_ok=True)
        entries = {entry["file"]: entry for entry in (known.segments if known else ())}
        for segment in segments:
            if segment.file:
                continue
            name = f"{self.stem}-{uuid.uuid4().hex[:12]}"
            sums = []
            with _durable(self.folder / f"{name}.faiss") as out:
                summing = _Summing(out)
                faiss.write_index(segment.index, faiss.PyCallbackIOWriter(summing.write, _BLOCK))
                sums.append(summing.finish())
            with _durable(self.folder / f"{name}.rows") as out:
                summing = _Summing(out)
                summing.write(np.asarray(segment.rows, "<i8").tobytes())
                sums.append(summing.finish())
            segment.file = name
            entries[name] = {
                "file": name,
                "count": len(segment.rows),
                "plan": asdict(segment.plan),
                "fit": segment.fit and segment.fit.to_dict(),
                "sums": sums,
            }
        sync_folder(self.folder)
        header = Header(
            knowledge_base,
            seq,
            lost,
            tuple(entries[segment.file] for segment in segments),
            tuple(int(row) for segment in segments for row in segment.dropped),
        )
        fields = asdict(header)
        text = json.dumps([fields, zlib.crc32(json.dumps(fields).encode())])
        replace_durably(self.header_path, text.encode())
        self.sweep(header)
        return header

    def sweep(self, header: Header | None) -> None:
        """Delete what a header does not name; without one, everything."""
        kept = {entry["file"] for entry in header.segments} if header else set()
        if header is None:
            self.header_path.unlink(missing_ok=True)
        for path in self.folder.glob(f"{self.stem}-*"):
            if path.name.split(".")[0] not in kept:
                path.unlink(missing_ok=True)


@contextmanager
def _durable(path: Path) -> Iterator[BinaryIO]:
    """A new file, on the disk when this ends; nobody looks for it before a header names it."""
    try:
        with path.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


class _Summing:
    """Writes to a file and keeps a CRC-32 of every block.

    What the disk refuses is raised at the end: FAISS calls `write`, and would not pass it on.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._failure: OSError | None = None
        self._sums: list[int] = []
        self._crc = 0
        self._room = _BLOCK

    def write(self, data: bytes) -> int:
        """Write, and return how many bytes were: all."""
        view = memoryview(data)
        at = 0
        while at < len(view):
            piece = view[at : at + self._room]
            self._crc = zlib.crc32(piece, self._crc)
            self._room -= len(piece)
            at += len(piece)
            if not self._room:
                self._sums.append(self._crc)
                self._crc, self._room = 0, _BLOCK
        try:
            if self._failure is None:
                self._out.write(view)
        except OSError as error:
            self._failure = error
        return len(view)

    def finish(self) -> list[int]:
        """The sums of all blocks.

        Raises:
            OSError: not all of it could be written.
        """
        if self._failure:
            raise self._failure
        if self._room < _BLOCK:
            self._sums.append(self._crc)
            self._crc, self._room = 0, _BLOCK
        return self._sums


def _sums_of_file(path: Path) -> list[int]:
    """The CRC-32 of every block of a file; two threads, since both cores are waited for."""
    size = path.stat().st_size
    handle = os.open(path, os.O_RDONLY)
    try:
        starts = range(0, size, _BLOCK)

        def block(start: int) -> int:
            return zlib.crc32(os.pread(handle, _BLOCK, start))

        if len(starts) < 8:
            return [block(start) for start in starts]
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(block, starts))
    finally:
        os.close(handle)
