"""Zip files: what they contain is read like a folder with their name."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ku_rag.errors import BadInput
from ku_rag.ingest.readers import folder
from ku_rag.ingest.readers.item_codec import Item
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.types import Record

_MOST_MEMBERS, _MOST_BYTES = 100_000, 8 << 30
"""Files of an archive, and what they may unpack to."""


def read_zip(path: Path, parsing: Parsing) -> Iterator[Item]:
    """Yield what the files of an archive describe; their paths go on from that of the archive.

    It is unpacked to a temporary folder, which is deleted when the iterator ends or is closed.

    Args:
        path: Of the archive, below the root of the parsing, or the root itself.
        parsing: Parses the files.

    Raises:
        BadInput: It is damaged or encrypted, or too large.
    """
    root = parsing.root
    below = path.relative_to(root).with_suffix("") if path != root else Path()
    with TemporaryDirectory(prefix="ku-zip-") as name:
        parsing.root = Path(name).resolve()
        unpacked = parsing.root / below
        _unpack(path, unpacked)
        try:
            for item in folder.renamed(
                folder.read_folder(parsing.root, parsing), unpacked, str(path)
            ):
                yield _with_members(item, unpacked, path) if isinstance(item, Record) else item
        finally:
            parsing.root = root


def _with_members(record: Record, unpacked: Path, archive: Path) -> Record:
    """Return a record whose pictures are members of the archive."""

    def member(image: Path) -> Path:
        is_plain = type(image) is type(unpacked) and image.is_relative_to(unpacked)
        return archive / image.relative_to(unpacked) if is_plain else image

    sources = [
        replace(source, images=tuple(map(member, source.images))) for source in record.sources
    ]
    return replace(record, sources=tuple(sources))


def _unpack(path: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(path) as members:
            infos = members.infolist()
            size = sum(info.file_size for info in infos)
            if len(infos) > _MOST_MEMBERS or size > _MOST_BYTES:
                raise BadInput(
                    f"{path.name} unpacks to {len(infos):,} files of {size:,} bytes: expected at "
                    f"most {_MOST_MEMBERS:,} of {_MOST_BYTES:,}; unpack it into a folder"
                )
            members.extractall(target)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
        raise BadInput(
            f"{path.name} is damaged or encrypted ({error}): unpack it into a folder"
        ) from error
