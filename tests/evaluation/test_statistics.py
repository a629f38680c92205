"""Intervals, paired tests and calibration."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ku_rag.evaluation.statistics import bootstrap_interval, calibration_error, paired_p_value


def test_an_interval_holds_the_mean_and_is_the_same_each_time():
    values = [0.0, 1.0] * 50
    low, high = bootstrap_interval(values)
    assert (low, high) == bootstrap_interval(values)
    assert low == pytest.approx(0.5 - 1.96 * 0.05, abs=0.02)
    assert high == pytest.approx(0.5 + 1.96 * 0.05, abs=0.02)
    assert bootstrap_interval([0.25, 0.25]) == (0.25, 0.25)


def test_few_pairs_are_tested_exactly():
    # Of the 32 ways to swap five pairs, two have a difference as large.
    assert paired_p_value([1, 1, 1, 1, 1], [0, 0, 0, 0, 0]) == 2 / 32
    # Questions with equal scores have no effect.
    assert paired_p_value([1] * 5 + [0.5] * 90, [0] * 5 + [0.5] * 90) == 2 / 32
    assert paired_p_value([1, 0], [0, 1]) == 1
    assert paired_p_value([1, 0], [0, 0]) == 1
    assert paired_p_value([], []) == 1


def test_p_values_are_uniform_where_nothing_differs():
    rng = np.random.default_rng(0)
    p_values = [paired_p_value(*rng.random((2, 40))) for _ in range(60)]
    assert 0.35 < np.mean(p_values) < 0.65
    assert np.mean(np.array(p_values) < 0.2) == pytest.approx(0.2, abs=0.12)


def test_a_difference_of_many_pairs():
    rng = np.random.default_rng(0)
    first = rng.random(500)
    assert paired_p_value(first, first + rng.normal(0.02, 0.05, 500)) == 2 / 2000


@pytest.mark.slow
def test_ten_thousand_questions_take_seconds():
    first, second = np.random.default_rng(0).random((2, 10_000))
    started = time.process_time()
    bootstrap_interval(first)
    paired_p_value(first, second)
    assert time.process_time() - started < 20


def test_calibration_error():
    assert calibration_error([0.85, 0.85, 0.85, 0.85], [1, 1, 1, 0]) == pytest.approx(0.1)
    # Bins do not cancel each other: one is .35 overconfident, one .25 underconfident.
    assert calibration_error([0.85, 0.25], [0.5, 0.5]) == pytest.approx((0.35 + 0.25) / 2)
    assert calibration_error([1.0, 0.0], [1, 0]) == 0
