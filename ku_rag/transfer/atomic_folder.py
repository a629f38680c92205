"""A folder that appears at once, or not at all: made beside its place, synced, then renamed."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ku_rag.errors import ReadOnly, Refused
from ku_rag.store.layout import sync_folder
from ku_rag.types import Quarantined

_PIECE = 1 << 20
_PARTIAL = ".partial"


@contextmanager
def beside(target: Path, *, replaces: Callable[[Path], bool], what: str) -> Iterator[Path]:
    """A new folder beside `target`, which takes its place when the block ends well.

    Its files are synced first, so a folder of that name is whole even after a power cut. What a
    maker that was killed left behind is swept by the next one.

    Args:
        target: where the folder will be; it may exist if it is empty.
        replaces: whether a folder that holds files may be replaced.
        what: what is made, for messages.

    Raises:
        Refused: the place is taken.
        ReadOnly: it cannot be written there.
    """
    target = target.absolute()
    _check_free(target, replaces, what)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        made = _fresh(target)
        held = os.open(made, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(target, what, error) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)  # tells a folder in the making from a left one
        yield made
        _check_free(target, replaces, what)
        sync_tree(made)
        _put(made, target)
    except OSError as error:
        raise _unwritable(target, what, error) from error
    finally:
        os.close(held)
        shutil.rmtree(made, ignore_errors=True)


def copy_picture(
    stored: Path, target: Path, digest: str, *, link: bool = False
) -> Quarantined | None:
    """Copy a picture of the base, unless it is missing or damaged.

    Args:
        stored: the file.
        target: its new place; the folder is made.
        digest: its content hash.
        link: make a hard link where the file system can; the file is not read then.

    Returns:
        Why it was left out; None for a sound picture.

    Raises:
        OSError: the disk is full or cannot be written.
    """
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
    """Copy a file, make the folder of the copy, and return the SHA-256 in hexadecimal.

    Raises:
        OSError: it cannot be read, or the copy not be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with source.open("rb") as data, target.open("wb") as out:
        while piece := data.read(_PIECE):
            found.update(piece)
            out.write(piece)
    return found.hexdigest()


def sync_tree(folder: Path) -> None:
    """Make every file and every name below a folder durable."""
    for root, _, files in os.walk(folder):
        for name in files:
            handle = os.open(Path(root) / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(root))


def _check_free(target: Path, replaces: Callable[[Path], bool], what: str) -> None:
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir() or target.is_symlink():
        raise Refused(f"{target} is no folder: name a new or empty folder for {what}")
    if any(target.iterdir()) and not replaces(target):
        raise Refused(f"{target} holds other files: name a new or empty folder for {what}")


def _put(made: Path, target: Path) -> None:
    """Give a finished folder its name; what it replaces goes when it stands there."""
    parent = target.parent
    if target.is_dir() and any(target.iterdir()):
        before = _fresh(target)
        target.rename(before / "before")
        made.rename(target)
        sync_folder(parent)
        shutil.rmtree(before)
    else:
        made.rename(target)
    sync_folder(parent)


def _sweep(target: Path) -> None:
    """Delete what makers of the same folder left behind when they were killed."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*{_PARTIAL}"):
        if (left / "before").is_dir() and not target.exists():
            (left / "before").rename(target)  # stopped between two renames: take the older one
        try:
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(handle)


def _fresh(target: Path) -> Path:
    made = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_PARTIAL}")
    made.mkdir()
    return made


def _unwritable(target: Path, what: str, error: OSError) -> ReadOnly:
    return ReadOnly(
        f"{what} cannot be written to {target} ({error.strerror or error}): make room on the disk, "
        "or check the folder's rights, and do it again"
    )
