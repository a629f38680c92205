"""Measures judged by a model, and measures of corrections."""

from __future__ import annotations

import pytest

from ku_rag import ScriptedMLLM
from ku_rag.errors import BadInput
from ku_rag.evaluation import evaluate
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from tests.conftest import write_records

ASKED = EvaluationQuestion("1", "What does it do?", answers=("Back Slam",))


@pytest.mark.parametrize("name", ["judged", "judged_caption"])
@pytest.mark.parametrize(
    ("reply", "expected"),
    [("Yes", 1), ("No.", 0), ("yes", 1), ("Perhaps", None), ("Yes or No", None)],
)
def test_a_verdict(score, name, reply, expected):
    mllm = ScriptedMLLM(["Zinogre Back Slam", reply])
    assert score(name, mllm, question="What does it do?", answers=["Back Slam"]) == expected
    _, request = mllm.requests
    text = request.messages[0].text
    assert "What does it do?" in text
    assert '{"reference": "Back Slam"}' in text
    assert '{"answer": "Zinogre Back Slam"}' in text


@pytest.mark.parametrize("name", ["judged", "claim_precision", "claim_recall"])
def test_no_answer_is_wrong_without_asking_and_no_gold_answer_is_not_judged(score, name):
    assert score(name, " ", answers=["Back Slam"]) == 0
    assert score(name, "Tail") is None


def test_measures_of_a_model_need_one(kb, tmp_path):
    file = write_records(tmp_path / "q.jsonl", [{"question": "What does it do?"}])
    with pytest.raises(BadInput, match="claim_recall needs a model"):
        evaluate(kb, file, measures=["claim_recall"])


def test_precision_is_of_the_claims_of_the_answer(score):
    claims = {"claims": ["It jumps.", "It roars."]}
    mllm = ScriptedMLLM(["Jumps, roars.", claims, {"supported": [True, False]}])
    assert score("claim_precision", mllm, answers=["Back Slam"]) == 1 / 2
    _, first, second = (request.messages[0].text for request in mllm.requests)
    assert '{"answer": "Jumps, roars."}' in first
    assert '{"text": "Back Slam"}\n{"claim": "It jumps."}\n{"claim": "It roars."}' in second


def test_recall_is_of_the_claims_of_the_gold_answer(score):
    mllm = ScriptedMLLM(["Jumps.", {"claims": ["It slams."]}, {"supported": [True]}])
    assert score("claim_recall", mllm, answers=["Back Slam"]) == 1
    _, first, second = (request.messages[0].text for request in mllm.requests)
    assert '{"answer": "Back Slam"}' in first
    assert '{"text": "Jumps."}\n{"claim": "It slams."}' in second


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([{"claims": []}], 0),
        ([{"claims": ["A.", "B."]}, {"supported": [True]}], None),
    ],
)
def test_no_claims_and_too_few_verdicts(score, replies, expected):
    mllm = ScriptedMLLM(["Jumps.", *replies])
    assert score("claim_precision", mllm, answers=["Back Slam"]) == expected


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
    prediction = Prediction(answer, draft=draft)
    assert measure("helped:em").score(ASKED, prediction) == helped
    assert measure("harmed:em").score(ASKED, prediction) == harmed
    assert measure("helped:em").score(EvaluationQuestion("1", "?"), prediction) is None
