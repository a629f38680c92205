"""The interface to planners: the state that they see, and their two decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PIL.Image import Image

from ku_rag.papers.cogplanner.plan import Hit, Round
from ku_rag.types import Box, Match


@dataclass(frozen=True, slots=True)
class PlanState:
    """The state of a plan, S_t (CogPlanner, section 3.1).

    Args:
        queries: the last queries: Q_{t-1}, or Q_t for a choice that follows the reformulation.
        units: the units that the picture or the last query matches, best first.
        about: ids of those that the question can be about: the picture certainly shows them, or
            the query names them.
    """

    question: str
    queries: tuple[str, ...]
    picture: Image | None
    rounds: Sequence[Round] = ()
    units: Sequence[Match] = ()
    about: frozenset[str] = frozenset()
    searchers: Sequence[str] = ()

    @property
    def recent(self) -> list[Hit]:
        """The evidence of the previous round, D^t, without duplicates."""
        searches = self.rounds[-1].searches if self.rounds else ()
        return list({hit.id: hit for search in searches for hit in search.hits}.values())


@dataclass(frozen=True, slots=True)
class Reformulation:
    """The query, refined or unchanged, or its sub-queries; `clear` if it needs no further one."""

    queries: tuple[str, ...]
    clear: bool = True
    why: str = ""
    tokens: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """An action, see `Round`, with a region in pixels for "region"; "none" if evidence suffices."""

    action: str
    region: Box | None = None
    why: str = ""
    tokens: int = 0
    note: str = ""


Planner = Callable[[PlanState], tuple[Reformulation, Choice]]
"""Makes the two decisions of a round: the next query or sub-queries, F_QR (eq. 5), and the next
action, F_IA (eq. 4). It raises `ModelFailed` or `BudgetSpent` if a model does not answer."""
