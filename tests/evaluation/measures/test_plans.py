"""Measures of plans, on plans of known rounds."""

from __future__ import annotations

import pytest

from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.measures.plans import plan_measures
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.papers.cogplanner.plan import Plan, PlanSettings, Round

ROUNDS = (
    Round(("Which game is this?",), "image", tokens=(9, 4)),
    Round(("Astro Bot sales", "Black Myth Wukong sales"), "text", tokens=(20, 5)),
    Round(("Astro Bot sales", "Black Myth Wukong sales"), "none", tokens=(7, 8)),
)
STEPS = [
    {"queries": ["Which game is this?"], "action": "image"},
    {"queries": ["Astro Bot sales", "sales of Black Myth Wukong"], "action": "text"},
]
ASKED = EvaluationQuestion(
    "1",
    "Did this game outsell Black Myth?",
    fields={"final_queries": ["Astro Bot sales", "Black Myth Wukong sales"], "steps": STEPS},
)


def score(name: str, plan: Plan | None, question: EvaluationQuestion = ASKED) -> float | None:
    return measure(name).score(question, Prediction(plan=plan, tokens=50))


def test_the_last_queries_are_compared_with_the_gold_queries():
    plan = Plan("?", ROUNDS)
    for name in ("query_f1", "query_bleu", "query_rougeL"):
        assert score(name, plan) == pytest.approx(1.0)
    question = EvaluationQuestion(
        "2", "Who made it?", fields={"golden_query": "Who made Astro Bot?"}
    )
    assert score("query_f1", None, question) == pytest.approx(2 * 2 / (3 + 4))
    assert score("query_f1", plan, EvaluationQuestion("3", "?")) is None


def test_sub_queries_and_actions_are_compared_with_the_gold_steps():
    plan = Plan("?", ROUNDS)
    # "of" is the one word that the closest query lacks: F1 = 2 * 4 / (4 + 5).
    assert score("subquery_precision", plan) == pytest.approx((1 + 1 + 8 / 9) / 3)
    assert score("subquery_recall", plan) == pytest.approx((1 + 1 + 8 / 9) / 3)
    assert score("action_precision", plan) == pytest.approx(2 / 3)
    assert score("action_recall", plan) == 1.0
    assert score("action_recall", None) is None
    assert score("subquery_precision", Plan("?", ())) == 0.0


def test_steps_without_an_action_or_queries_are_refused_by_name():
    question = EvaluationQuestion("1", "?", fields={"steps": [{"action": "text"}]})
    with pytest.raises(Exception, match="lacks the field 'queries'"):
        score("action_recall", Plan("?", ROUNDS), question)


@pytest.mark.parametrize(("modelling", "para"), [("parallel", 9 + 20 + 8), ("sequential", 53)])
def test_tokens_are_those_of_both_threads_or_of_the_longer_one(modelling, para):
    plan = Plan("?", ROUNDS, settings=PlanSettings(modelling))
    assert score("plan_tokens", plan) == 53
    assert score("plan_tokens_para", plan) == para
    assert score("response_tokens", plan) == 50


def test_measures_are_those_that_the_questions_have_gold_for():
    names = plan_measures([EvaluationQuestion("1", "?")])
    assert "query_f1" not in names
    assert "plan_tokens" in names
    assert {"query_f1", "action_recall"} <= {*plan_measures([ASKED])}
