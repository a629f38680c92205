"""Videos that a graph names without keyframes: their frames become pictures of the entity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from ku_rag.errors import KuError
from ku_rag.graph.keyframes import keyframes
from ku_rag.graph.name_resolution import Entry
from ku_rag.types import Quarantined

_QUALITY = 95


def with_keyframes(
    entries: Iterable[Entry | Quarantined], folder: Path
) -> Iterator[Entry | Quarantined]:
    """Entries, those with videos and no pictures with frames of their videos.

    A video that cannot be read is said, and leaves the pictures alone that are stored of it.

    Args:
        entries: as `Linked.entries` makes them.
        folder: where frames are written to; it is made.
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
                frame.picture.save(file, quality=_QUALITY)
                images.append(file)
        yield from (Quarantined(entry.uri, problem) for problem in problems)
        yield entry._replace(images=tuple(images), partial=entry.partial or bool(problems))
