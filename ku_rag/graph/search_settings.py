"""The six settings: what of the query and of the graph a model is given (MH-MMKG, table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ku_rag.encoders.base import Encoder
from ku_rag.errors import BadInput, BudgetSpent, ModelFailed
from ku_rag.graph.agent_search import explore
from ku_rag.graph.embedded_agents import EmbeddedAgents, Sight
from ku_rag.graph.mllm_agents import WORKERS, AgentPrompts, ModelAgents
from ku_rag.graph.mllm_calls import AgentQuestion, Outcome, ask
from ku_rag.graph.model import Entity, Graph, Path
from ku_rag.graph.search_result import GraphSearchResult, TraceEntry
from ku_rag.graph.search_types import Query
from ku_rag.graph.summary import MOST_PATHS, Captions, Summary, summarise
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import fenced


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of table 2.

    Args:
        name: as commands and results call it.
        vision: the model is given the pictures d, and puts them into words where it searches.
        described: it is given what people say of them instead (s).
        gold: it is given the annotated paths.
        searches: it searches the graph for paths.
        captions: whose captions of the graph's pictures it is given.
    """

    name: str
    vision: bool = False
    described: bool = False
    gold: bool = False
    searches: bool = False
    captions: Captions = "none"


SETTINGS: Mapping[str, Setting] = {
    one.name: one
    for one in (
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
    """An answer, and what led to it.

    Args:
        setting: the setting's name.
        answer: the model's words; "" where it failed to reply after a search.
        failed: why there is no answer, or "".
        perception: the pictures in words, as far as the setting has them.
        summary: the paths that the answer rests on, and what was told of them.
        found: what the search brought; None where there was none.
        trace: all that the model was asked and said, in order.
    """

    setting: str
    answer: str
    failed: str
    perception: str
    summary: Summary
    found: GraphSearchResult | None
    trace: tuple[TraceEntry, ...]

    @property
    def usage(self) -> dict[str, int]:
        """See `GraphSearchResult.usage`; perceiver and answer are counted here too."""
        return GraphSearchResult(trace=self.trace).usage

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        found = self.found and self.found.to_dict()
        return {
            "setting": self.setting,
            "answer": self.answer,
            "failed": self.failed,
            "perception": self.perception,
            "paths": [path.text for path in self.summary.paths],
            "found": found and {k: v for k, v in found.items() if k not in ("trace", "usage")},
            "trace": [entry.to_dict() for entry in self.trace],
            "usage": self.usage,
        }


def answer(
    graph: Graph,
    query: Query,
    setting: str,
    mllm: MLLM,
    *,
    topic: Entity | None = None,
    gold: Sequence[Path] | None = None,
    most_paths: int = MOST_PATHS,
    max_rounds: int = 6,
    depth_first: bool = False,
    captioner: str = "",
    workers: int = WORKERS,
    prompts: AgentPrompts | None = None,
) -> GraphAnswer:
    """Answer a question as one of the six settings has it (eq. 2 to 4, 11).

    Args:
        graph: the graph.
        query: what is asked. Its hints are given in every setting; its perception, which people
            have written, in those three alone that take it.
        setting: a key of `SETTINGS`.
        mllm: the model, which is perceiver, agents and summariser in one.
        topic: where the search starts; None asks the agents.
        gold: the annotated paths, for "knowledgeable".
        most_paths: α: the search ends with so many that are enough, and no more are told.
        max_rounds: see `explore`.
        depth_first: see `explore`.
        captioner: for "unaided-offline", the model whose captions are told; see `Knowledge`.
        workers: most questions at once.
        prompts: by default those of the project.

    Raises:
        BadInput: there is no such setting, or the query has not what it takes.
        ModelFailed, BudgetSpent: there is no reply, and nothing was found that would be lost.
    """
    chosen = _chosen(setting, query, gold)
    said = prompts or AgentPrompts.load()
    agents = ModelAgents(
        mllm, graph, captions=chosen.captions, captioner=captioner, workers=workers, prompts=said
    )
    trace: list[TraceEntry] = []
    asked = query if chosen.described else replace(query, perception="")
    if chosen.searches and chosen.vision and query.pictures:
        asked = agents.perceive(asked)
        (note,) = agents.notes()
        trace.append(TraceEntry(0, "perception", query.question, note.said, note))
    found = None
    if chosen.searches:
        found = explore(
            graph,
            asked,
            agents,
            topic=topic,
            max_paths=most_paths,
            max_rounds=max_rounds,
            depth_first=depth_first,
        )
        trace += found.trace
    paths = found.best(most_paths) if found else tuple(gold or ()) if chosen.gold else ()
    summary = summarise(paths, agents.knowledge, most=most_paths)
    outcome = _concluded(mllm, asked, chosen, summary, said)
    if found is None and outcome.reply is None:
        raise (BudgetSpent if outcome.spent else ModelFailed)(outcome.problem)
    words = outcome.reply.text.strip() if outcome.reply else ""
    last = max((entry.round for entry in trace), default=0)
    trace.append(TraceEntry(last, "answer", query.question, words, outcome.note(words)))
    return GraphAnswer(
        setting=setting,
        answer=words,
        failed=outcome.problem,
        perception=asked.perception,
        summary=summary,
        found=found,
        trace=tuple(trace),
    )


def answer_without_model(
    graph: Graph,
    query: Query,
    encoder: Encoder,
    *,
    sight: Sight,
    topic: Entity | None = None,
    most_paths: int = MOST_PATHS,
    max_rounds: int = 6,
    depth_first: bool = False,
) -> GraphAnswer:
    """Find paths by the embedded agents; there is no answer in words.

    Args:
        graph: the graph, in one state.
        query: what is asked.
        encoder: for texts.
        sight: finds the entities that pictures show.
        topic: where the search starts; None asks the agents.
        most_paths: no more are found.
        max_rounds: see `explore`.
        depth_first: see `explore`.
    """
    agents = EmbeddedAgents(graph, encoder, most=most_paths, sight=sight)
    found = explore(
        graph,
        query,
        agents,
        topic=topic,
        max_paths=most_paths,
        max_rounds=max_rounds,
        depth_first=depth_first,
    )
    return GraphAnswer(
        setting="embedded",
        answer="",
        failed="",
        perception=query.perception,
        summary=Summary(found.best(most_paths)),
        found=found,
        trace=found.trace,
    )


def _chosen(setting: str, query: Query, gold: Sequence[Path] | None) -> Setting:
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


def _concluded(
    mllm: MLLM, query: Query, setting: Setting, summary: Summary, prompts: AgentPrompts
) -> Outcome:
    """The summariser's turn: ŷ = MLLM(Q, ℵ(Î, G, A, α)) (eq. 11)."""
    given = {"known": query.hints, "shown": query.perception}
    lines = [*({key: text} for key, text in given.items() if text), *summary.lines]
    text = prompts.answer.fill(question=query.question, data=fenced(lines) if lines else "")
    return ask(mllm, AgentQuestion(text, query.pictures if setting.vision else ()))
