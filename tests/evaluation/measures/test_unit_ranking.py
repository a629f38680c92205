"""Measures of retrieved units."""

from __future__ import annotations

import math

import pytest

from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Prediction
from ku_rag.evaluation.questions import EvaluationQuestion

ASKED = EvaluationQuestion("1", "?", units=("a", "b"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("recall@1", 0),
        ("recall@2", 1 / 2),
        ("recall@5", 1),
        ("precision@4", 2 / 4),
        ("mrr", 1 / 2),
        ("mrr@1", 0),
        ("ndcg@10", (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))),
    ],
)
def test_ranks(name, expected):
    prediction = Prediction(units=("x", "a", "x", "y", "b"))  # b is the fourth: x counts once
    assert measure(name).score(ASKED, prediction) == pytest.approx(expected)


def test_nothing_retrieved_and_nothing_to_find():
    assert measure("mrr").score(ASKED, Prediction()) == 0
    assert measure("mrr").score(EvaluationQuestion("1", "?"), Prediction(units=("a",))) is None


def test_the_order_of_many_units_counts():
    before = (f"u{n:03}" for n in reversed(range(300)))
    prediction = Prediction(units=(*before, "a"))
    assert measure("mrr").score(ASKED, prediction) == pytest.approx(1 / 301)


def test_an_id_that_is_not_valid_unicode():
    question = EvaluationQuestion("1", "?", units=("\ud800",))
    assert measure("mrr").score(question, Prediction(units=("a", "\ud800"))) == 1 / 2
