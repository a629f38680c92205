"""Measures that a model judges, and those of corrections."""

from __future__ import annotations

import pytest

from ku_rag import ScriptedMLLM
from ku_rag.errors import BadInput, ModelFailed
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion

ASKED = EvaluationQuestion("1", "What does it do?", answers=("Back Slam",))


@pytest.mark.parametrize("name", ["judged", "judged_caption"])
@pytest.mark.parametrize(
    ("reply", "expected"),
    [("Yes", 1), ("No.", 0), ("yes", 1), ("Perhaps", None), ("Yes or No", None)],
)
def test_a_verdict(name, reply, expected):
    judge = ScriptedMLLM([reply])
    assert measure(name, judge).score(ASKED, Prediction("Zinogre Back Slam")) == expected
    (request,) = judge.requests
    text = request.messages[0].text
    assert "What does it do?" in text
    assert '{"reference": "Back Slam"}' in text
    assert '{"answer": "Zinogre Back Slam"}' in text


def test_no_answer_is_wrong_without_asking_and_no_gold_answer_is_not_judged():
    for name in ("judged", "claim_precision", "claim_recall"):
        made = measure(name, ScriptedMLLM([]))
        assert made.score(ASKED, Prediction(" ")) == 0
        assert made.score(EvaluationQuestion("1", "?"), Prediction("Tail")) is None


def test_a_judge_that_fails_is_reported():
    with pytest.raises(ModelFailed):
        measure("judged", ScriptedMLLM([])).score(ASKED, Prediction("Tail"))


def test_measures_of_a_model_need_one():
    with pytest.raises(BadInput, match="claim_recall needs a model"):
        measure("claim_recall")


def test_precision_is_of_the_claims_of_the_answer():
    judge = ScriptedMLLM([{"claims": ["It jumps.", "It roars."]}, {"supported": [True, False]}])
    assert measure("claim_precision", judge).score(ASKED, Prediction("Jumps, roars.")) == 1 / 2
    first, second = (request.messages[0].text for request in judge.requests)
    assert '{"answer": "Jumps, roars."}' in first
    assert '{"text": "Back Slam"}\n{"claim": "It jumps."}\n{"claim": "It roars."}' in second


def test_recall_is_of_the_claims_of_the_gold_answer():
    judge = ScriptedMLLM([{"claims": ["It slams."]}, {"supported": [True]}])
    assert measure("claim_recall", judge).score(ASKED, Prediction("Jumps.")) == 1
    first, second = (request.messages[0].text for request in judge.requests)
    assert '{"answer": "Back Slam"}' in first
    assert '{"text": "Jumps."}\n{"claim": "It slams."}' in second


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([{"claims": []}], 0),
        ([{"claims": ["A.", "B."]}, {"supported": [True]}], None),
    ],
)
def test_no_claims_and_too_few_verdicts(replies, expected):
    made = measure("claim_precision", ScriptedMLLM(replies))
    assert made.score(ASKED, Prediction("Jumps.")) == expected


@pytest.mark.parametrize(
    ("draft", "answer", "helped", "harmed"),
    [
        ("Tail", "back slam", 1, 0),
        ("back slam", "Tail", 0, 1),
        ("Tail", "", 0, 0),
        ("back slam", "Back Slam!", 0, 0),
        (None, "Back Slam", None, None),
    ],
)
def test_corrections(draft, answer, helped, harmed):
    found = Prediction(answer, draft=draft)
    assert measure("helped:em").score(ASKED, found) == helped
    assert measure("harmed:em").score(ASKED, found) == harmed
    assert measure("helped:em").score(EvaluationQuestion("1", "?"), found) is None
