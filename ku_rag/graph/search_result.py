"""What a search of the graph brings back: paths, the sub-graph, and who said what on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, runtime_checkable

from ku_rag.graph.model import Entity, Path, Step


@dataclass(frozen=True, slots=True)
class Note:
    """What an agent has to tell of one thing that it was asked, beside its answer.

    Args:
        said: the answer in its own words, with its reason.
        remark: what was wrong with it, or was left out before it was asked.
        calls: of a model.
        cached: how many of them cost nothing, for the reply was kept.
        prompt_tokens: as the endpoint counts them.
        completion_tokens: likewise.
        failed: there was no reply that could be used, so it counts as "nothing".
        spent: why there will be no more of them; "" while there may be.
    """

    said: str = ""
    remark: str = ""
    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    failed: bool = False
    spent: str = ""


@runtime_checkable
class Noting(Protocol):
    """Agents that account for themselves, as those do that ask a model."""

    def notes(self) -> Sequence[Note]:
        """Of the last of their methods that was called: one for each thing that it was asked."""
        ...


@dataclass(frozen=True, slots=True)
class TraceEntry:
    """One line of the trace.

    Args:
        round: 0 for everything before the first expansion; going depth first, how long the path is.
        agent: "perception", "topic", "expansion" or "validation".
        about: the path or the question that it was asked about.
        said: what it answered.
        note: what else there is to tell of it.
    """

    round: int
    agent: str
    about: str
    said: str
    note: Note = Note()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "round": self.round,
            "agent": self.agent,
            "about": self.about,
            "said": self.said,
            **{name: value for name, value in asdict(self.note).items() if name != "said"},
        }


@dataclass(frozen=True, slots=True)
class GraphSearchResult:
    """The sub-graph that was searched (the paper's Î, eq. 10), and the paths in it.

    Args:
        topic: where the search started; None when no topic entity was found.
        steps: relations of the sub-graph, in the order in which they were added.
        paths: those that are enough, best first, equals in the order in which they were found.
        leaves: those that end and are not enough, best first.
        captions: row of an entity → what an agent said that its pictures show.
        trace: all that the agents were asked and said.
        stopped: a sentence on why the search ended.
    """

    topic: Entity | None = None
    steps: tuple[Step, ...] = ()
    paths: tuple[Path, ...] = ()
    leaves: tuple[Path, ...] = ()
    captions: Mapping[int, str] = field(default_factory=dict)
    trace: tuple[TraceEntry, ...] = ()
    stopped: str = ""

    @property
    def entities(self) -> tuple[Entity, ...]:
        """Of the sub-graph, each once, the topic first."""
        first = [self.topic] if self.topic else []
        every = [*first, *(step.tail for step in self.steps)]
        return tuple({entity.row: entity for entity in every}.values())

    @property
    def enough(self) -> bool:
        """Whether some path is."""
        return bool(self.paths)

    def best(self, most: int) -> tuple[Path, ...]:
        """The paths that are enough; if none is, the best of the others.

        Args:
            most: no more than these, at least 1.
        """
        return (self.paths or self.leaves)[:most]

    @property
    def usage(self) -> dict[str, int]:
        """How much a model was asked: "calls", "cached", "prompt_tokens", "completion_tokens"."""
        names = ("calls", "cached", "prompt_tokens", "completion_tokens")
        return {name: sum(getattr(one.note, name) for one in self.trace) for name in names}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "topic": self.topic and self.topic.name,
            "entities": [entity.name for entity in self.entities],
            "relations": [[s.head.name, s.relation, s.tail.name] for s in self.steps],
            "enough": self.enough,
            "paths": [_path(path) for path in self.paths],
            "leaves": [_path(path) for path in self.leaves],
            "trace": [entry.to_dict() for entry in self.trace],
            "stopped": self.stopped,
            "usage": self.usage,
        }


def _path(path: Path) -> dict[str, Any]:
    return {
        "entities": [entity.name for entity in path.entities],
        "relations": [step.relation for step in path.steps],
        "text": path.text,
    }
