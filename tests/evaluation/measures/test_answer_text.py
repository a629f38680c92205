"""Measures of short answers, and properties of every measure."""

from __future__ import annotations

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM
from ku_rag.errors import BadInput
from ku_rag.evaluation import evaluate
from ku_rag.evaluation.measures import MEASURES, measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion
from tests.conftest import write_records


def score(name, answer, *gold):
    return measure(name).score(EvaluationQuestion("1", "?", answers=gold), Prediction(answer))


@pytest.mark.parametrize(
    ("name", "answer", "gold", "expected"),
    [
        ("em", "The Eiffel Tower!", "eiffel tower", 1),
        ("em", "Eiffel", "Eiffel Tower", 0),
        ("f1", "the big tower", "Eiffel Tower", 1 / 2),
        ("f1", "to be to be", "to be", 2 * 2 / 6),
        ("f1", "the", "", 0),
        ("f1", "", "tower", 0),
        ("f1", "yes it is", "yes", 1 / 2),
        ("word_f1", "It isn't red.", "It is red.", 2 * 4 / 9),
        ("rouge1", "the cat sat", "the cat ran", 2 / 3),
        ("rouge2", "the cat sat", "the cat ran", 1 / 2),
        ("rougeL", "sat the cat", "the cat sat", 2 / 3),
        ("bleu", "a cat sat on the mat", "a cat sat on the mat", 1),
        ("bleu", "", "a cat", 0),
        ("chrf", "a cat", "a cat", 1),
        ("chrf", "xyz", "a cat", 0),
        ("chrf", "cat a", "a cat", (1 + 2 / 3 + 1 / 2) / 4),
        ("chrf++", "cat a", "a cat", (1 + 2 / 3 + 1 / 2 + 1) / 6),
        ("meteor_exact_stem", "the cats sat", "the cat sat", 1 - 0.5 / 27),
        ("meteor_exact_stem", "big", "large", 0),
        ("cer", "kitten", "sitting", 3 / 7),
        ("cer", "abcd", "a", 3),
        ("wer", "the cat sat", "the cat sat down", 1 / 4),
        ("abstention", " ", "tower", 1),
        ("abstention", "?", "tower", 0),
    ],
)
def test_a_short_answer(name, answer, gold, expected):
    assert score(name, answer, gold) == pytest.approx(expected)


def test_the_best_gold_answer_counts():
    assert score("f1", "big tower", "hut", "a tower", "tree") == pytest.approx(2 / 3)
    assert score("f1", "big tower") is None


def test_the_least_error_rate_counts():
    assert score("cer", "abc", "abd", "abc", "x") == 0
    assert score("cer", "abc", "") is None


def test_a_run_is_summed_up_by_means_of_all_and_of_groups(kb, tmp_path):
    questions = [
        {"question": "1?", "answers": ["red lamp"], "group": "a"},
        {"question": "2?", "answers": ["red lamp"], "group": "a"},
        {"question": "3?", "answers": ["red lamp"], "group": "b"},
        {"question": "4?"},
    ]
    file = write_records(tmp_path / "q.jsonl", questions)
    mllm = ScriptedMLLM(["red lamp", "green lamp", "table", "red"])
    with KnowledgeBase.open(kb.path, mllm=mllm) as base:
        f1 = evaluate(base, file, method="model-only").figures["f1"]
    assert (f1.value, f1.questions, f1.groups) == (0.5, 3, {"a": 0.75, "b": 0})


def test_every_name_makes_a_measure_of_that_name():
    for name in MEASURES:
        full_name = name.replace("K", "10").replace("MEASURE", "em")
        assert measure(full_name, ScriptedMLLM([])).name == full_name


@pytest.mark.parametrize("name", ["f2", "recall@0", "recall@", "helped:", "helped:f2"])
def test_an_unknown_name_is_refused_with_those_there_are(kb, tmp_path, name):
    file = write_records(tmp_path / "q.jsonl", [{"question": "?"}])
    with pytest.raises(BadInput, match=r"no measure '.*'; there are: kurag_accuracy, .*mrr"):
        evaluate(kb, file, measures=[name])
