"""Every case of the official evaluations, and their rules one by one."""

from __future__ import annotations

import json

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM
from ku_rag.evaluation import evaluate
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.measures.official import infoseek_overall, quantity
from ku_rag.evaluation.questions import EvaluationQuestion
from tests.conftest import DATA, write_records

GOLDEN = DATA.parent / "golden" / "metrics"
needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden files are not there")


def cases(name):
    first, *lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert len(records) == json.loads(first)["cases"]
    return records


def score(name, answer, gold, **fields):
    """Score an answer, or a list of answers, by the named measure."""
    items = () if isinstance(answer, str) else tuple(answer)
    prediction = Prediction("" if items else answer or "", items)
    gold = (gold,) if isinstance(gold, str) else tuple(gold)
    return measure(name).score(
        EvaluationQuestion("1", "?", answers=gold, fields=fields), prediction
    )


def routes(gold, predicted):
    """Score routes: overlap, recall, precision."""
    question = EvaluationQuestion("1", "?", routes=tuple(map(tuple, gold)))
    prediction = Prediction(routes=tuple(map(tuple, predicted)))
    names = ("route_overlap", "route_recall", "route_precision")
    return [measure(name).score(question, prediction) for name in names]


@needs_golden
def test_kurag_accuracy():
    for case in cases("kurag_accuracy"):
        value = score("kurag_accuracy", case["prediction"], case["answers"])
        assert value == case["correct"], case


@needs_golden
def test_vqa_accuracy():
    for case in cases("okvqa"):
        value = score("vqa_accuracy", case["prediction"], case["answers"])
        assert round(100 * value, 2) == case["accuracy"], case


@needs_golden
def test_infoseek():
    for case in cases("infoseek"):
        if case["type"] == "final":
            value = infoseek_overall([split / 100 for split in case["splits"]])
            assert value * 100 == pytest.approx(case["score"], abs=1e-9), case
        elif case["type"] == "numerical":
            parsed = quantity(case["prediction"])
            assert (list(parsed) if isinstance(parsed, tuple) else parsed) == case["parsed"], case
            ranges = [{"range": [float(answer) for answer in case["answers"]]}]
            value = score("infoseek", case["prediction"], ("x",), answer_eval=ranges)
            assert value == case["score"], case
        else:
            value = score("infoseek", case["prediction"], ("x",), answer_eval=case["answers"])
            assert value == case["score"], case


@needs_golden
def test_multimodalqa():
    for case in cases("multimodalqa"):
        answer, gold = case["prediction"], case["answers"]
        assert score("mmqa_em", answer, gold) == case["em"], case
        assert score("mmqa_f1", answer, gold) == case["f1"], case


@needs_golden
def test_mh_routes():
    for case in cases("mh_routes"):
        values = routes(case["gold"], case["predicted"])
        assert values == [case["overlap"], case["recall"], case["precision"]], case


def test_kurag_accuracy_looks_for_a_gold_answer_in_the_answer():
    assert score("kurag_accuracy", "It is the River Thames.", ["Isis", "river thames"]) == 1
    assert score("kurag_accuracy", "Thames", "River Thames") == 0
    assert score("kurag_accuracy", "Thames", ()) is None


def test_kurag_accuracy_counts_confident_answers_of_okvqa_only():
    gold, confidences = ("pony", "horse"), ["maybe", "yes"]
    assert score("kurag_accuracy", "a pony", gold, answer_confidence=confidences) == 0
    assert score("kurag_accuracy", "a horse", gold, answer_confidence=confidences) == 1


def test_vqa_accuracy_leaves_each_answer_out():
    gold = ["Dog."] * 3 + ["cat"] * 7
    assert score("vqa_accuracy", "the dog", gold) == pytest.approx((3 * 2 / 3 + 7) / 10)
    assert score("vqa_accuracy", "dont", ["don't"] * 4 + ["no"] * 6) == 1
    assert score("vqa_accuracy", "1000", ["1,000"] * 9 + ["ten"]) == 1


def test_vqa_accuracy_normalises_nothing_where_people_agree():
    assert score("vqa_accuracy", "dog", ["dog"] * 10) == 1
    assert score("vqa_accuracy", "The dog", ["dog"] * 10) == 0


def test_numbers_and_ranges_of_infoseek():
    assert quantity("from 1,200 to 1,500 km") == (1200, 1500)
    assert quantity("9-10") == (9, 10)
    assert quantity("10 of 9") == 10
    assert quantity("-.5.3 m") == 0
    gold = {"answer_eval": [{"range": [90, 110]}]}
    assert score("infoseek", "about 100 m", ("100",), **gold) == 1
    assert score("infoseek", "100 to 120", ("100",), **gold) == 0
    assert score("infoseek", "85 to 110", ("100",), **gold) == 1
    assert score("infoseek", "very high", ("100",), **gold) == 0


def test_infoseek_sums_up_by_the_harmonic_mean_of_its_splits(kb, tmp_path):
    question = {"question": "What is it?", "answers": ["red"], "answer_eval": ["red"]}
    groups = ["unseen_question"] * 2 + ["unseen_entity"] * 3
    questions = [*(question | {"group": group} for group in groups), {"question": "What is it?"}]
    file = write_records(tmp_path / "q.jsonl", questions)
    mllm = ScriptedMLLM(["red", "red", "red", "blue", "blue", "blue"])
    with KnowledgeBase.open(kb.path, mllm=mllm) as base:
        run = evaluate(base, file, method="model-only", measures=["infoseek"])
    figure = run.figures["infoseek"]
    groups = {"unseen_entity": pytest.approx(1 / 3), "unseen_question": 1}
    assert (figure.value, figure.questions, figure.groups) == (pytest.approx(0.5), 5, groups)


def test_multimodalqa_pairs_answers_and_reads_numbers():
    assert score("mmqa_em", "The two", "2.0") == 1
    assert score("mmqa_em", ["B", "A"], ["A", "B"]) == 1
    assert score("mmqa_f1", ["Union Jack", "red flag"], ["flag", "Jack"]) == 0.67
    assert score("mmqa_f1", "in 1984", "in 1985") == 0
    assert score("mmqa_f1", ["flag"], ["flag", "Jack", "red"]) == 0.33


def test_routes_are_scored_together():
    assert routes([["A", "B"], ["A"]], [["A", "B"], ["C"], ["D"]]) == [1 / 4, 1 / 2, 1 / 3]
    assert routes([], []) == [None, None, None]
