"""Zip files: an archive is read like a folder of its name."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import cast

from ku_rag.errors import BadInput, reason
from ku_rag.ingest.readers import folder
from ku_rag.ingest.readers.item_codec import EmbeddedPath, Item, UnpackedPath
from ku_rag.ingest.readers.parser import Parsing
from ku_rag.types import Record

_MOST_MEMBERS, _MOST_BYTES, _DEEPEST = 100_000, 8 << 30, 32
"""Limits of an archive and the archives in it: files, bytes unpacked and depth of nesting."""


def read_zip(path: Path, parsing: Parsing) -> Iterator[Item]:
    """Yield what the files of an archive describe; what is unpacked is deleted in the end."""
    root = parsing.root
    below = path.relative_to(root).with_suffix("") if path != root else Path()
    if parsing.archives == _DEEPEST:
        raise BadInput(f"{path.name} is in {_DEEPEST} archives: unpack it into a folder")
    with TemporaryDirectory(prefix="ku-zip-") as name:
        folder_root = Path(name).resolve()
        unpacked = folder_root / below
        before = parsing.unpacked if parsing.archives else (0, 0)
        parsing.unpacked = _unpack(path, unpacked, *before)
        parsing.root, parsing.archives = folder_root, parsing.archives + 1
        try:
            for item in folder.renamed(
                folder.read_folder(parsing.root, parsing), unpacked, str(path)
            ):
                yield _with_members(item, unpacked, path) if isinstance(item, Record) else item
        finally:
            parsing.root, parsing.archives = root, parsing.archives - 1


def _with_members(record: Record, unpacked: Path, archive: Path) -> Record:
    """Return a record with the paths of its unpacked pictures in the archive."""

    def member(image: Path) -> Path:
        if not image.is_relative_to(unpacked):
            return image
        name = str(archive / image.relative_to(unpacked))
        if isinstance(image, EmbeddedPath):
            build, (_, *content) = image.__reduce__()
            return cast(Path, build(name, *content))
        picture = UnpackedPath(name)
        picture.file = image
        return picture

    sources = [
        replace(source, images=tuple(map(member, source.images))) for source in record.sources
    ]
    return replace(record, sources=tuple(sources))


def _unpack(path: Path, target: Path, count: int, size: int) -> tuple[int, int]:
    """Unpack an archive; return the counts of files and bytes, increased by its own."""
    try:
        with zipfile.ZipFile(path) as members:
            infos = members.infolist()
            size += sum(info.file_size for info in infos)
            count += len(infos)
            if count > _MOST_MEMBERS or size > _MOST_BYTES:
                raise BadInput(
                    f"{path.name} unpacks to {count:,} files of {size:,} bytes: expected at "
                    f"most {_MOST_MEMBERS:,} of {_MOST_BYTES:,}; unpack it into a folder"
                )
            members.extractall(target)
    except BadInput:
        raise
    except Exception as error:  # damaged files raise errors of many kinds
        raise BadInput(
            f"{path.name} cannot be unpacked to {gettempdir()} ({reason(error)}): it is damaged or "
            "encrypted, or there is no room; unpack it into a folder"
        ) from error
    return count, size
