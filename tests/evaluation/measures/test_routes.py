"""Routes are compared as a whole, as in the MH benchmark."""

from __future__ import annotations

import pytest

from ku_rag.evaluation.measures.official import consistency

BITE = ("Rathian", "Triple Rush", "Bite")
RUSH = ("Rathian", "Triple Rush")
TAIL = ("Rathian", "Tail Swipe")
ALONE = ("Rathian",)
CRASH, SHOULDER, THUNDER = ("K", "Aerial", "Crash"), ("Z", "C", "Shoulder"), ("Z", "C", "Thunder")


@pytest.mark.parametrize(
    ("gold", "retrieved", "precision", "recall", "overlap"),
    [
        ([BITE], [RUSH], 0, 0, 0),  # part of a route is a different route
        ([BITE, TAIL], [BITE, RUSH, ALONE, ("Rathian", "Roar")], 1 / 4, 1 / 2, 1 / 5),
        # Figure 5 of the paper: one of one found among four; one of two among two.
        ([CRASH], [("K", "Aerial"), CRASH, ("K", "Kick"), ("K", "Breath")], 1 / 4, 1, 1 / 4),
        ([SHOULDER, THUNDER], [THUNDER, BITE], 1 / 2, 1 / 2, 1 / 3),
        ([BITE], [], 0, 0, 0),
        ([BITE], [BITE, BITE], 1 / 2, 1, 1 / 2),  # repeated routes count
    ],
)
def test_routes_are_compared_whole(gold, retrieved, precision, recall, overlap):
    shares = consistency(gold, retrieved)
    assert (shares.precision, shares.recall, shares.overlap) == (precision, recall, overlap)
