"""The rounds of a plan: decisions of a planner and searches, within limits (CogPlanner, 4.2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, zip_longest
from multiprocessing.pool import ThreadPool
from pathlib import Path

from ku_rag.answering.pipeline import Planned, QueryInput, query_picture
from ku_rag.errors import BadInput, BudgetSpent
from ku_rag.mllm.base import MLLM, MeteredMLLM, usage
from ku_rag.planning.embedded_planner import EmbeddedPlanner
from ku_rag.planning.mllm_planner import MLLMPlanner
from ku_rag.planning.plan import ACTIONS, Plan, PlanSettings, Round
from ku_rag.planning.planner import Choice, Planner, PlanState, Reformulation
from ku_rag.planning.searchers import Searchers, load_searchers
from ku_rag.planning.searches import Piece, Searches, SearchOutcome
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.matching import match
from ku_rag.store.connection import snapshot
from ku_rag.types import Evidence, PathEvidence


def start(
    base: Callable[[], Retrieval],
    asked: QueryInput,
    plan: str | PlanSettings | Plan,
    searchers: Searchers,
    mllm: MLLM | None,
) -> PlanRun:
    """Return the run of a plan, which has not begun; see `KnowledgeBase.plan`.

    Raises:
        BadInput: the plan is for another question, or a setting is out of range.
        NotFound: no searcher of a name is installed.
    """
    metered = MeteredMLLM(mllm) if mllm else None
    planner: Planner = EmbeddedPlanner()
    image = str(asked.image) if isinstance(asked.image, str | Path) else None
    picture, _ = query_picture(asked.image)
    if isinstance(plan, Plan):
        if plan.question != asked.text:
            raise BadInput(
                f"the plan is for the question {plan.question!r}: ask this, or edit the plan"
            )
        if plan.image and image and Path(plan.image).resolve() != Path(image).resolve():
            raise BadInput(f"the plan is for the picture {plan.image}: name this, or edit the plan")
        planner = DocumentPlanner(plan)
        settings = replace(plan.settings, max_rounds=len(plan.rounds))
    else:
        settings = plan if isinstance(plan, PlanSettings) else PlanSettings(str(plan))
        if metered:
            planner = MLLMPlanner(metered, planner, prompts=asked.prompts)
    known = load_searchers(searchers)
    searches = Searches(base, picture, metered, asked.prompts, settings, known)
    return PlanRun(asked.text, image, planner, searches)


class PlanRun:
    """The run of a plan. One object serves one question.

    Args:
        question: the question, Q0.
        image: the file of its picture, for the document.
        planner: makes the decisions.
        searches: carries them out, with the settings and the model of the plan.
    """

    def __init__(
        self, question: str, image: str | None, planner: Planner, searches: Searches
    ) -> None:
        self._question, self._image, self._planner = question, image, planner
        self._searches, self._settings = searches, searches.settings
        self._replies = searches.mllm.replies if searches.mllm else []
        self._rounds: list[Round] = []
        self._outcomes: list[SearchOutcome] = []
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
            made = self._run_round(reformulation, choice)
            self._rounds.append(replace(made, milliseconds=took))
            yield self._rounds[-1]
            is_done = choice.action == "none" and (made.clear or is_same)
            if is_done and not self._stopped:
                self._stopped = "the planner chose no further search"

    def plan(self) -> Plan:
        """Return the document of the rounds so far."""
        return Plan(
            self._question,
            tuple(self._rounds),
            self._image,
            self._settings,
            self._planner.name,
            self._stopped,
            usage(self._replies) if self._searches.mllm else {},
            round((time.monotonic() - self._started) * 1000, 2),
        )

    def planned(self, k: int | None = None) -> Planned:
        """Return the evidence of all rounds, to answer from.

        Of several searches the best texts come first, then the second best, and so on.

        Args:
            k: most texts; None for all.
        """
        plan, matched, found = self.plan(), self._matched(), dict[str, Piece]()
        ids = [[hit.id for hit in one.search.hits] for one in self._outcomes]
        for one in self._outcomes:
            for hit, piece in zip(one.search.hits, one.pieces, strict=True):
                found.setdefault(hit.id, piece)
        paths = [piece for piece in found.values() if isinstance(piece, PathEvidence)]
        ranked = map(found.get, dict.fromkeys(chain.from_iterable(zip_longest(*ids))))
        evidence = [piece for piece in ranked if isinstance(piece, Evidence)][:k]
        # Results of searchers have no row in the store: they get numbers below zero.
        evidence = [
            piece if piece.chunk >= 0 else replace(piece, chunk=-n)
            for n, piece in enumerate(evidence, 1)
        ]
        if self._outcomes and matched.region is None:
            base, most = self._searches.base(), self._settings.images
            with snapshot(base.database.connection):
                matched = match(base, None, self._question, most)
        took = plan.milliseconds
        return Planned(matched, evidence, paths, plan.queries, plan, took, self._replies)

    def _matched(self) -> Matched:
        """Return the units of the last search by picture, or else of the last search."""
        every = [one.matched for one in self._outcomes]
        return ([Matched()] + every + [one for one in every if one.region])[-1]

    # ---- decisions -----------------------------------------------------------------------------

    def _decide(self, queries: tuple[str, ...]) -> tuple[Reformulation, Choice]:
        """Make both decisions of a round (eq. 7 and 8)."""
        matched, picture = self._matched(), self._searches.picture
        searchers = tuple(self._searches.searchers)
        state = PlanState(
            self._question, queries, picture, self._rounds, matched.units, matched.about, searchers
        )
        if self._settings.modelling == "sequential":
            reformulation = self._reformulated(state)
            return reformulation, self._planner.choose(
                replace(state, queries=reformulation.queries)
            )
        if self._searches.mllm is None:
            return self._reformulated(state), self._planner.choose(state)
        with ThreadPool(2) as pool:
            first = pool.apply_async(self._reformulated, (state,))
            second = pool.apply_async(self._planner.choose, (state,))
            return first.get(), second.get()

    def _reformulated(self, state: PlanState) -> Reformulation:
        """Return the reformulation without empty and repeated queries; none keeps the last ones."""
        made = self._planner.reformulate(state)
        queries = (" ".join(query.split()) for query in made.queries)
        return replace(made, queries=tuple(dict.fromkeys(filter(None, queries))) or state.queries)

    def _is_spent(self) -> bool:
        """Return whether a limit is reached, and note which."""
        spent = {
            "rounds": len(self._rounds),
            # A round takes two calls.
            "calls": len(self._replies) + 1 if self._searches.mllm else -1,
            "tokens": sum(one.prompt_tokens + one.completion_tokens for one in self._replies),
            "seconds": time.monotonic() - self._started,
        }
        for name, amount in spent.items():
            limit = getattr(self._settings, f"max_{name}")
            if limit is not None and amount >= limit:
                self._stopped = f"the limit {name}={limit:g}"
                if name == "rounds" and self._planner.name == DocumentPlanner.name:
                    self._stopped = "the document has no further round"
                return True
        return False

    # ---- actions -------------------------------------------------------------------------------

    def _run_round(self, reformulation: Reformulation, choice: Choice) -> Round:
        """Carry out the action of a round, and return the round."""
        action, notes = choice.action, [reformulation.note, choice.note]
        if action not in (*ACTIONS, *(f"searcher:{name}" for name in self._searches.searchers)):
            self._stopped = f"the planner asked for the unknown action {action[:40]!r}"
            notes.append(self._stopped)
            action = "none"
        elif action == "image" and self._searches.picture is None:
            notes.append("there is no picture for the action 'image': searched texts")
            action = "text"
        outcomes: list[SearchOutcome] = []
        if action != "none":
            same = (one.searches for one in self._rounds if one.action == action)
            searched = {search.query for one in same for search in one}
            if queries := [query for query in reformulation.queries if query not in searched]:
                limit, spent = self._settings.max_seconds, time.monotonic() - self._started
                left = None if limit is None else max(0.0, limit - spent)
                outcomes = self._searches.run(action, queries, left)
            else:
                action = "none"
                notes.append("this was searched before")
                if self._planner.name != DocumentPlanner.name:
                    self._stopped = "the planner repeated a search"
        self._outcomes += outcomes
        return Round(
            reformulation.queries,
            action,
            reformulation.clear,
            (reformulation.why, choice.why),
            tuple(one.search for one in outcomes),
            (reformulation.tokens, choice.tokens),
            notes=tuple(filter(None, notes)),
        )


class DocumentPlanner:
    """Makes the decisions that a plan records, such as one that was edited.

    Args:
        plan: the plan.
    """

    name = "document"

    def __init__(self, plan: Plan) -> None:
        self._rounds = plan.rounds

    def reformulate(self, state: PlanState) -> Reformulation:
        """Return the queries of the present round."""
        one = self._round(state)
        return Reformulation(one.queries, one.clear, one.why[0])

    def choose(self, state: PlanState) -> Choice:
        """Return the action of the present round; "none" after the last one."""
        one = self._round(state)
        return Choice(one.action, one.why[1])

    def _round(self, state: PlanState) -> Round:
        number = len(state.rounds)
        return self._rounds[number] if number < len(self._rounds) else Round(state.queries, "none")
