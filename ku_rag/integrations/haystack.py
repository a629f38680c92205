"""A Haystack document store and the retriever that searches it; extra `haystack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils.filters import document_matches_filter

from ku_rag.integrations.chunk_store import ChunkStore, ForeignEncoder, TextDocument
from ku_rag.store.filters import Where

Filters = dict[str, Any]


class HaystackDocumentStore:
    """Texts with metadata in a knowledge base, whose other units are documents as well.

    Documents are returned in the order of their ids and without embeddings, of which the base holds
    the directions alone.

    Args:
        path: folder of the base, which is made if it does not exist; close `kb` after use.
        embedding_dim: length of the documents' embeddings, for a base that is made for them; None
            for a base whose own encoder encodes texts. A document without embedding is found by its
            words, and by an embedding with the score 0.
        model: identifies the model of the embeddings.

    Raises:
        Mismatch: the base was made with another length or model.
    """

    def __init__(self, path: str = "kb", embedding_dim: int | None = None, model: str = "") -> None:
        self._options = {"path": path, "embedding_dim": embedding_dim, "model": model}
        encoder = ForeignEncoder(model or "haystack", embedding_dim) if embedding_dim else None
        self.chunks = ChunkStore.open(path, encoder)
        self.kb = self.chunks.kb

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments and the class."""
        return default_to_dict(self, **self._options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Open the store that `to_dict` describes."""
        return default_from_dict(cls, data)

    def count_documents(self) -> int:
        """Return the number of documents."""
        return self.kb.stats().counts["units"]

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents whose meta match; see Haystack's protocol `DocumentStore`.

        Raises:
            FilterError: the filter has another form, or is of another field than the meta.
        """
        chosen = self.kb.list(where=_of_meta(filters))
        return [_document(item, item.metadata) for item in self.chunks.read(u.id for u in chosen)]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Store documents, and return how many were written.

        Raises:
            DuplicateDocumentError: an id is stored, and the policy is not to skip or overwrite.
            ValueError: one is no document, has no text, or has a blob or a sparse embedding.
        """
        for item in documents:
            if not isinstance(item, Document) or item.content is None:
                raise ValueError(f"{item!r:.80} is no document with a text")
            if item.blob or item.sparse_embedding:
                raise ValueError(f"{item.id} has a blob or a sparse embedding, which is not stored")
        if policy is not DuplicatePolicy.OVERWRITE:
            stored = {d.id for d in self.chunks.read(d.id for d in documents)}
            if stored and policy is not DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(f"documents are stored: {', '.join(sorted(stored))}")
            documents = [d for d in documents if d.id not in stored]
        texts = [TextDocument(d.id, d.content or "", d.meta) for d in documents]
        return len(self.chunks.write(texts, [d.embedding for d in documents]))

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents; ids that do not exist change nothing."""
        self.chunks.delete(document_ids)


@component
class HaystackRetriever:
    """Finds documents by a text and a picture, or by an embedding.

    Their meta are as stored, with "owners", "unit_ids", "names", "source", "score" and "evidence".

    Args:
        top_k: how many are returned; fewer only if the store has fewer.
        filters: of the meta alone; see Haystack's protocol `DocumentStore`.
    """

    def __init__(
        self,
        document_store: HaystackDocumentStore,
        top_k: int = 10,
        filters: Filters | None = None,
        image: str | None = None,
    ) -> None:
        self._store = document_store
        self._options: dict[str, Any] = {"top_k": top_k, "filters": filters, "image": image}

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments and the class."""
        return default_to_dict(self, document_store=self._store.to_dict(), **self._options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make the retriever that `to_dict` describes."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str = "",
        query_embedding: list[float] | None = None,
        image: str | None = None,
        filters: Filters | None = None,
        top_k: int | None = None,
    ) -> dict[str, list[Document]]:
        """Return {"documents"}; arguments that are given replace those of the class."""
        hits = self._store.chunks.search(
            "" if query_embedding else query,
            image=None if query_embedding else image or self._options["image"],
            vector=query_embedding,
            k=top_k or self._options["top_k"],
            where=_of_meta(filters or self._options["filters"]),
        )
        return {"documents": [_document(hit, hit.described, hit.evidence.score) for hit in hits]}


def _of_meta(filters: Filters | None) -> Where:
    """Return whether meta match a filter, as a function; no condition without a filter."""
    if not filters:
        return ()
    parts = [filters]
    for part in parts:
        parts += part.get("conditions", ())
        if part.get("field") in ("id", "content", "score", "embedding", "blob"):
            raise FilterError(f"{part['field']!r} is no field of the meta: filter what is found")
    return lambda meta: document_matches_filter(filters, Document(meta=dict(meta)))


def _document(item: TextDocument, meta: Mapping[str, Any], score: float | None = None) -> Document:
    return Document(id=item.id, content=item.text, meta=dict(meta), score=score)
