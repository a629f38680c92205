"""Confidence of picture matches: right matches against things missing from the base.

    python -m benchmarks.confidence [--tune] [--write]

Each half of a set of things (`benchmarks.picture_sets`) is the base once; pictures of both halves
are the queries. The model (log odds from similarity and confirmed edges) is fitted on the other
sets, then its odds are fitted on 40 labelled pictures of the base, as `ku tune --confidence` does
(20 draws). The pictures that a draw leaves out are few: their calibration error is above 0 even if
all probabilities are exact, as outcomes sampled with these probabilities show. Intervals are 95 %,
by bootstrap over the pictures. `--tune` uses the seeds and photos with which the constants of the
model were chosen. Sprites need the package arcade with its CC0 pictures (`pip install --no-deps
--target DIR arcade`, DIR on PYTHONPATH).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import rankdata

from benchmarks import picture_sets
from benchmarks.record import write_result
from ku_rag.answering.calibration import choose_threshold, fit_odds
from ku_rag.evaluation.statistics import calibration_error

LABELS, DRAWS, SAMPLES = 40, 20, 200
Floats = NDArray[np.float64]


def fit(rows: Floats) -> Floats:
    """Return the weights of similarity, edges and 1 by logistic regression."""
    inputs, right = np.c_[rows[:, 2:4], np.ones(len(rows))], rows[:, 1]

    def loss(weights: Floats) -> float:
        odds = inputs @ weights
        return float((np.logaddexp(0, odds) - right * odds).sum() + 1e-3 * (weights**2).sum())

    weights: Floats = minimize(loss, np.zeros(3)).x
    return weights


def auroc(rows: Floats, odds: Floats) -> float:
    """Return the share of pairs of a right match and an unknown thing that are in order."""
    right, unknown = odds[rows[:, 1] == 1], odds[rows[:, 0] == 0]
    ranks = rankdata(np.concatenate([right, unknown]))[: len(right)]
    return float((ranks.mean() - (len(right) + 1) / 2) / len(unknown))


def declined_share(rows: Floats, odds: Floats) -> float:
    """Return the share of unknown things below the tenth percentile of the right matches."""
    threshold = np.quantile(odds[rows[:, 1] == 1], 0.1)
    return float((odds[rows[:, 0] == 0] < threshold).mean())


def figures_after_labels(rows: Floats, odds: Floats, intercept: float) -> dict[str, float]:
    """Return calibration error, right matches kept and unknown things declined after 40 labels."""
    rng, outcomes, draws = np.random.default_rng(3), np.random.default_rng(4), []
    for _ in range(DRAWS):
        order = rng.permutation(len(rows))
        labelled, rest = order[:LABELS], order[LABELS:]
        in_base, right = rows[rest].T[:2] == 1
        slope, offset = fit_odds(odds[labelled], rows[labelled, 1] == 1, intercept)
        p = expit(slope * odds + offset)
        threshold = choose_threshold(p[labelled], rows[labelled, 1] == 1)
        sampled = outcomes.random(len(rest)) < p[rest]
        draws.append(
            {
                "calibration_error": calibration_error(p[rest], rows[rest, 1]),
                "calibration_error_if_exact": calibration_error(p[rest], sampled),
                "right_kept": (p[rest] >= threshold)[right].mean(),
                "unknown_declined": (p[rest] < threshold)[~in_base].mean(),
            }
        )
    return {f"{k}_after_labels": float(np.mean([draw[k] for draw in draws])) for k in draws[0]}


def measure(data: Mapping[str, Floats]) -> dict[str, dict[str, float]]:
    """Return all figures of each set, by a model fitted on the other sets, and their means."""
    figures = {}
    for name, rows in data.items():
        others = [d for n, d in data.items() if n != name]
        *weights, intercept = fit(np.vstack(others))
        odds = rows[:, 2:4] @ np.array(weights)
        in_base = rows[:, 0] == 1
        figures[name] = {
            "recall_at_1": rows[in_base, 1].mean(),
            "auroc": auroc(rows, odds),
            "calibration_error": calibration_error(expit(odds + intercept), rows[:, 1]),
            "unknown_declined_at_a_tenth_of_right": declined_share(rows, odds),
            **figures_after_labels(rows, odds, intercept),
        }
    keys = next(iter(figures.values()))
    figures["mean"] = {k: float(np.mean([f[k] for f in figures.values()])) for k in keys}
    return figures


def main() -> None:
    """Match all sets, print the figures, and with --write write them."""
    tuning = "--tune" in sys.argv
    data = {}
    sets = picture_sets
    for make in (sets.flags, sets.groceries, sets.icons, sets.sprites):
        if things := make(tuning):
            data[make.__name__] = picture_sets.match_halves(things)
            print(make.__name__, len(data[make.__name__]), flush=True)
    figures = measure(data)
    rng = np.random.default_rng(1)
    samples = [measure({n: rng.choice(d, len(d)) for n, d in data.items()}) for _ in range(SAMPLES)]
    result = {}
    for name, values in figures.items():
        for key, value in values.items():
            low, high = np.quantile([s[name][key] for s in samples], [0.025, 0.975])
            result.setdefault(name, {})[key] = [round(float(x), 3) for x in (value, low, high)]
    weights = fit(np.vstack(list(data.values()))).round(2).tolist()
    print(json.dumps({"figures": result, "similarity, edges, intercept": weights}, indent=1))
    if "--write" in sys.argv and not tuning:
        pictures = {name: len(rows) for name, rows in data.items()}
        write_result("confidence", {"pictures": pictures, "weights": weights, "figures": result})


if __name__ == "__main__":
    main()
