"""The query, the agents and the result of a search of the graph (MH-MMKG, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ku_rag.graph.model import Entity, Path, Step
from ku_rag.mllm.base import Reply
from ku_rag.mllm.base import usage as reply_usage
from ku_rag.text.tokens import content_words, words
from ku_rag.types import Serializable

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Query:
    """A question to the graph (the paper's Q = (q, d, z)).

    The hints z are what pictures do not show; the perception is a description by people (s) or by
    the perceiver (ŝ).
    """

    question: str
    pictures: tuple[Image, ...] = ()
    hints: str = ""
    perception: str = ""

    @property
    def text(self) -> str:
        """Question, hints and perception, one per line."""
        return "\n".join(filter(None, (self.question, self.hints, self.perception)))


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How far a search goes.

    Args:
        max_paths: Number of sufficient paths that end the search (the paper's α), at least 1.
        max_rounds: Greatest number of relations of a path; 0: only the topic entity is judged.
        depth_first: Follow each path to its end before the next (section 5.3).
        most_neighbours: Greatest number of relations of one entity that agents receive, at least
            1: those that share most words with the query.
        most_open: Greatest number of paths validated in one round, at least 1, selected likewise.
    """

    max_paths: int = 5
    max_rounds: int = 6
    depth_first: bool = False
    most_neighbours: int = 100
    most_open: int = 100


@dataclass(frozen=True, slots=True)
class TraceEntry(Serializable):
    """A question to an agent and its answer.

    The round is 0 before the first expansion; depth first, it is the length of the path.
    """

    round: int = 0
    agent: str = ""
    about: str = ""
    said: str = ""
    remark: str = ""
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failed: bool = False
    spent: str = ""


@dataclass
class AgentTrace:
    """Base class of agents that record their questions and answers; one object per question."""

    trace: list[TraceEntry] = field(default_factory=list, init=False)
    round: int = field(default=0, init=False)
    spent: str = field(default="", init=False)

    def record(self, agent: str, about: str, entry: TraceEntry) -> None:
        """Add the answer of an agent to the trace."""
        self.trace.append(replace(entry, round=self.round, agent=agent, about=about))
        self.spent = self.spent or entry.spent


@dataclass(frozen=True, slots=True)
class GraphSearchResult:
    """The explored sub-graph (the paper's Î, eq. 10) and its paths; `leaves` were not extended."""

    topic: Entity | None = None
    steps: tuple[Step, ...] = ()
    paths: tuple[Path, ...] = ()
    leaves: tuple[Path, ...] = ()
    trace: tuple[TraceEntry, ...] = ()
    stopped: str = ""

    @property
    def entities(self) -> tuple[Entity, ...]:
        """The distinct entities of the sub-graph, the topic first."""
        first = [self.topic] if self.topic else []
        every = [*first, *(step.tail for step in self.steps)]
        return tuple({entity.row: entity for entity in every}.values())

    @property
    def enough(self) -> bool:
        """Whether a path is sufficient."""
        return bool(self.paths)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the result, without the trace."""
        paths, leaves = (
            [{key: path.to_dict()[key] for key in ("entities", "relations", "text")} for path in of]
            for of in (self.paths, self.leaves)
        )
        return {
            "topic": self.topic and self.topic.name,
            "entities": [entity.name for entity in self.entities],
            "relations": [[s.head.name, s.relation, s.tail.name] for s in self.steps],
            "enough": self.enough,
            "paths": paths,
            "leaves": leaves,
            "stopped": self.stopped,
        }


def usage(trace: Sequence[TraceEntry]) -> dict[str, int]:
    """Return the number of "calls" and their tokens; see `ku_rag.mllm.base.usage`."""
    replies = [
        Reply("", None, entry.prompt_tokens, entry.completion_tokens, cached=bool(entry.cached))
        for entry in trace
        if entry.calls
    ]
    counts = reply_usage(replies)
    return {"calls": counts.pop("replies"), **counts}


def most_similar(query: Query, texts: Sequence[str], most: int) -> list[int]:
    """Return the places of the texts that share most words with a query, in ascending order."""
    if len(texts) <= most:
        return list(range(len(texts)))
    terms = frozenset(content_words(query.text))
    shared = [len(terms.intersection(words(text))) for text in texts]
    return sorted(sorted(range(len(texts)), key=lambda n: -shared[n])[:most])


def left_out(what: str, count: int, of: int) -> str:
    """Return a remark on what `most_similar` left out, or "" if it left out nothing."""
    if count == of:
        return ""
    return f"{count:,} of {of:,} {what} were used: those that share most words with the query"
