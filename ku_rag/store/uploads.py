"""The folder of uploads in a base: a folder of files for each job or request in progress.

A folder is locked while a request fills it, so that no process takes it for one that a killed
process has left.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from ku_rag.arguments import file_hash
from ku_rag.errors import BadInput, Refused
from ku_rag.store.file_lock import lock_file
from ku_rag.store.layout import refusing, sync_path

_MAX_DEPTH = 8
_OF_NAMES = {errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EILSEQ}
"""Errors that a file name causes."""


@contextmanager
def new_folder(uploads: Path) -> Iterator[Path]:
    """Create a folder in the folder of uploads; it is deleted if the block raises an error."""
    check(uploads)
    folder = uploads / uuid4().hex
    with refusing(folder):
        uploads.mkdir(exist_ok=True)
        folder.mkdir()
    with _lock(folder):
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def check(uploads: Path) -> None:
    """Check that the folder of uploads is in the base: what it contains may be deleted."""
    if uploads.is_symlink():
        raise Refused(f"{uploads} is a link: replace it by a folder, or remove it")


def write_files(folder: Path, files: Sequence[tuple[str, BinaryIO]]) -> str:
    """Write files durably to a new folder, and return a hash of their names and contents."""
    content, folders = sha256(), {folder, *folder.parents[:2]}  # whoever made these may be gone
    for name, data in files:
        parts = name.split("/")
        if len(parts) > _MAX_DEPTH or not all(map(_is_file_name, parts)):
            raise BadInput(f"{name[:80]!r} is no valid file name: expected 'Mango/photo.jpg'")
        file = folder.joinpath(*parts)
        with refusing(file):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("xb") as out:
                    shutil.copyfileobj(data, out)
                    out.flush()
                    os.fsync(out.fileno())
            except OSError as error:
                if error.errno not in _OF_NAMES:
                    raise
                reason = f"{name[:80]!r} cannot be stored ({error.strerror})"
                raise BadInput(f"{reason}: give each file a name of its own") from error
        content.update(f"{name}\n{file_hash(file)}\n".encode())
        folders |= {folder.joinpath(*parts[:n]) for n in range(1, len(parts))}
    for path in folders:
        with refusing(path):
            sync_path(path)
    return content.hexdigest()


def remove_strays(uploads: Path, is_needed: Callable[[str], bool]) -> None:
    """Delete what killed processes have left in the folder of uploads, by the names of entries."""
    check(uploads)
    for path in uploads.iterdir() if uploads.is_dir() else ():
        if path.is_symlink() or not path.is_dir():
            if not is_needed(path.name):
                path.unlink(missing_ok=True)
            continue
        with suppress(FileNotFoundError, BlockingIOError), _lock(path):
            # Whoever has filled the folder before has stored its row, or has deleted it.
            if not is_needed(path.name):
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock_file(handle)
        yield
    finally:
        os.close(handle)


def _is_file_name(part: str) -> bool:
    """Whether a part of a path is a valid, visible file name on every system."""
    return part.isprintable() and part == part.strip(". ") != "" and not {*part} & {*'\\:"*?<>|'}
