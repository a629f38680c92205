"""Measures of plans (CogPlanner, sections 6.1.2, 6.3 and 6.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ku_rag.evaluation.measures import answer_text
from ku_rag.evaluation.measures.base import Prediction, Score
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.planning.plan import Plan

_GOLD = ("golden_query", "final_queries")
"""Fields of a question with the gold query."""


def _query(
    compare: Callable[[str, str], float], question: EvaluationQuestion, found: Prediction
) -> float | None:
    """Compare the last query, or the question without a plan, with the gold query.

    Several queries are joined in their order.
    """
    gold = next(filter(None, map(question.fields.get, _GOLD)), ())
    queries = found.plan.queries if found.plan else (question.question,)
    golds = [gold] if isinstance(gold, str) else gold
    return compare(" ".join(queries), " ".join(golds)) if golds else None


def _of_plan(count: Callable[[Plan], float]) -> Score:
    return lambda _, found: float(count(found.plan)) if found.plan else None


def _searches(kind: str) -> Score:
    return _of_plan(lambda plan: sum(one.action == kind for one in plan.rounds))


PLAN_SCORES: Mapping[str, Score] = {
    "query_bleu": partial(_query, answer_text.bleu),
    "query_rougeL": partial(_query, partial(answer_text.rouge, "rougeL")),
    "query_f1": partial(_query, answer_text.token_f1),
    "plan_actions": _of_plan(lambda plan: len(plan.rounds)),
    "no_search": _searches("none"),
    "text_search": _of_plan(
        lambda plan: sum(one.action not in ("none", "image") for one in plan.rounds)
    ),
    "image_search": _searches("image"),
    "plan_tokens": _of_plan(lambda plan: plan.tokens[0]),
    "plan_tokens_para": _of_plan(lambda plan: plan.tokens[1]),
    "response_tokens": lambda _, found: found.tokens,
    "plan_ratio": _of_plan(lambda plan: plan.tokens[0]),
    "plan_ratio_para": _of_plan(lambda plan: plan.tokens[1]),
}
RATIOS: Mapping[str, str] = {
    **dict.fromkeys(("no_search", "text_search", "image_search"), "plan_actions"),
    **dict.fromkeys(("plan_ratio", "plan_ratio_para"), "response_tokens"),
}
"""Measures whose figure is the ratio of their mean to that of another one (tables 5 and 6)."""


def plan_measures(questions: Sequence[EvaluationQuestion]) -> list[str]:
    """Return the names of the measures of plans that the questions have gold for."""
    fields = {name for question in questions for name in question.fields}
    has_query = not fields.isdisjoint(_GOLD)
    return [name for name in PLAN_SCORES if has_query or not name.startswith("query_")]
