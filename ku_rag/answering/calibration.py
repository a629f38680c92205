"""Set the confidence of matches by labelled pictures of one's own (`ku tune --confidence`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
_FEWEST, _FEWEST_EACH = 20, 5
"""Least number of labelled pictures, and of right and of other matches among them."""
_CONVERGED = 1e-6
_WRONG_COST = 4.0
"""Cost of a wrong match that is sure; a right match that is not sure costs 1."""
_SEPARATED = 0.6
"""Least area under the ROC curve of right matches against the others. Chance is .5."""


@dataclass(frozen=True, slots=True)
class ConfidenceTuning(Serializable):
    """What labelled pictures say of the confidence of matches.

    Args:
        right: how many of them matched their unit first.
        threshold: confidence from which on a match is sure, 0 to 1.
        right_kept: share of the right matches that are sure.
    """

    pictures: int
    known: int
    right: int
    slope: float
    intercept: float
    threshold: float
    right_kept: float
    wrong_declined: float
    right_kept_before: float
    wrong_declined_before: float


def tune_confidence(
    base: Retrieval, records: Iterable[tuple[str, Mapping[str, Any] | BadInput]], folder: Path
) -> ConfidenceTuning:
    """Match labelled pictures, fit the confidence to them, and keep it; the caller may write.

    A record is "file:line" and {"image": path, "units": [ids], "question"?: text}, or the error of
    a line. `BadInput` if there are too few, or they do not tell right matches from others.
    """
    matched = list(_match_labelled(base, records, folder))
    columns = np.array(matched, np.float64).reshape(-1, 4).T
    evidence, (known, right, before) = columns[0], columns[1:] == 1
    if len(matched) < _FEWEST or min(right.sum(), (~right).sum()) < _FEWEST_EACH:
        raise BadInput(
            f"{len(matched)} pictures match something, {right.sum()} of them their unit: expected "
            f"at least {_FEWEST}, about half of them of units of the base and half of other things"
        )
    area = float((evidence[right][:, None] > evidence[~right]).mean())
    if area < _SEPARATED:
        raise BadInput(
            f"the evidence does not tell the {right.sum()} right matches from the others (area "
            f"under the ROC curve {area:.2f}, by chance .5): nothing was changed; use an encoder "
            "that tells these things apart, or more pictures"
        )
    slope, intercept = fit_odds(evidence, right)
    probabilities = 1 / (1 + np.exp(-(slope * evidence + intercept)))
    threshold = choose_threshold(probabilities, right)
    sure = probabilities >= threshold
    slope, intercept, threshold = round(slope, 3), round(intercept, 3), round(threshold, 3)
    calibration = Calibration(base.image_search.models, intercept, threshold, slope)
    base.database.set_meta("confidence", asdict(calibration))
    kept, declined, kept_before, declined_before = (
        round(float(share), 3)
        for flags in (sure, before)
        for share in (flags[right].mean(), (~flags[~right]).mean())
    )
    return ConfidenceTuning(
        pictures=len(matched),
        known=int(known.sum()),
        right=int(right.sum()),
        slope=slope,
        intercept=intercept,
        threshold=threshold,
        right_kept=kept,
        wrong_declined=declined,
        right_kept_before=kept_before,
        wrong_declined_before=declined_before,
    )


def _match_labelled(
    base: Retrieval, records: Iterable[tuple[str, Mapping[str, Any] | BadInput]], folder: Path
) -> Iterator[tuple[float, bool, bool, bool]]:
    """Yield the evidence for each best match; whether the thing is known, the match right, sure."""
    connection = base.database.connection
    for where, record in records:
        if isinstance(record, BadInput):
            raise BadInput(f"{where}: {record}")
        image, units = record.get("image"), record.get("units")
        if "answers" in record and (image is None or units is None):
            continue  # a question for `ku eval`
        if not isinstance(image, str) or not isinstance(units, list):
            raise BadInput(f"{where}: the record lacks an image or units: {_EXPECTED}")
        file = Path(image) if Path(image).is_absolute() else locate_picture(folder, image)
        picture, _ = query_picture(file)
        question = arguments.text(record.get("question", ""), f"{where}: question")
        with snapshot(connection):
            for unit in arguments.texts(units, f"{where}: units"):
                unit_records.known_row(connection, unit)
            matches = match(base, picture, question, 1).units
            best = next((m for m in matches if m.image_row is not None and not m.named), None)
        if best:
            yield best.evidence, bool(units), best.id in units, best.sure


def fit_odds(
    evidence: NDArray[np.float64], right: NDArray[np.bool_], prior: float = INTERCEPT
) -> tuple[float, float]:
    """Return slope and intercept of log odds of evidence: logistic regression, normal priors."""
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


def choose_threshold(
    probabilities: NDArray[np.float64], right: NDArray[np.bool_], *, cost: float = _WRONG_COST
) -> float:
    """Return the confidence from which on a match is sure; a wrong sure match costs `cost`."""
    steps = np.unique(probabilities)
    # Between two matches; of thresholds of equal cost the highest.
    thresholds = np.concatenate(
        [[steps[0] / 2], (steps[:-1] + steps[1:]) / 2, [(steps[-1] + 1) / 2]]
    )
    sure = probabilities >= thresholds[:, None]
    costs = (~sure & right).sum(1) + cost * (sure & ~right).sum(1)
    return float(thresholds[np.flatnonzero(costs == costs.min())[-1]])
