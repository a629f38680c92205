"""WebDataset shards: members of a tar file whose names differ in the suffix only are one unit.

Nothing is extracted, and no name is interpreted: the webdataset package runs commands in names.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path, PurePosixPath

from ku_rag.arguments import MAX_FILE_BYTES
from ku_rag.errors import BadInput
from ku_rag.ingest.readers.decoding import MAX_LINE
from ku_rag.ingest.readers.item_codec import Item, MemberPath
from ku_rag.ingest.readers.jsonl import parse_object
from ku_rag.ingest.readers.records import read_record, read_texts
from ku_rag.picture_paths import PICTURE_SUFFIXES
from ku_rag.types import Quarantined, Record

_END = 1024
"""Number of zero bytes that end a tar file."""


def read_webdataset(path: Path, skip: int = 0) -> Iterator[tuple[int, Item]]:
    """Read a unit for each key: a .json member is a record, .txt a text, pictures are pictures."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as archive:
            units = groupby(_members(archive), key=lambda member: _split(member.name)[0])
            for number, (key, members) in enumerate(units, 1):
                if number <= skip:
                    continue
                try:
                    for item in _read_unit(path, key, list(members), archive):
                        yield number, item
                except BadInput as error:
                    yield number, Quarantined(f"{path.as_posix()}/{key}", str(error))
            file.seek(-_END, os.SEEK_END)
            if any(file.read()):
                raise BadInput("the tar file has no end, it is truncated: copy it again")
    except tarfile.TarError as error:
        raise BadInput(f"the file is damaged, or no tar file ({error}): copy it again") from error


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members that are no folders. The archive forgets them: it may have millions."""
    while member := archive.next():
        vars(archive)["members"].clear()
        if not member.isdir():
            yield member


def _split(name: str) -> tuple[str, str]:
    """Return the key of a member, which ends at the first dot of its name, and its suffix."""
    path = PurePosixPath(name)
    return (path.parent / path.name.partition(".")[0]).as_posix(), path.suffix.lower()


def _read_unit(
    path: Path, key: str, members: Sequence[tarfile.TarInfo], archive: tarfile.TarFile
) -> Iterator[Item]:
    data, texts, images = {}, [], []
    for member in members:
        name, suffix = PurePosixPath(member.name).as_posix(), _split(member.name)[1]
        picture = suffix in PICTURE_SUFFIXES
        most = MAX_FILE_BYTES if picture else MAX_LINE
        file = archive.extractfile(member) if member.isfile() else None
        if file is None or name.startswith("/") or ".." in name.split("/"):
            raise BadInput(f"the member {name} is no file of the archive: remove it")
        if not (picture or suffix in (".json", ".txt")):
            yield Quarantined(
                f"{path.as_posix()}/{name}", f"no reader for {suffix or name}: remove it"
            )
        elif member.size > most:
            raise BadInput(f"{name} has {member.size:,} bytes: at most {most:,} are read")
        elif picture:
            images.append(MemberPath.at(str(path / name), member.offset_data, member.size))
        elif suffix == ".json":
            data = dict(parse_object(file.read()))
        else:
            try:
                texts.append(file.read().decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise BadInput(f"{name} is not UTF-8: save it as UTF-8") from error
    data = {"id": key, "name": key, **data, "texts": [*read_texts(data, "texts"), *texts]}
    for item in read_record(data, path, f"{path.as_posix()}/{key}"):
        if isinstance(item, Record):
            sources = (replace(source, images=(*source.images, *images)) for source in item.sources)
            item = replace(item, sources=tuple(sources))
        yield item
