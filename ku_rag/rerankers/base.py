"""The protocol of rerankers, and the order of evidence by their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ku_rag.errors import BadInput
from ku_rag.mllm.base import MLLM
from ku_rag.types import Evidence, Match

if TYPE_CHECKING:
    from PIL.Image import Image

Scores = NDArray[np.float32]
"""float32[n], finite; greater is better. They are compared within one call only."""


@dataclass(frozen=True, slots=True)
class RerankerQuery:
    """The question that evidence is scored for.

    Args:
        picture: The picture that it is about, RGB.
        units: The matched units, best first.
        mllm: The multimodal model of the base, if there is one.
    """

    text: str
    picture: Image | None = None
    units: tuple[Match, ...] = ()
    mllm: MLLM | None = None


@runtime_checkable
class Reranker(Protocol):
    """Scores evidence by how well it answers a question. Several threads may call `score`."""

    @property
    def name(self) -> str:
        """The name in messages, such as "cross-encoder"."""

    @property
    def fingerprint(self) -> str:
        """Identifies the method, its model and its parameters."""

    def score(self, query: RerankerQuery, evidence: Sequence[Evidence]) -> Scores:
        """Return float32[len(evidence)].

        Raises:
            BadInput: the query lacks what the reranker needs.
            ModelFailed, BudgetSpent: a multimodal model gave no reply.
        """


def rank(reranker: Reranker, query: RerankerQuery, evidence: Sequence[Evidence]) -> list[Evidence]:
    """Return evidence best first, labelled E1, E2 …; equal scores keep their order.

    With a picture, evidence of the matched units stays before the rest: a text about another thing
    cannot answer the question. The evidence keeps the scores of the search.

    Raises:
        BadInput: the reranker returned something else than a finite score for each.
    """
    if not evidence:
        return []
    scores = np.asarray(reranker.score(query, evidence), float)
    if scores.shape != (len(evidence),) or not np.isfinite(scores).all():
        raise BadInput(
            f"the reranker {reranker.name} returned {scores.dtype}{list(scores.shape)}: expected "
            f"{len(evidence)} finite numbers; choose another reranker, or none"
        )
    matched = {unit.id for unit in query.units} if query.picture else set()
    apart = [bool(matched) and not matched & {*piece.unit_ids} for piece in evidence]
    order = sorted(range(len(evidence)), key=lambda n: (apart[n], -scores[n]))
    return [replace(evidence[n], label=f"E{place}") for place, n in enumerate(order, 1)]
