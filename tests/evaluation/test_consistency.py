"""Routes compared whole, as the MH benchmark compares them, and answers judged."""

from __future__ import annotations

import json

import pytest

from ku_rag.errors import BadInput
from ku_rag.evaluation.consistency import (
    Consistency,
    consistency,
    contains,
    judge,
    mean,
    route_of,
)
from ku_rag.graph.model import Entity, Path, Step
from ku_rag.mllm import ScriptedMLLM

BITE = ("Rathian", "Triple Rush", "Bite")
RUSH = ("Rathian", "Triple Rush")
TAIL = ("Rathian", "Tail Swipe")
ALONE = ("Rathian",)


def test_routes_are_compared_whole():
    got = consistency([BITE], [RUSH])
    assert (got.precision, got.recall, got.overlap) == (0, 0, 0)
    assert (got.entity_precision, got.entity_recall) == (1, 2 / 3)
    assert (got.edge_precision, got.edge_recall) == (1, 1 / 2)


def test_shares_are_of_what_was_retrieved_and_of_what_is_gold():
    got = consistency([BITE, TAIL], [BITE, RUSH, ALONE, ("Rathian", "Roar")])
    assert (got.precision, got.recall) == (1 / 4, 1 / 2)
    assert got.overlap == 1 / 5


def test_the_papers_examples():
    # Figure 5: one of one found among four; one of two among two.
    found = [("K", "Aerial"), ("K", "Aerial", "Crash"), ("K", "Kick"), ("K", "Breath")]
    got = consistency([("K", "Aerial", "Crash")], found)
    assert (got.recall, got.precision) == (1, 0.25)
    got = consistency(
        [("Z", "C", "Shoulder"), ("Z", "C", "Thunder")], [("Z", "C", "Thunder"), BITE]
    )
    assert (got.recall, got.precision) == (0.5, 0.5)


def test_nothing_retrieved_scores_zero():
    assert consistency([BITE], []) == Consistency(0, 0, 0, 0, 0, 0, 0)


def test_repetitions_count_as_they_are_given():
    got = consistency([BITE], [BITE, BITE])
    assert (got.precision, got.recall, got.overlap) == (1 / 2, 1, 1 / 2)


def test_edges_where_a_side_has_none():
    assert consistency([ALONE], [ALONE]).edge_recall == 1
    assert consistency([ALONE], [BITE]).edge_precision == 0
    assert consistency([BITE], [ALONE]).edge_precision == 0


def test_the_mean_is_over_questions():
    got = mean([consistency([BITE], [BITE]), consistency([BITE], [])])
    assert (got.precision, got.recall) == (0.5, 0.5)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(BadInput, match="without gold routes"):
        consistency([], [BITE])
    with pytest.raises(BadInput, match="no question"):
        mean([])


def test_a_route_is_the_names_on_a_path():
    rathian, rush = Entity(1, "Rathian", "monster", "r"), Entity(2, "Triple Rush", "attack", "t")
    path = Path(rathian).then(Step(1, rathian, "attack of", rush))
    assert route_of(path) == RUSH
    assert route_of(Path(rathian)) == ALONE


@pytest.mark.parametrize(
    ("answer", "gold", "held"),
    [
        ("It is the Triple-Rush, I think.", "triple rush", True),
        ("Rush, triple", "Triple Rush", False),
        ("Tripled Rush", "Triple Rush", False),
        ("Café", "cafe", True),
        ("東京タワーです", "東京タワー", True),
        ("anything", "…", False),
        ("", "Bite", False),
    ],
)
def test_containment_of_words(answer, gold, held):
    assert contains(answer, gold) is held


@pytest.mark.parametrize("right", [True, False])
def test_a_model_judges_by_schema(right):
    asked = []

    def reply(request):
        asked.append(request)
        return json.dumps({"reason": "It says so.", "right": right})

    assert judge(ScriptedMLLM(reply), "Which?", "Bite\n=====", "Bite") is right
    [request] = asked
    assert request.schema["required"] == ["reason", "right"]
    assert '{"right answer": "Bite"}' in request.messages[0].text
