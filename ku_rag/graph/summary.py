"""Evidence from paths and entities: the summariser (MH-MMKG, section 4.2, eq. 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path as File
from typing import Literal

from ku_rag.graph.model import Entity, Graph, Path

MOST_PICTURES = 10
"""Greatest number of pictures of an entity; a video has as many keyframes (section 3.1)."""

_LONGEST = 2_000

Captions = Literal["human", "offline", "online", "none"]
"""Which captions of pictures are used: those by people, those that `ku graph caption` stored, those
made during the search, or none."""


class Knowledge:
    """The attributes of entities that a setting discloses, with captions by `captioner`."""

    def __init__(self, graph: Graph, captions: Captions, captioner: str = "") -> None:
        self.captions = captions
        self._captioner, self._attributes = captioner, cache(graph.attributes)
        self._online: dict[int, str] = {}

    def add(self, entity: Entity, caption: str) -> None:
        """Add a caption that was made during the search; an entity's first one counts."""
        self._online.setdefault(entity.row, caption)

    def caption(self, entity: Entity) -> str:
        """Return the caption of an entity's pictures, or ""."""
        if self.captions == "online":
            return self._online.get(entity.row, "")
        attributes = self._attributes(entity)
        if self.captions == "human":
            return attributes.caption
        if self.captions == "none":
            return ""
        model = self._captioner or min(attributes.captions, default="")
        return attributes.captions.get(model, "")

    def about(self, entity: Entity, longest: int = _LONGEST) -> dict[str, str]:
        """Return "kind", "caption" and "text" of an entity, without empty values."""
        fields = {
            "kind": entity.kind,
            "caption": shortened(self.caption(entity), longest),
            "text": shortened(self._attributes(entity).text, longest),
        }
        return {key: value for key, value in fields.items() if value}

    def pictures(self, entity: Entity) -> tuple[File, ...]:
        """Return the first pictures of an entity, at most `MOST_PICTURES`."""
        return self._attributes(entity).images[:MOST_PICTURES]


def summarise(paths: Sequence[Path], knowledge: Knowledge) -> list[Mapping[str, str]]:
    """Return paths as evidence, and what is known of their entities, ℵ(Î, G, A, α)."""
    entities = {entity.row: entity for path in paths for entity in path.entities}.values()
    lines: list[Mapping[str, str]] = [{"path": path.text} for path in paths]
    for entity in entities:
        fields = knowledge.about(entity)
        if fields.keys() - {"kind"}:
            lines.append({"entity": entity.name, **fields})
    return lines


def shortened(text: str, longest: int) -> str:
    """Return a text, or its first `longest` characters up to the end of a word."""
    if len(text) <= longest:
        return text
    return text[:longest].rpartition(" ")[0].rstrip() + " …"
