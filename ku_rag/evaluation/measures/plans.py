"""Measures of plans (CogPlanner, sections 6.1.2, 6.3 and 6.4).

Precision and recall of sub-queries and of actions are this project's own; the paper has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean

from ku_rag.evaluation.measures import answer_text
from ku_rag.evaluation.measures.base import Prediction, Score
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.papers.cogplanner.plan import Plan

_KINDS = {"none": "none", "relevance": "none", "image": "image", "region": "image"}
"""The actions of the paper; all others count as searches for text."""


def _query(
    compare: Callable[[str, str], float], question: EvaluationQuestion, prediction: Prediction
) -> float | None:
    """Compare the last query, or the question without a plan, with the gold query."""
    gold = question.fields.get("golden_query") or question.fields.get("final_queries") or ()
    queries = prediction.plan.queries if prediction.plan else (question.question,)
    golds = [gold] if isinstance(gold, str) else gold
    return compare(" ".join(queries), " ".join(golds)) if golds else None


def _steps(
    parts: Callable[[Plan], list[str]],
    share: Callable[[Sequence[str], Sequence[str]], float],
    question: EvaluationQuestion,
    prediction: Prediction,
) -> float | None:
    """Compare queries or actions with those of the field "steps": [{"queries", "action"}]."""
    steps = question.fields.get("steps")
    if not steps or not prediction.plan:
        return None
    rounds = [{key: step[key] for key in ("queries", "action") if key in step} for step in steps]
    gold = Plan.from_dict({"question": question.question, "rounds": rounds})
    return share(parts(prediction.plan), parts(gold))


def _actions(plan: Plan) -> list[str]:
    return [_KINDS.get(step.action, "text") for step in plan.rounds]


def _queries(plan: Plan) -> list[str]:
    return list(dict.fromkeys(query for step in plan.rounds for query in step.queries))


def _common(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the share of the first actions that are among the second, each as often."""
    return (Counter(first) & Counter(second)).total() / len(first) if first else 0.0


def _closest(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the mean token F1 of the first queries with the closest of the second."""
    best = (max((answer_text.token_f1(a, b) for b in second), default=0.0) for a in first)
    return fmean(best) if first else 0.0


def _of_plan(count: Callable[[Plan], float]) -> Score:
    return lambda _, prediction: float(count(prediction.plan)) if prediction.plan else None


PLAN_SCORES: Mapping[str, Score] = {
    "query_bleu": partial(_query, answer_text.bleu),
    "query_rougeL": partial(_query, partial(answer_text.rouge, "rougeL")),
    "query_f1": partial(_query, answer_text.token_f1),
    "subquery_precision": partial(_steps, _queries, _closest),
    "subquery_recall": partial(_steps, _queries, lambda steps, gold: _closest(gold, steps)),
    "action_precision": partial(_steps, _actions, _common),
    "action_recall": partial(_steps, _actions, lambda steps, gold: _common(gold, steps)),
    "plan_actions": _of_plan(lambda plan: len(plan.rounds)),
    "no_search": _of_plan(lambda plan: _actions(plan).count("none")),
    "text_search": _of_plan(lambda plan: _actions(plan).count("text")),
    "image_search": _of_plan(lambda plan: _actions(plan).count("image")),
    "plan_tokens": _of_plan(lambda plan: plan.tokens[0]),
    "plan_tokens_para": _of_plan(lambda plan: plan.tokens[1]),
    "response_tokens": lambda _, prediction: prediction.tokens,
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
    has_query, has_steps = bool(fields & {"golden_query", "final_queries"}), "steps" in fields
    gold = {"query": has_query, "subquery": has_steps, "action": has_steps}
    return [name for name in PLAN_SCORES if gold.get(name.partition("_")[0], True)]
