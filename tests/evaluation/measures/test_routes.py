"""Routes compared whole, as the MH benchmark compares them."""

from __future__ import annotations

from ku_rag.evaluation.measures.official import Consistency, consistency

BITE = ("Rathian", "Triple Rush", "Bite")
RUSH = ("Rathian", "Triple Rush")
TAIL = ("Rathian", "Tail Swipe")
ALONE = ("Rathian",)


def test_routes_are_compared_whole():
    got = consistency([BITE], [RUSH])
    assert (got.precision, got.recall, got.overlap) == (0, 0, 0)


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
    assert consistency([BITE], []) == Consistency(0, 0, 0)


def test_repetitions_count_as_they_are_given():
    got = consistency([BITE], [BITE, BITE])
    assert (got.precision, got.recall, got.overlap) == (1 / 2, 1, 1 / 2)
