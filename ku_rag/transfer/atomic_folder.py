"""A folder that appears complete or not at all: written next to its target, synced, renamed."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ku_rag.errors import ReadOnly, Refused
from ku_rag.store.file_lock import lock_file
from ku_rag.store.layout import Layout, sync_path
from ku_rag.types import Quarantined

_PIECE = 1 << 20
_PARTIAL = ".partial"


@contextmanager
def create(
    target: Path, *, what: str, replaces: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """Yield a temporary folder next to `target`, and rename it to `target` at the end of the block.

    Its files are synced first. The next call deletes what a killed process left behind. The target
    may exist if it is empty, or if `replaces` allows to replace it. `what` is for messages.

    Raises:
        Refused: the target exists and may not be replaced.
        ReadOnly: the folder cannot be written.
    """
    target = target.absolute()
    _check_free(target, replaces, what)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        folder = _make_temporary(target)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(target, what, error) from error
    try:
        lock_file(descriptor, wait=True)  # `_sweep` deletes folders that are not locked
        yield folder
        _check_free(target, replaces, what)
        for root, _, files in os.walk(folder):
            for name in files:
                sync_path(Path(root, name))
            sync_path(Path(root))
        _replace(folder, target)
    except OSError as error:
        raise _unwritable(target, what, error) from error
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def copy_picture(
    stored: Path, target: Path, digest: str, *, link: bool = False
) -> Quarantined | None:
    """Copy or hard-link a picture of the base; return why it was left out, None for a sound one."""
    try:
        if link:
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # another file system, or one without links
                os.link(stored, target)
                return None
        if copy_file(stored, target) == digest:
            return None
        target.unlink()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        return Quarantined(digest, f"{stored}: {error.strerror}")
    return Quarantined(digest, f"{stored}: its content has changed")


def copy_file(source: Path, target: Path) -> str:
    """Copy a file, create the folder of the copy, and return the SHA-256 in hexadecimal."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with source.open("rb") as data, target.open("wb") as out:
        while piece := data.read(_PIECE):
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def _check_free(target: Path, replaces: Callable[[Path], bool], what: str) -> None:
    for parent in target.absolute().parents:
        if Layout(parent).database.exists():
            raise Refused(f"{target} is inside the knowledge base {parent}: name another folder")
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise Refused(f"{target} is not a folder: name a new or empty folder for {what}")
    if any(target.iterdir()) and not replaces(target):
        raise Refused(f"{target} holds other files: name a new or empty folder for {what}")


def _replace(folder: Path, target: Path) -> None:
    """Rename a finished folder to its target, then delete the folder that was there."""
    parent = target.parent
    if target.is_dir() and any(target.iterdir()):
        before = _make_temporary(target)
        target.rename(before / "before")
        folder.rename(target)
        sync_path(parent)
        shutil.rmtree(before)
    else:
        folder.rename(target)
    sync_path(parent)


def _sweep(target: Path) -> None:
    """Delete what killed processes left behind of the same folder."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*{_PARTIAL}"):
        if (left / "before").is_dir() and not target.exists():
            (left / "before").rename(target)  # killed between two renames: restore the older one
        try:
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            lock_file(handle)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(handle)


def _make_temporary(target: Path) -> Path:
    folder = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_PARTIAL}")
    folder.mkdir()
    return folder


def _unwritable(target: Path, what: str, error: OSError) -> ReadOnly:
    return ReadOnly(
        f"{what} cannot be written to {target} ({error.strerror or error}): make room on the disk, "
        "or check the permissions of the folder, and try again"
    )
