"""A knowledge base as a store of texts with metadata, for the classes of other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from PIL.Image import Image

from ku_rag import arguments
from ku_rag.encoders import with_pictures
from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput, NotFound
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.store.filters import Where
from ku_rag.store.unit_records import UnitRecord
from ku_rag.types import Evidence, Unit

Numbers = Sequence[float]
EmbedTexts = Callable[[list[str]], Sequence[Numbers]]


class ForeignEncoder:
    """Encodes texts of up to 256 words by a function of another package.

    Args:
        name: identifies the model; equal names must mean equal vectors.
        embed: returns a vector for each text; None if vectors only come with the texts, and others
            get zeros.
    """

    cross_modal: ClassVar[bool] = False

    def __init__(self, name: str, dim: int, embed: EmbedTexts | None = None) -> None:
        self.dim = arguments.count(dim, "the length of a vector", least=1, most=1 << 16)
        self.fingerprint = f"foreign:{name}:{dim}"
        self.max_tokens = 256 if embed else 1 << 20  # zero vectors fit any text
        self._embed = embed

    def count_tokens(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts, float32[n, dim]; `BadInput` if the function returns another length."""
        if self._embed is None or not texts:
            return np.zeros((len(texts), self.dim), np.float32)
        return unit_length(self._embed(list(texts)), self.dim)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """Refused with BadInput: the class encodes texts."""
        raise BadInput(f"{self.fingerprint} was given {len(images)} pictures, and encodes texts")


def unit_length(vectors: Sequence[Numbers], dim: int) -> Vectors:
    """Return vectors as float32[n, dim] rows of length 1, zeros as zeros; `BadInput` for others."""
    if seen := {len(vector) for vector in vectors} - {dim}:
        raise BadInput(f"a vector has {min(seen)} numbers: the base has vectors of {dim}")
    array = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    return (array / np.where(lengths == 0, 1, lengths)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A text with metadata as JSON values: a unit of the base, named by its "title" or its id."""

    id: str
    text: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FoundChunk(TextDocument):
    """A chunk that a search found, with the metadata of its unit.

    Its id is that of the unit, with "#" and a number where it is not all of the unit's text.
    """

    evidence: Evidence

    @property
    def described(self) -> dict[str, Any]:
        """The metadata, and the keys of the chunk; a "source" in the metadata stays."""
        evidence = self.evidence
        return {
            "source": evidence.source,
            **self.metadata,
            "owners": list(evidence.owners),
            "unit_ids": list(evidence.unit_ids),
            "names": list(evidence.owner_names),
            "score": evidence.score,
            "evidence": evidence.label,
        }


class ChunkStore:
    """Writes, reads, finds and deletes texts of a knowledge base."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.kb = kb

    @classmethod
    def open(cls, path: str | Path, encoder: ForeignEncoder | None = None) -> Self:
        """Open a knowledge base, or make it.

        The encoder encodes texts, beside the default encoder of pictures; None for the one that the
        base was made with, or the default one. `Mismatch` if the base was made with another.
        """
        both = with_pictures(encoder) if encoder else None
        return cls(KnowledgeBase.open(path, create=True, encoder=both))

    def write(
        self, documents: Iterable[TextDocument], vectors: Iterable[Numbers | None]
    ) -> list[str]:
        """Store documents, and return their ids, each once; of several with one id the last counts.

        At most some ten thousand documents, each of which replaces what has its id. A vector has
        any length; the text is then one chunk. The base encodes texts whose vector is None or zero.

        Raises:
            BadInput: an id is blank, or metadata are no JSON values.
        """
        latest = {
            item.id: (_unit(item), vector if vector is not None and np.any(vector) else None)
            for item, vector in zip(documents, vectors, strict=True)
        }
        ready = [(unit, vector) for unit, vector in latest.values() if vector is not None]
        if ready:
            rows = unit_length([vector for _, vector in ready], self.kb.encoder.dim)
            self.kb.add_many([unit for unit, _ in ready], vectors={"texts": rows}, replace=True)
        if others := [unit for unit, vector in latest.values() if vector is None]:
            self.kb.add_many(others, replace=True)
        return list(latest)

    def read(self, ids: Iterable[str]) -> Iterator[TextDocument]:
        """Yield the documents that have these ids, in their order."""
        for unit_id in ids:
            if record := self._record(unit_id):
                yield TextDocument(record.id, "\n\n".join(record.texts), record.metadata)

    def delete(self, ids: Iterable[str]) -> None:
        """Delete documents; ids that do not exist change nothing."""
        if stored := [unit_id for unit_id in dict.fromkeys(ids) if self._record(unit_id)]:
            self.kb.delete(stored)

    def search(
        self,
        text: str = "",
        image: str | Path | None = None,
        vector: Numbers | None = None,
        k: int = 10,
        where: Where = (),
    ) -> list[FoundChunk]:
        """Find the k chunks that fit best, by cosine with a vector; see `KnowledgeBase.search`."""
        query = None if vector is None else unit_length([vector], self.kb.encoder.dim)[0]
        result = self.kb.search(text=text, image=image, vector=query, k=k, where=where)
        return [self._chunk(piece) for piece in result.chunks]

    def _chunk(self, evidence: Evidence) -> FoundChunk:
        record = self._record(evidence.unit_ids[0]) if evidence.unit_ids else None
        is_whole = record and evidence.owners and record.counts["chunks"] == 1
        unit_id, metadata = (record.id, record.metadata) if record else ("", {})
        named = unit_id if is_whole else f"{unit_id}#{evidence.chunk}"
        return FoundChunk(named, evidence.text, metadata, evidence)

    def _record(self, unit_id: str) -> UnitRecord | None:
        try:
            record = self.kb.show(unit_id)
        except (NotFound, BadInput):  # several units have it as their name
            return None
        return record if record.id == unit_id else None


def _unit(document: TextDocument) -> Unit:
    return Unit(
        str(document.metadata.get("title") or "").strip()[: arguments.LONGEST_NAME] or document.id,
        id=document.id,
        kind="document",
        texts=(document.text,),
        metadata=document.metadata,
        match=False,
    )
