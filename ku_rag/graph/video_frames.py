"""Frames of videos that a graph names without keyframes, as pictures of their entities."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from ku_rag.errors import KuError
from ku_rag.graph.keyframes import keyframes

_QUALITY = 95


def write_keyframes(videos: Iterable[str], folder: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Extract keyframes and write them as JPEG files.

    Args:
        videos: Paths of the videos.
        folder: Where the frames are written; it is made when needed.

    Returns:
        The files, and what is wrong with videos that could not be read.
    """
    images: list[Path] = []
    problems: list[str] = []
    for name in videos:
        try:
            found = keyframes(Path(name))
        except KuError as error:
            problems.append(str(error))
            continue
        if found.missing:
            problems.append(found.missing)
        folder.mkdir(parents=True, exist_ok=True)
        stem = sha256(name.encode()).hexdigest()[:16]
        for frame in found.frames:
            file = folder / f"{stem}-{frame.number}.jpg"
            frame.picture.save(file, quality=_QUALITY)
            images.append(file)
    return tuple(images), problems
