"""Keyframes of the videos that a graph file names without keyframes of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from ku_rag.errors import KuError
from ku_rag.graph.keyframes import keyframes
from ku_rag.graph.name_resolution import Entry
from ku_rag.types import Quarantined

_JPEG_QUALITY = 95


def with_keyframes(
    entries: Iterable[Entry | Quarantined], folder: Path
) -> Iterator[Entry | Quarantined]:
    """Yield entries; those with videos and no pictures get the keyframes of their videos.

    A video that cannot be read is reported, and the stored pictures of its entry stay.

    Args:
        entries: as `Linked.entries` returns them.
        folder: keyframes are written here; created if it does not exist.
    """
    for entry in entries:
        if isinstance(entry, Quarantined) or entry.images or not entry.videos:
            yield entry
            continue
        images: list[Path] = []
        problems: list[str] = []
        for name in entry.videos:
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
                frame.picture.save(file, quality=_JPEG_QUALITY)
                images.append(file)
        yield from (Quarantined(entry.uri, problem) for problem in problems)
        yield entry._replace(images=tuple(images), partial=entry.partial or bool(problems))
