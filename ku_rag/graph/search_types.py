"""What is asked of the graph, who searches it, and what they find (MH-MMKG, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ku_rag.graph.model import Entity, Path, Step

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the graph (the paper's Q = (q, d, z)).

    Args:
        question: q.
        pictures: d, RGB.
        hints: z, what cannot be seen: a topic entity's name, the state that things are in.
        perception: what the pictures show in words: by people (s), or by the perceiver (ŝ).
    """

    question: str
    pictures: tuple[Image, ...] = ()
    hints: str = ""
    perception: str = ""

    @property
    def text(self) -> str:
        """All of it that is words."""
        return "\n".join(filter(None, (self.question, self.hints, self.perception)))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What validation says of a path (eq. 8).

    Args:
        enough: whether the path answers the question.
        score: 0 to 1, how well; only for putting paths in order.
        caption: of the leaf's pictures, made with the question in mind, or "".
    """

    enough: bool
    score: float = 0.0
    caption: str = ""


class Agents(Protocol):
    """The agents of the retriever. Each method takes what one round asks, all of it at once."""

    def topic(self, query: Query, among: Sequence[Entity]) -> Entity | None:
        """The entity that the search starts from: e0 = L(q, z, E_o); None when there is none."""
        ...

    def expand(
        self, query: Query, opened: Sequence[tuple[Path, Sequence[Step]]]
    ) -> list[list[Step]]:
        """For each open path those of the steps from its end that may help (eq. 5).

        Args:
            query: what is asked.
            opened: paths from the topic, each with the steps that leave its end.
        """
        ...

    def validate(self, query: Query, paths: Sequence[Path]) -> list[Verdict]:
        """For each path, the topic entity alone among them, whether it is enough (eq. 8)."""
        ...
