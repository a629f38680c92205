"""The six settings: what a model receives of the query and of the graph (MH-MMKG, table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ku_rag.errors import BadInput
from ku_rag.graph.model import Entity, Graph, Path
from ku_rag.graph.search_types import GraphSearchResult, Query, SearchLimits, TraceEntry, usage
from ku_rag.graph.summary import Captions, summarise
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import Prompt
from ku_rag.papers.mhmmkg.agent_search import explore
from ku_rag.papers.mhmmkg.mllm_agents import ModelAgents
from ku_rag.types import Reading

EMBEDDED = "embedded"
"""The setting of a search without a model."""
_LIMITS = SearchLimits()


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of table 2: the model receives pictures (`vision`), or their description by people."""

    name: str
    vision: bool = False
    described: bool = False
    gold: bool = False
    searches: bool = False
    captions: Captions = "none"


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("vanilla", vision=True),
        Setting("vanilla+", described=True),
        Setting("knowledgeable", described=True, gold=True, captions="human"),
        Setting("perceptive", described=True, searches=True, captions="human"),
        Setting("unaided-offline", vision=True, searches=True, captions="offline"),
        Setting("unaided-online", vision=True, searches=True, captions="online"),
    )
}


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """An answer with its evidence and trace; "" if the model did not reply after a search."""

    setting: str
    answer: str
    failed: str
    perception: str
    paths: tuple[Path, ...]
    search: GraphSearchResult | None
    trace: tuple[TraceEntry, ...]

    @property
    def reading(self) -> Reading:
        """The answer, which cites all paths as E1, E2 …; a search without a model states none."""
        return Reading(
            self.answer,
            tuple(f"E{n}" for n in range(1, len(self.paths) + 1)),
            ((0, 0),) * len(self.paths),
            why=self.failed or (self.search.stopped if self.search else ""),
            unanswered="not_found" if self.setting == EMBEDDED else "refused",
        )

    @property
    def usage(self) -> dict[str, int]:
        """See `usage`; perceiver and answer are included."""
        return usage(self.trace)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the answer."""
        return {
            "setting": self.setting,
            "outcome": self.reading.outcome,
            "answer": self.answer,
            "failed": self.failed,
            "perception": self.perception,
            "paths": [path.text for path in self.paths],
            "found": self.search and self.search.to_dict(),
            "trace": [entry.to_dict() for entry in self.trace],
            "usage": self.usage,
        }


def answer(
    graph: Graph,
    query: Query,
    setting: str,
    mllm: MLLM,
    limits: SearchLimits = _LIMITS,
    *,
    topic: Entity | None = None,
    gold: Sequence[Path] | None = None,
    captioner: str = "",
    prompts: Mapping[str, Prompt] | None = None,
    needs_reply: bool = False,
) -> GraphAnswer:
    """Answer a question in one of the six settings (eq. 2 to 4, 11).

    `gold` are the annotated paths for "knowledgeable". With `needs_reply` it is an error if the
    model does not answer after a search; without a search it always is.
    """
    chosen = _check(setting, query, gold)
    agents = ModelAgents(
        mllm, graph, captions=chosen.captions, captioner=captioner, prompts=prompts
    )
    query = query if chosen.described else replace(query, perception="")
    if chosen.searches and chosen.vision and query.pictures:
        query = agents.perceive(query)
    search, paths = None, tuple(gold or ()) if chosen.gold else ()
    if chosen.searches:
        search = explore(graph, query, agents, limits, topic=topic)
        paths = search.paths or search.leaves
    query = query if chosen.vision else replace(query, pictures=())
    paths = paths[: limits.max_paths]
    outcome = agents.answer(query, summarise(paths, agents.knowledge))
    if outcome.failure and (needs_reply or search is None):
        raise outcome.failure
    trace = tuple(agents.trace)
    return GraphAnswer(
        setting, outcome.text, outcome.problem, query.perception, paths, search, trace
    )


def _check(setting: str, query: Query, gold: Sequence[Path] | None) -> Setting:
    chosen = SETTINGS.get(setting)
    if chosen is None:
        raise BadInput(f"the setting is {setting!r}: expected one of {', '.join(SETTINGS)}")
    if chosen.gold and not gold:
        raise BadInput(f"the setting {setting} answers from annotated paths: give them as `gold`")
    if chosen.described and query.pictures and not query.perception:
        raise BadInput(
            f"the setting {setting} takes what people say of the pictures, not the pictures: "
            "give it as the query's `perception`"
        )
    return chosen
