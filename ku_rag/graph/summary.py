"""What is told of paths and entities: the summariser's evidence (MH-MMKG, section 4.2, eq. 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Literal

from ku_rag.graph.model import Attributes, Entity, Graph, Path
from ku_rag.mllm.prompts import fenced

MOST_PATHS = 5
"""The paper's α."""

MOST_PICTURES = 10
"""Of one entity: so many keyframes a video has at most (section 3.1)."""

_LONGEST = 2_000

Captions = Literal["human", "offline", "online", "none"]
"""Whose captions of the entities' pictures are told: people's, those that a model has made once,
those that it makes during the search, or nobody's."""


class Knowledge:
    """What a setting lets be known of entities. An entity is read from the store once.

    Args:
        graph: the graph; it is read by the calling thread.
        captions: whose are told.
        captioner: the model whose captions are told where they were made once; "" takes the first
            by name.
    """

    def __init__(self, graph: Graph, captions: Captions, captioner: str = "") -> None:
        self._graph, self._captions, self._captioner = graph, captions, captioner
        self._read: dict[int, Attributes] = {}
        self._made: dict[int, str] = {}

    @property
    def captions(self) -> Captions:
        """Whose are told."""
        return self._captions

    def add(self, entity: Entity, caption: str) -> None:
        """Take a caption that was made during the search, if it is the entity's first."""
        self._made.setdefault(entity.row, caption)

    def forget(self) -> None:
        """Drop the captions that were made during a search, as another begins."""
        self._made.clear()

    def caption(self, entity: Entity) -> str:
        """What the entity's pictures show, in the words that the setting allows, or ""."""
        if self._captions == "none":
            return ""
        if self._captions == "online":
            return self._made.get(entity.row, "")
        attributes = self._attributes(entity)
        if self._captions == "human":
            return attributes.caption
        model = self._captioner or min(attributes.captions, default="")
        return attributes.captions.get(model, "")

    def about(self, entity: Entity, longest: int = _LONGEST) -> dict[str, str]:
        """Its "kind", "caption" and "text", as far as there are any.

        Args:
            entity: the entity.
            longest: characters of caption and of text that are told.
        """
        found = {
            "kind": entity.kind,
            "caption": shortened(self.caption(entity), longest),
            "text": shortened(self._attributes(entity).text, longest),
        }
        return {key: value for key, value in found.items() if value}

    def pictures(self, entity: Entity) -> tuple[File, ...]:
        """Its first pictures, at most `MOST_PICTURES`."""
        return self._attributes(entity).images[:MOST_PICTURES]

    def _attributes(self, entity: Entity) -> Attributes:
        if entity.row not in self._read:
            self._read[entity.row] = self._graph.attributes(entity)
        return self._read[entity.row]


@dataclass(frozen=True, slots=True)
class Summary:
    """ℵ(Î, G, A, α): paths as evidence.

    Args:
        paths: those that are told, at most α.
        lines: one for each path, `{"path": …}` with information and conditions, then one for each
            entity of which more than its name is known, `{"entity": …, "caption"?, "text"?}`.
    """

    paths: tuple[Path, ...] = ()
    lines: tuple[Mapping[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The lines as a prompt holds them: JSON between fences, as data; "" for none."""
        return fenced(self.lines) if self.lines else ""


def summarise(paths: Sequence[Path], knowledge: Knowledge, *, most: int = MOST_PATHS) -> Summary:
    """Turn paths into evidence.

    Args:
        paths: best first.
        knowledge: what may be told of their entities.
        most: α, the most paths.
    """
    told = tuple(paths[:most])
    entities = {entity.row: entity for path in told for entity in path.entities}.values()
    lines: list[Mapping[str, str]] = [{"path": path.text} for path in told]
    for entity in entities:
        known = knowledge.about(entity)
        if known.keys() - {"kind"}:
            lines.append({"entity": entity.name, **known})
    return Summary(told, tuple(lines))


def shortened(text: str, longest: int) -> str:
    """The text, or its first characters to the end of a word."""
    if len(text) <= longest:
        return text
    return text[:longest].rpartition(" ")[0].rstrip() + " …"
