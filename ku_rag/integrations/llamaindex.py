"""A LlamaIndex retriever; extra `llamaindex`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from ku_rag.integrations.chunk_store import ChunkStore
from ku_rag.knowledge_base import KnowledgeBase
from ku_rag.store.filters import Where


class LlamaIndexRetriever(BaseRetriever):
    """Finds the chunks of a knowledge base that bear on a text and a picture.

    The metadata of a node are those of its unit, with "owners", "unit_ids", "names",
    "source", "score" and "evidence".

    Args:
        k: how many nodes are returned; fewer only if the base has fewer.
        image: a picture file, for queries without an `image_path`.
        where: only units with such metadata count; see `KnowledgeBase.list`.
    """

    def __init__(
        self, kb: KnowledgeBase, k: int = 4, image: str | Path | None = None, where: Where = ()
    ) -> None:
        super().__init__()
        self._chunks = ChunkStore(kb)
        self._k, self._image, self._where = k, image, where

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        image = query_bundle.image_path or self._image
        hits = self._chunks.search(query_bundle.query_str, image, k=self._k, where=self._where)
        return [
            NodeWithScore(
                node=TextNode(id_=hit.id, text=hit.text, metadata=hit.described),
                score=hit.evidence.score,
            )
            for hit in hits
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
