"""The accuracy of WebQA by the category of a question."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("category", "answer", "gold", "expected"),
    [
        ("color", "The roof is red, blue and big.", "It is red.", 2 / 3),
        ("color", "The roof is large.", "It is red.", 0),
        ("shape", "They are circles", "a circle", 1),
        ("YesNo", "No, it isn't.", "No", 1),
        ("YesNo", "yes and no", "No", 2 / 3),
        ("number", "There are twelve of 20 there.", "12 stand there", 2 / 3),
        ("number", "There are many.", "12", 0),
        ("text", "The statues are of bronze, I think.", "A bronze statue", 1),
        ("Others", "bronze", "The bronze horse stands alone.", 1 / 4),
        ("text", "3.5 m", "3.5 m.", 1),
        ("text", "", "bronze", 0),
    ],
)
def test_accuracy(score, category, answer, gold, expected):
    assert score("webqa", answer, answers=[gold], Qcate=category) == pytest.approx(expected)


def test_keywords_replace_the_gold_answer(score):
    fields = {"Qcate": "text", "Keywords_A": "bronze horse"}
    assert score("webqa", "of bronze", answers=["The horse is bronze."], **fields) == 1 / 2
    assert score("webqa", "x") is None
