"""The steps of MH-MMKG: search agents in the setting "unaided-online", then one answer."""

from __future__ import annotations

from dataclasses import replace

from ku_rag.answering.correction import NOT_SENT, Answered, Chain, Material
from ku_rag.answering.evidence_retrieval import Paths, graph_of
from ku_rag.answering.pipeline import Context, QuerySteps, measure
from ku_rag.graph.search_types import Query
from ku_rag.mllm.base import Reply, usage
from ku_rag.mllm.prompts import load_prompts
from ku_rag.papers.mhmmkg import search_settings
from ku_rag.retrieval.base import Matched
from ku_rag.types import Correction, Match

_SETTING = "unaided-online"


class AgentSearchSteps(QuerySteps):
    """A query that agents search the graph for; it matches no units by retrieval."""

    needs_model = True
    drafts = False

    def find(self) -> tuple[Context, Reply | None]:
        """Let the agents search (eq. 5 to 10), and answer from the paths (eq. 11)."""
        assert self.chain
        query = Query(self.question.text, (self.picture,) if self.picture else ())
        with measure(self.times, "search"):
            answer = search_settings.answer(
                graph_of(self.base),
                query,
                _SETTING,
                self.chain.mllm,
                prompts=load_prompts("ku_rag.papers.mhmmkg", self.question.prompts),
                needs_reply=True,
            )
        topic = answer.search.topic if answer.search else None
        units = [Match(topic.unit, topic.name, 1.0, None, None)] if topic and topic.unit else []
        paths = [path.as_evidence(f"E{n}") for n, path in enumerate(answer.paths, 1)]
        context = Context(Matched(units), (), Paths(paths), reading=answer.reading)
        caption = Reply(answer.perception) if answer.perception else None
        return replace(context, models={"search": f"agents, {_SETTING}"}), caption

    def answer(
        self, chain: Chain, context: Context, material: Material, draft: Reply | None
    ) -> Answered:
        """Return the answer of the search; nothing corrects it."""
        assert context.reading
        if self.picture and not chain.sees_pictures:
            chain.notes.append(NOT_SENT)
        replies = chain.mllm.replies
        models = {"reader": f"mllm:{replies[-1].model}"} if replies else {}
        correction = Correction(notes=tuple(chain.notes), usage=usage(replies))
        return Answered(context.reading, models, correction)
