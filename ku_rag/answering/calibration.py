"""Set the confidence of matches by labelled pictures of one's own (`ku tune --confidence`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag import arguments
from ku_rag.answering.pipeline import query_picture
from ku_rag.errors import BadInput
from ku_rag.picture_paths import locate_picture
from ku_rag.retrieval.base import Retrieval
from ku_rag.retrieval.image_matching import INTERCEPT, Calibration
from ku_rag.retrieval.matching import match
from ku_rag.store import unit_records
from ku_rag.store.connection import snapshot
from ku_rag.types import Serializable

_EXPECTED = 'expected {"image": path, "units": [ids]}, with no ids for an unknown thing'
_PRECISION = np.array([4.0, 0.25])
"""Inverse variances of the priors of the slope and of the intercept: few pictures change little."""
_FEWEST = 20
_CONVERGED = 1e-6
_LOST, _LIKELY = 0.1, 0.5
"""At most this share of right matches is declined; a match is sure if it is likelier right."""


@dataclass(frozen=True, slots=True)
class ConfidenceTuning(Serializable):
    """What labelled pictures say of the confidence of matches.

    Args:
        pictures: how many were matched.
        right: how many of them matched their unit first.
        slope: what the evidence for a match is multiplied by.
        intercept: log odds added to it.
        threshold: confidence from which on a match is sure, 0 to 1.
        right_kept: share of the right matches that are sure.
        wrong_declined: share of the other matches that are not.
    """

    pictures: int
    right: int
    slope: float
    intercept: float
    threshold: float
    right_kept: float
    wrong_declined: float


def tune_confidence(
    base: Retrieval, records: Iterable[tuple[str, Mapping[str, Any] | BadInput]], folder: Path
) -> ConfidenceTuning:
    """Match labelled pictures, fit the confidence to them, and keep it; the caller may write.

    Args:
        base: the base.
        records: "file:line" and {"image": path, "units": [ids], "question"?: text}, or the error of
            a line. The units are those that the picture shows; none for a thing that the base does
            not have.
        folder: resolved; the pictures are in it.

    Raises:
        NotFound: the base has no unit of an id.
        BadInput: a record or a picture cannot be read, there are too few, or all matches are right
            or wrong.
    """
    found, right = [], []
    connection, search = base.database.connection, base.image_search
    for where, record in records:
        if isinstance(record, BadInput):
            raise BadInput(f"{where}: {record}")
        image, units = record.get("image"), record.get("units")
        if not isinstance(image, str) or not isinstance(units, list):
            raise BadInput(f"{where}: the record lacks an image or units: {_EXPECTED}")
        picture, _ = query_picture(locate_picture(folder, image))
        question = arguments.text(record.get("question", ""), f"{where}: question")
        with snapshot(connection):
            for unit in arguments.texts(units, f"{where}: units"):
                unit_records.known_row(connection, unit)
            matches = match(base, picture, question, 1).units
            best = next((m for m in matches if m.image_row is not None and not m.named), None)
            if best:
                found.append(best.evidence)
                right.append(best.id in units)
    if len(found) < _FEWEST or not 0 < sum(right) < len(right):
        raise BadInput(
            f"{len(found)} pictures match something, {sum(right)} of them their unit: expected at "
            f"least {_FEWEST}, about half of them of units of the base and half of other things"
        )
    odds, truth = np.array(found), np.array(right)
    slope, intercept = fit_odds(odds, truth)
    probabilities = 1 / (1 + np.exp(-(slope * odds + intercept)))
    threshold = choose_threshold(probabilities[truth])
    kept = probabilities >= threshold
    slope, intercept, threshold = round(slope, 3), round(intercept, 3), round(threshold, 3)
    calibration = Calibration(search.models, intercept, threshold, slope)
    base.database.set_meta("confidence", asdict(calibration))
    return ConfidenceTuning(
        pictures=len(found),
        right=int(truth.sum()),
        slope=slope,
        intercept=intercept,
        threshold=threshold,
        right_kept=round(float(kept[truth].mean()), 3),
        wrong_declined=round(float((~kept[~truth]).mean()), 3),
    )


def fit_odds(
    evidence: NDArray[np.float64], right: NDArray[np.bool_], prior: float = INTERCEPT
) -> tuple[float, float]:
    """Return the slope and the intercept that make log odds of evidence.

    They are the maximum of the posterior of a logistic regression, found by Newton's method with
    bounded steps.

    Args:
        evidence: float64[n], log odds of the default model up to the intercept.
        right: bool[n], whether each match is right.
        prior: the mean of the intercept's normal prior; that of the slope's is 1.
    """
    inputs = np.stack([evidence + prior, np.ones(len(evidence))])
    weights = mean = np.array([1.0, 0.0])
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(weights @ inputs, -500, 500)))
        gradient = inputs @ (right - p) - _PRECISION * (weights - mean)
        step = np.linalg.solve(inputs * (p * (1 - p)) @ inputs.T + np.diag(_PRECISION), gradient)
        weights = weights + step / max(1.0, np.abs(step).max())
        if np.abs(step).max() < _CONVERGED:
            break
    slope, shift = weights.tolist()
    return slope, slope * prior + shift


def choose_threshold(right: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the confidence that at most a tenth of right matches miss, and 0.5 at most."""
    return min(_LIKELY, float(np.quantile(right, _LOST, method="lower")))
