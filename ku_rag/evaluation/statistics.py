"""Intervals of means, paired tests, and the calibration of confidences, by scipy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ku_rag.plugins import extra

_BINS = 10


def _samples() -> dict[str, Any]:
    return {"n_resamples": 1999, "batch": 100, "random_state": np.random.default_rng(0)}


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of two values or more, at 95 %."""
    options = {"confidence_level": 0.95, "method": "percentile"} | _samples()
    result = extra("eval", "scipy.stats").bootstrap((np.asarray(values),), np.mean, **options)
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of a two-sided paired permutation test that two means are equal."""
    differences = np.subtract(first, second, dtype=float)
    # Questions with equal scores do not change the p-value.
    differences = differences[differences != 0]
    if len(differences) < 2:
        return 1.0
    options = {"permutation_type": "samples"} | _samples()
    result = extra("eval", "scipy.stats").permutation_test((differences,), np.sum, **options)
    return float(result.pvalue)


def calibration_error(confidences: Sequence[float], scores: Sequence[float]) -> float:
    """Return the expected calibration error of questions, in bins (Guo et al. 2017, eq. 5)."""
    confidence, scored = np.asarray(confidences, float), np.asarray(scores, float)
    places = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(places, confidence - scored, minlength=_BINS)
    return float(np.abs(gaps).sum() / len(confidence))
