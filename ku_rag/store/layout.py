"""The files of a knowledge base: their paths, and durable writing.

kb/  ku.sqlite    everything that matters
     images/ab/…  pictures by content hash
     indexes/     caches; deleting the folder loses nothing
     uploads/     accepted by `ku serve` and not yet ingested; not part of copies
     answers.sqlite  stored answers and feedback; not part of copies
     ku.commits   the number of the last commit
     ku.copy      in a copy: the states before and after its last update, or that it was made at
     ku.erasing   in a copy: deleted content is still to be erased
     ku.toml      settings
     writer.lock  held by the one writer
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_native_id

from ku_rag.errors import ReadOnly


class Layout:
    """The paths of the knowledge base in folder `root`; see above."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.database = root / "ku.sqlite"
        self.images = root / "images"
        self.indexes = root / "indexes"
        self.uploads = root / "uploads"
        self.answers = root / "answers.sqlite"
        self.settings = root / "ku.toml"
        self.lock = root / "writer.lock"
        self.copied = root / "ku.copy"

    def image(self, file: str) -> Path:
        """The path of a picture, given the `file` column of its row."""
        return self.images / file

    def bytes(self, *, pictures: bool = True) -> int:
        """The size of everything in the folder except uploads, and maybe pictures, in bytes."""
        total, skipped = 0, {self.uploads.name, *([] if pictures else [self.images.name])}
        for folder, subfolders, names in os.walk(self.root):
            if folder == str(self.root):
                subfolders[:] = [name for name in subfolders if name not in skipped]
            for name in names:
                with suppress(FileNotFoundError):
                    total += os.stat(f"{folder}/{name}").st_size
        return total


def image_file(digest: str, suffix: str) -> str:
    """The place of a picture below images/: `ab/abcdef….jpg`."""
    return f"{digest[:2]}/{digest}{suffix}"


def write_durably(files: Iterable[tuple[Path, bytes]]) -> None:
    """Write files so that they and their names survive a power cut once this returns.

    Each is written beside its place, synced and renamed; then their folders are synced, and the
    folders that these are in. A file that is already there with the same content is left alone, but
    its name is synced like the others: whoever wrote it may have been stopped before that.
    `ReadOnly` if the disk is full, or they may not be written.
    """
    folders: set[Path] = set()
    for path, data in files:
        with refusing(path):
            if not holds(path, data):
                if path.parent not in folders:
                    path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, data)
        folders.add(path.parent)
    for folder in folders:
        with refusing(folder):
            sync_path(folder)
    sync_names(folders)


def holds(path: Path, data: bytes) -> bool:
    """Whether a file has this content."""
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False


def sync_names(folders: Iterable[Path]) -> None:
    """Make the names of folders durable, where the folders that they are in may be opened."""
    for folder in {folder.parent for folder in folders}:
        # What surrounds a base may be passed through although it may not be read.
        with refusing(folder), suppress(PermissionError):
            sync_path(folder)


def delete_file(path: Path) -> None:
    """Delete a file, if it is there; `ReadOnly` if it cannot be deleted."""
    with refusing(path):
        path.unlink(missing_ok=True)


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn an error of the system into `ReadOnly`, which says what to do."""
    try:
        yield
    except OSError as error:
        raise ReadOnly(
            f"{path} cannot be written or deleted ({error.strerror}): what was committed before is "
            "safe; make room on the disk, or check the folder's rights, and do it again"
        ) from error


def _write(path: Path, data: bytes) -> None:
    # Two threads may write the same picture: each has a file of its own until it is whole.
    partial = path.with_name(f"{path.name}.{get_native_id()}.partial")
    try:
        with partial.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def sync_path(path: Path) -> None:
    """Make the names in a folder durable, or the content of a file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
