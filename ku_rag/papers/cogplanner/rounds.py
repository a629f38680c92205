"""The rounds of a plan: decisions of a planner and searches, within limits (CogPlanner, 4.2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, zip_longest
from pathlib import Path

from ku_rag.answering.pipeline import Planned, QueryInput, query_picture
from ku_rag.errors import BadInput, BudgetSpent, KuError, NotFound
from ku_rag.mllm.base import MLLM, MeteredMLLM, usage
from ku_rag.papers.cogplanner.mllm_planner import MLLMPlanner
from ku_rag.papers.cogplanner.plan import ACTIONS, Plan, PlanSettings, Round
from ku_rag.papers.cogplanner.planner import Choice, Planner, PlanState, Reformulation
from ku_rag.papers.cogplanner.rule_planner import decide_by_rule
from ku_rag.papers.cogplanner.searchers import Searchers, load_searchers
from ku_rag.papers.cogplanner.searches import Piece, Searches, SearchOutcome
from ku_rag.pictures import scaled
from ku_rag.rerankers.base import RerankerQuery
from ku_rag.rerankers.implementations import RelevanceReranker
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.matching import match
from ku_rag.store.connection import snapshot
from ku_rag.types import Box, Evidence, PathEvidence

_DOCUMENT = "document"


def start(
    base: Callable[[], Retrieval],
    question: QueryInput,
    plan: str | PlanSettings | Plan,
    searchers: Searchers,
    mllm: MLLM | None,
    published: Sequence[str] = (),
) -> PlanRun:
    """Return the run of a plan, which has not begun; see `KnowledgeBase.plan`."""
    if published and mllm is None:
        raise NotFound('strict="cogplanner" plans with a model: name one with --mllm')
    metered = MeteredMLLM(mllm) if mllm else None
    planner: Planner = decide_by_rule
    name = "embedded"
    image = str(question.image) if isinstance(question.image, Path) else None
    picture, scale = query_picture(question.image)
    if isinstance(plan, Plan):
        if plan.question != question.text:
            raise BadInput(
                f"the plan is for the question {plan.question!r}: ask this, or edit the plan"
            )
        if plan.image and image and Path(plan.image).resolve() != Path(image).resolve():
            raise BadInput(f"the plan is for the picture {plan.image}: name this, or edit the plan")
        planner, name = _replay(plan, scale), _DOCUMENT
        settings = replace(plan.settings, max_rounds=len(plan.rounds))
        actions = [round_.action for round_ in plan.rounds]
    else:
        settings = plan if isinstance(plan, PlanSettings) else PlanSettings(str(plan))
        settings = replace(settings, actions=settings.actions or tuple(published))
        actions = [*settings.actions]
        if metered:
            by_model = MLLMPlanner(metered, settings, prompts=question.prompts)
            planner, name = by_model.decide, "mllm"
    ours = [name for name in actions if name not in published and not name.startswith("searcher:")]
    if published and ours:
        names = ", ".join(published)
        raise BadInput(f'strict="cogplanner" has the actions {names}: leave out {ours[0]!r}')
    by_name = load_searchers(searchers)
    searches = Searches(base, picture, metered, question.prompts, settings, by_name)
    return PlanRun(question.text, image, planner, name, searches, scale)


class PlanRun:
    """The run of a plan. One object serves one question."""

    def __init__(
        self,
        question: str,
        image: str | None,
        planner: Planner,
        name: str,
        searches: Searches,
        scale: float = 1.0,
    ) -> None:
        self._question, self._image, self._planner, self._name = question, image, planner, name
        self._scale = scale
        self._searches, self._settings = searches, searches.settings
        self._replies = searches.mllm.replies if searches.mllm else []
        self._rounds: list[Round] = []
        self._outcomes: list[SearchOutcome] = []
        self._pieces: dict[str, Piece] = {}
        self._done: set[tuple[str, str, Box | None]] = set()
        self._numbers = count(1)
        self._stopped = ""
        self._started = time.monotonic()

    def rounds(self) -> Iterator[Round]:
        """Plan and search, and yield each round when it has ended."""
        queries: tuple[str, ...] = (self._question,)
        while not self._stopped and not self._is_spent():
            started = time.perf_counter()
            try:
                reformulation, choice = self._decide(queries)
            except BudgetSpent as error:
                self._stopped = str(error)
                return
            took = round((time.perf_counter() - started) * 1000, 2)
            is_same = reformulation.queries == queries
            queries = reformulation.queries
            round_ = self._run_round(reformulation, choice)
            self._rounds.append(replace(round_, milliseconds=took))
            yield self._rounds[-1]
            is_done = choice.action == "none" and (round_.clear or is_same)
            if is_done and not self._stopped:
                self._stopped = "the planner chose no further search"

    def plan(self) -> Plan:
        """Return the document of the rounds so far."""
        return Plan(
            self._question,
            tuple(self._rounds),
            self._image,
            self._settings,
            self._name,
            self._stopped,
            usage(self._replies) if self._searches.mllm else {},
            round((time.monotonic() - self._started) * 1000, 2),
        )

    def planned(self, k: int | None = None) -> Planned:
        """Return the evidence of all rounds, or of the last search, to answer from."""
        plan, matched = self.plan(), self._choose_units()
        searches = [outcome.search for outcome in self._outcomes]
        if self._settings.last_round:
            searches = next((list(r.searches) for r in reversed(self._rounds) if r.searches), [])
        ids = zip_longest(*([hit.id for hit in search.hits] for search in searches))
        distinct = dict.fromkeys(chain.from_iterable(ids))
        pieces = [self._pieces[id] for id in distinct if id in self._pieces]
        evidence = [piece for piece in pieces if isinstance(piece, Evidence)][:k]
        paths = [piece for piece in pieces if isinstance(piece, PathEvidence)]
        if self._outcomes and matched.region is None:
            base, most = self._searches.base(), self._settings.images
            with snapshot(base.database.connection):
                matched = match(base, None, self._question, most)
        took = plan.milliseconds
        return Planned(matched, evidence, paths, plan.queries, plan, took, self._replies)

    def _choose_units(self) -> Matched:
        """Return the units of the last search by picture, or else of the last search."""
        every = [outcome.matched for outcome in self._outcomes]
        return ([Matched()] + every + [matched for matched in every if matched.region])[-1]

    def _decide(self, queries: tuple[str, ...]) -> tuple[Reformulation, Choice]:
        """Make both decisions of a round."""
        matched, picture = self._choose_units(), self._searches.picture
        searchers = tuple(self._searches.searchers)
        state = PlanState(
            self._question, queries, picture, self._rounds, matched.units, matched.about, searchers
        )
        return self._planner(state)

    def _is_spent(self) -> bool:
        """Return whether a limit is reached, and note which."""
        spent = {
            "rounds": len(self._rounds),
            # A round takes two calls.
            "calls": len(self._replies) + 1 if self._searches.mllm else -1,
            "tokens": sum(reply.prompt_tokens + reply.completion_tokens for reply in self._replies),
            "seconds": time.monotonic() - self._started,
        }
        for name, amount in spent.items():
            limit = getattr(self._settings, f"max_{name}")
            if limit is not None and amount >= limit:
                self._stopped = f"the limit {name}={limit:g}"
                if name == "rounds" and self._name == _DOCUMENT:
                    self._stopped = "the document has no further round"
                return True
        return False

    def _run_round(self, reformulation: Reformulation, choice: Choice) -> Round:
        """Carry out the action of a round, and return the round."""
        action, region, note = self._possible(choice)
        notes = [reformulation.note, choice.note, note]
        outcomes: list[SearchOutcome] = []
        if action == "relevance":
            notes.append(self._drop_irrelevant())
        elif action != "none":
            queries = [q for q in reformulation.queries if (q, action, region) not in self._done]
            self._done |= {(query, action, region) for query in queries}
            if queries:
                limit, spent = self._settings.max_seconds, time.monotonic() - self._started
                left = None if limit is None else max(0.0, limit - spent)
                outcomes = self._searches.run(action, queries, region, left)
            else:
                action, region = "none", None
                notes.append("this was searched before")
                if self._name != _DOCUMENT:
                    self._stopped = "the planner repeated a search"
        self._outcomes += outcomes
        for outcome in outcomes:
            for hit, piece in zip(outcome.search.hits, outcome.pieces, strict=True):
                if isinstance(piece, Evidence) and piece.chunk < 0:  # of a searcher
                    piece = replace(piece, chunk=-next(self._numbers))
                self._pieces.setdefault(hit.id, piece)
        return Round(
            reformulation.queries,
            action,
            reformulation.clear,
            region and scaled(region, self._scale),
            (reformulation.why, choice.why),
            tuple(outcome.search for outcome in outcomes),
            (reformulation.tokens, choice.tokens),
            notes=tuple(filter(None, notes)),
        )

    def _possible(self, choice: Choice) -> tuple[str, Box | None, str]:
        """Return the action and region that can be carried out, and a note on what changed."""
        action, picture = choice.action, self._searches.picture
        possible = self._settings.actions or ACTIONS
        if action not in (*possible, *(f"searcher:{name}" for name in self._searches.searchers)):
            self._stopped = f"the planner asked for the unknown action {action[:40]!r}"
            return "none", None, self._stopped
        if action in ("image", "region") and picture is None:
            return "text", None, f"there is no picture for the action {action!r}: searched texts"
        if action != "region" or picture is None:
            return action, None, ""
        x0, y0, x1, y1 = choice.region or (0, 0, 0, 0)
        box = max(0, x0), max(0, y0), min(picture.width, x1), min(picture.height, y1)
        if box[0] >= box[2] or box[1] >= box[3]:
            return "image", None, "the region is empty: searched the whole picture"
        return action, box, ""

    def _drop_irrelevant(self) -> str:
        """Drop texts that the model calls irrelevant (ReflectiVA); return a note on a problem."""
        searches = self._searches
        if searches.mllm is None:
            return "the action relevance needs a model: nothing was dropped"
        texts = {id: piece for id, piece in self._pieces.items() if isinstance(piece, Evidence)}
        query = RerankerQuery(self._question, searches.picture, (), searches.mllm)
        try:
            reranker = RelevanceReranker(prompts=searches.prompts)
            scores = reranker.score(query, [*texts.values()])
        except KuError as error:
            return f"the action relevance failed: {error}"
        for id, score in zip(texts, scores.tolist(), strict=True):
            if score == 0:
                del self._pieces[id]
        return ""


def _replay(plan: Plan, scale: float) -> Planner:
    """Return the planner that makes the decisions that a plan records; "none" after the last."""

    def decide(state: PlanState) -> tuple[Reformulation, Choice]:
        recorded = dict(enumerate(plan.rounds))
        round_ = recorded.get(len(state.rounds), Round(state.queries, "none"))
        region = round_.region and scaled(round_.region, 1 / scale)
        return Reformulation(round_.queries, round_.clear, round_.why[0]), Choice(
            round_.action, region, round_.why[1]
        )

    return decide
