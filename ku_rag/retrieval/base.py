"""What retrieval needs of an open knowledge base, and the units that a question matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ku_rag.retrieval.image_matching import ImageSearch
from ku_rag.retrieval.names import NamesFound
from ku_rag.retrieval.search import ChunkSearch
from ku_rag.store.database import Database
from ku_rag.store.filters import UnitFilter
from ku_rag.store.layout import Layout
from ku_rag.types import Match, Region, Word

if TYPE_CHECKING:
    from ku_rag.rerankers.base import Reranker


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The parts of an open knowledge base that retrieval uses.

    Args:
        reranker: loads the reranker at its first call; returns None if there is none.
        pool: number of the best chunks that the reranker scores.
    """

    database: Database
    layout: Layout
    image_search: ImageSearch
    chunk_search: ChunkSearch
    units: UnitFilter
    reranker: Callable[[], Reranker | None]
    pool: int


@dataclass(frozen=True, slots=True)
class Matched:
    """Units that a picture shows or a question names.

    Args:
        units: best first.
        region: the part of the picture that the question is about; None without a picture.
        chosen: whether the first unit was chosen by the caller.
        none_identified: whether a model was asked which of the candidates it is, and named none.
    """

    units: Sequence[Match] = ()
    region: Region | None = None
    names: NamesFound = field(default_factory=NamesFound)
    chosen: bool = False
    none_identified: bool = False
    words: Sequence[Word] = ()

    @property
    def about(self) -> frozenset[str]:
        """Ids of the units that the question can be about: a sure best match, and named units.

        A picture shows one unit, so facts of its second best match answer nothing.
        """
        return frozenset(
            unit.id for n, unit in enumerate(self.units) if (n == 0 and unit.sure) or unit.named
        )
