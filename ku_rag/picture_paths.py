"""Paths of pictures: suffixes, and places that records name. Nothing is decoded."""

from __future__ import annotations

import ntpath
import os
from pathlib import Path

from ku_rag.errors import BadInput, reason

PICTURE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".avif"}
    | {".ppm", ".pgm", ".pbm", ".pnm"}
)
"""Suffixes, in lower case, of picture files."""


def locate_picture(folder: Path, path: str) -> Path:
    """Resolve the path of a picture in a record, which must be in the resolved folder of its file.

    Raises:
        BadInput: it is an address, absolute, outside the folder (links followed), or missing.
    """
    if "://" in path or path.startswith("data:"):
        raise BadInput(f"{_short(path)} is an address: nothing is fetched; give a local file")
    drive, rest = ntpath.splitdrive(path)
    if drive or rest.startswith(("/", "\\")):
        raise BadInput(f"{_short(path)} is absolute: give a path relative to the record's file")
    try:
        # `resolve` and `is_relative_to` of pathlib take several times as long.
        real = os.path.realpath(f"{folder}/{path}")
        inside = os.path.join(real, "").startswith(os.path.join(folder, ""))
        there = inside and Path(real).is_file()
    except (OSError, ValueError) as error:
        raise BadInput(f"{_short(path)} is not the path of a file ({reason(error)})") from error
    if not inside:
        raise BadInput(f"{_short(path)} leads out of the record's folder: put the picture into it")
    if not there:
        raise BadInput(f"{_short(path)} is not there: expected a picture file in {folder}")
    return Path(real)


def _short(path: str) -> str:
    return repr(path if len(path) <= 200 else path[:200] + "…")
