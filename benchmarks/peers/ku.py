"""ku-rag: units of ten chunks with ready-made vectors, durable, keyword index included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks import vectors
from benchmarks.peers.base import Hits, Peer, Vectors

CHUNKS_A_UNIT = 10
GROUPS = 100
"""Values of the field "group", which units of one chunk have."""


class ReadyMade:
    """An encoder that only states its dimension: every vector is ready-made.

    Args:
        dim: length of a vector.
    """

    max_tokens = 512
    cross_modal = False

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.fingerprint = f"ready-made:{dim}"

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Refused."""
        raise NotImplementedError("only ready-made vectors are measured")

    def encode_images(self, images: Sequence[object]) -> Vectors:
        """Refused."""
        raise NotImplementedError("only ready-made vectors are measured")

    def encode_regions(self, image: object, boxes: Sequence[object]) -> Vectors:
        """Refused."""
        raise NotImplementedError("only ready-made vectors are measured")


class KuRag(Peer):
    """A base through its public methods."""

    title = "ku-rag"
    packages = ("ku_rag",)
    distributions = ("faiss-cpu",)
    index = "as tuned"
    durability = "fsync before it returns (SQLite with a write-ahead log, a commit a change)"
    text_index = "always"
    batch = 100_000
    chunks_a_unit = CHUNKS_A_UNIT

    def load(self) -> None:
        """Import the package, and what it imports late."""
        import ku_rag
        import ku_rag.knowledge_base

        self._ku: Any = ku_rag

    def _opened(self, *, create: bool) -> None:
        self.kb = self._ku.KnowledgeBase.open(
            self.folder / "kb", create=create, encoder=ReadyMade(self.dim)
        )

    def create(self) -> None:
        """Make an empty base."""
        self._opened(create=True)

    def add(self, rows: Sequence[int], found: Vectors, texts: Sequence[str]) -> None:
        """Add whole units with ready-made vectors."""
        units = units_of(self._ku.Unit, rows, texts, self.chunks_a_unit)
        self.kb.add_many(units, vectors={"texts": found})

    def build(self, queries: Vectors) -> None:
        """Choose and write the index."""
        self.index = self.kind = str(self.kb.tune(recall=0.99).to_dict()["chunk"]["kind"])

    def query(self, vector: Vectors, k: int) -> Hits:
        """Search through the public method; rows count from the first chunk that was added."""
        found = self.kb.search(vector=vector, k=k).chunks
        return [(hit.chunk - 1, hit.text) for hit in found]

    def query_index(self, vector: Vectors, k: int) -> Hits:
        """Search the index alone, as bare FAISS does."""
        rows, _ = self.kb._session.encoding.chunks.search(vector[None], k)
        return [(int(row) - 1, "") for row in rows[0] if row >= 0]

    def add_one(self, row: int, vector: Vectors, text: str) -> None:
        """Add a unit of one chunk."""
        unit = self._ku.Unit(f"Late {row}", id=f"row-{row}", texts=(text,))
        self.kb.add(unit, vectors={"texts": vector[None]})

    def delete_one(self, row: int) -> None:
        """Delete a unit of one chunk."""
        self.kb.delete([f"row-{row}"])

    def open(self) -> None:
        """Open the base."""
        self._opened(create=False)

    def close(self) -> None:
        """Close it."""
        self.kb.close()


def units_of(
    unit: Any,  # noqa: ANN401
    rows: Sequence[int],
    texts: Sequence[str],
    chunks_a_unit: int,
) -> list[Any]:
    """Units of so many chunks each, with a field of metadata if of one, and units of lone rows."""
    made = []
    at = 0
    while at < len(rows):
        row = rows[at]
        size = 1 if vectors.is_lone(row) else chunks_a_unit
        id_ = f"row-{row}" if vectors.is_lone(row) else f"thing-{row // chunks_a_unit}"
        metadata = {"group": row % GROUPS} if chunks_a_unit == 1 else {}
        parts = tuple(texts[at : at + size])
        made.append(unit(id_.replace("-", " "), id=id_, texts=parts, metadata=metadata))
        at += size
    return made
