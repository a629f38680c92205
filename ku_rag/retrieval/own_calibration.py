"""Calibrate the confidence of picture matches on a base's own pictures, without labels.

A stored picture whose own unit is left out is a picture of a thing that the base does not have. Its
nearest picture leads by chance over those of other units. The distribution of these leads says how
large the lead of a sure match must be, for any encoder and base. That of cosines does not:
photographs of people are farther from stored pictures than these are from each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.embedded.window_matching import NEAREST, Owners
from ku_rag.indexes.vector_index import VectorIndex
from ku_rag.store.connection import Connection

_PICTURES, _FEWEST = 200, 20
"""Most pictures that are compared, and fewest that are enough."""
_DECLINED = 0.9
"""Share of unknown things that are declined."""
_USUAL = 0.05
"""Confidence at the median lead of unknown things."""
_LEAST_SPREAD = 0.01


def unknown_leads(
    connection: Connection, images: VectorIndex, owners: Owners
) -> NDArray[np.float64]:
    """Return the leads of matches of stored pictures with units that they do not belong to.

    The lead is the cosine to the nearest picture less that to the nearest of any other unit,
    float64[n] of at most 200 pictures, the first by content hash.
    """
    sample = connection.column("SELECT row FROM images ORDER BY hash LIMIT ?", (_PICTURES,))
    rows, vectors = images.gather(np.array(sample, np.int64))
    if not len(rows):
        return np.zeros(0)
    near, cosines = images.search(vectors, NEAREST)
    units = owners(np.unique(np.append(near[near >= 0], rows)).tolist())
    leads = []
    for row, others, similar in zip(rows.tolist(), near.tolist(), cosines.tolist(), strict=True):
        pairs = [
            (units[other], cosine)
            for other, cosine in zip(others, similar, strict=True)
            if other >= 0 and units[other] and not units[other] & units[row]
        ]
        rivals = [cosine for other, cosine in pairs if not other & pairs[0][0]]
        if units[row] and rivals:
            leads.append(pairs[0][1] - rivals[0])
    return np.array(leads)


def fit_unknown(leads: NDArray[np.float64], threshold: float) -> tuple[float, float] | None:
    """Return the slope and the intercept of log odds of a lead that decline most unknown things.

    The lead that a tenth of the unknown things exceed gets the confidence `threshold`, which is
    above .05, the median lead .05. None for fewer than 20 pictures.
    """
    if len(leads) < _FEWEST:
        return None
    usual, rare = np.quantile(leads, [0.5, _DECLINED]).tolist()
    odds = [float(np.log(p / (1 - p))) for p in (_USUAL, threshold)]
    slope = (odds[1] - odds[0]) / max(rare - usual, _LEAST_SPREAD)
    return slope, odds[1] - slope * rare
