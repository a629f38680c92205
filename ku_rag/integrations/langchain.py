"""A LangChain retriever and a LangChain vector store; extra `langchain`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore

from ku_rag.errors import BadInput
from ku_rag.integrations.chunk_store import ChunkStore, ForeignEncoder, FoundChunk, TextDocument
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.store.filters import Where

Filter = Mapping[str, object] | Where | None
"""Values of metadata fields, or what `where` of `KnowledgeBase.list` is; None for no filter."""


class LangChainRetriever(BaseRetriever):
    """Finds the chunks of a knowledge base that bear on a text and a picture.

    The metadata of a document are those of its unit, with "owners", "unit_ids", "names", "source",
    "score" and "evidence". `invoke` takes each attribute but `kb` as well, and
    `configurable_fields` makes them part of the configuration of a chain.

    Attributes:
        kb: the base.
        k: how many documents are returned; fewer only if the base has fewer.
        image: a picture file.
        where: only units with such metadata count; see `KnowledgeBase.list`.
    """

    kb: KnowledgeBase
    k: int = 4
    image: str | Path | None = None
    where: Where = ()

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: object
    ) -> list[Document]:
        defaults: dict[str, Any] = {"k": self.k, "image": self.image, "where": self.where}
        hits = ChunkStore(self.kb).search(query, **{**defaults, **options})
        return [_document(hit, hit.described) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: object
    ) -> list[Document]:
        inner = run_manager.get_sync()
        return await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=inner, **options
        )


class LangChainVectorStore(VectorStore):
    """Texts with the vectors of a LangChain embedding model, in a knowledge base.

    Scores of searches are cosines, their filters are as `Filter` says.

    Args:
        path: folder of the base, which is made if it does not exist; close `kb` after use.
        name: identifies the model; by default its class and the name of its weights.
        dim: length of its vectors; 0 embeds a word to find out.

    Raises:
        Mismatch: the base was made with another model.
    """

    def __init__(
        self, embedding: Embeddings, path: str | Path = "kb", *, name: str = "", dim: int = 0
    ) -> None:
        weights = getattr(embedding, "model", None) or getattr(embedding, "model_name", "")
        name = name or f"{type(embedding).__name__}:{weights}"
        dim = dim or len(embedding.embed_query("length"))
        self._embedding = embedding
        self._store = ChunkStore.open(path, ForeignEncoder(name, dim, embedding.embed_documents))
        self.kb = self._store.kb

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path = "kb",
        name: str = "",
        dim: int = 0,
        **kwargs: object,
    ) -> Self:
        """Open a store, see the class, and add texts."""
        store = cls(embedding, path, name=name, dim=dim)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: object,
    ) -> list[str]:
        """Store texts, and return their ids; None makes one. Each replaces what has its id.

        Raises:
            ValueError: there are more or fewer metadata or ids than texts.
            BadInput: metadata are no JSON values.
        """
        contents = list(texts)
        named = [key or str(uuid.uuid4()) for key in ids or [None] * len(contents)]
        rows = zip(named, contents, metadatas or [{}] * len(contents), strict=True)
        documents = [TextDocument(*row) for row in rows]
        self._store.write(documents, self._embedding.embed_documents(contents))
        return named

    def delete(self, ids: list[str] | None = None, **kwargs: object) -> bool:
        """Delete documents by id; ids that do not exist change nothing. None is refused."""
        if ids is None:
            raise BadInput("no ids are given: name the documents to delete")
        self._store.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that exist, in the order of the ids."""
        return [_document(item, item.metadata) for item in self._store.read(ids)]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Filter = None, **kwargs: object
    ) -> list[Document]:
        """Return the k documents nearest to a text."""
        return self.similarity_search_by_vector(
            self._embedding.embed_query(query), k, filter=filter
        )

    def similarity_search_by_vector(
        self, embedding: Sequence[float], k: int = 4, *, filter: Filter = None, **kwargs: object
    ) -> list[Document]:
        """Return the k documents nearest to a vector."""
        return [_document(item, item.metadata) for item in self._nearest(embedding, k, filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter = None, **kwargs: object
    ) -> list[tuple[Document, float]]:
        """Return the k documents nearest to a text with their cosines."""
        hits = self._nearest(self._embedding.embed_query(query), k, filter)
        return [(_document(hit, hit.metadata), hit.evidence.score) for hit in hits]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: (1 + cosine) / 2

    def _nearest(self, vector: Sequence[float], k: int, filter: Filter) -> list[FoundChunk]:
        return self._store.search(vector=vector, k=k, where=_where(filter))


def _where(filter: Filter) -> Where:
    if isinstance(filter, Mapping):
        fields = filter.items()
        return lambda metadata: fields <= metadata.items()
    return filter or ()


def _document(item: TextDocument, metadata: Mapping[str, Any]) -> Document:
    return Document(id=item.id, page_content=item.text, metadata=dict(metadata))
