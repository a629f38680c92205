"""The kinds of vector index, what each is made of, and how it is asked.

| kind         | holds of a vector        | trained  | for                                        |
| ------------ | ------------------------ | -------- | ------------------------------------------ |
| `flat`       | half precision           | no       | up to some ten thousands: exact            |
| `rabitq`     | one bit a dimension      | no       | beyond: all are scanned, some scored anew  |
| `ivf-sq8`    | a byte a number, in lists| k-means  | the nearest lists are scanned              |
| `ivf-rabitq` | one bit, in lists        | k-means  | likewise, an eighth of the memory          |

All but `flat` only propose: what they propose is scored anew with the store's own vectors. (RaBitQ:
Gao and Long, SIGMOD 2024; here and for scalar quantisation FAISS's implementation.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ku_rag.encoders.base import Vectors

KindName = Literal["flat", "rabitq", "ivf-sq8", "ivf-rabitq"]
KINDS: tuple[KindName, ...] = get_args(KindName)

Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]

TOP = 10
"""Recall is measured, and candidates are counted, for this many hits."""

_TRAINED_A_LIST = 40
_MOST_LISTS = 2048
_TRAINED_MOST = 1 << 14
_ROUNDS = 10
_BYTE = 127
_STRETCHED = 2048
_CLIPPED = 1e-4
"""So few of the numbers of vectors lie beyond what a byte holds."""
_TINY = 1e-12
_BY_QUERIES, _BY_LISTS = 0, 1
_MUCH_BYTES = 2 << 20
"""From here on a scan is worth more than one thread."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How an index is made and asked.

    Args:
        kind: see above.
        candidates: how many rows are proposed and scored anew for every ten hits.
        probes: how many lists are scanned; 0 where there are none.
        recall: the share of the ten nearest that were found when this was measured, 0 to 1.
    """

    kind: KindName = "flat"
    candidates: int = TOP
    probes: int = 0
    recall: float = 1.0

    def proposed(self, k: int) -> int:
        """How many rows are proposed for k hits."""
        return -(-self.candidates * max(k, TOP) // TOP)


def library() -> Any:  # noqa: ANN401 - its stubs know the C++ signatures, not those in Python
    """FAISS, brought in at its first use."""
    import faiss

    return faiss


def training_size(kind: KindName, count: int) -> int:
    """How many vectors a kind is trained with when it will hold `count`."""
    if kind == "flat":
        return 0
    if kind == "rabitq":  # its middle only
        return min(count, _TRAINED_MOST)
    return min(count, _lists(count) * _TRAINED_A_LIST)


Fit = Callable[[Vectors], Vectors]
"""What is done to vectors before an index takes them in: float32[n, dim] to float32[n, dim]."""


def make(kind: KindName, dim: int, count: int, training: Vectors) -> tuple[Any, Fit]:
    """An empty index of this kind, trained, and how vectors are made fit for it.

    Args:
        kind: which.
        dim: length of a vector.
        count: how many it will hold.
        training: float32[training_size(kind, count), dim].
    """
    faiss = library()
    by_cosine = faiss.METRIC_INNER_PRODUCT
    fit: Fit = np.asarray
    if kind == "flat":
        return faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, by_cosine), fit
    if kind == "rabitq":
        index = faiss.IndexRaBitQFastScan(dim, by_cosine)
    else:
        nearest, lists = faiss.IndexFlatIP(dim), _lists(count)
        if kind == "ivf-sq8":
            fit = _fit_bytes(training)
            held = faiss.ScalarQuantizer.QT_8bit_direct_signed
            index = faiss.IndexIVFScalarQuantizer(nearest, dim, lists, held, by_cosine, False)
        else:
            index = faiss.IndexIVFRaBitQ(nearest, dim, lists, by_cosine)
        nearest.this.disown()
        index.own_fields = True
        index.cp.niter = _ROUNDS
        index.cp.min_points_per_centroid = 1
    index.train(fit(training))
    return index, fit


def _fit_bytes(training: Vectors) -> Fit:
    """Vectors as whole numbers of -127 to 127, their common middle taken off.

    Neither changes the order of inner products with a query; FAISS then multiplies bytes, which
    takes half of what it takes with a scale for each dimension.
    """
    middle = training.mean(axis=0)
    spread = np.abs(training[:: -(-len(training) // _STRETCHED)] - middle)
    stretch = np.float32(_BYTE / max(float(np.quantile(spread, 1 - _CLIPPED)), _TINY))

    def fit(vectors: Vectors) -> Vectors:
        fitted: Vectors = np.clip(np.rint((vectors - middle) * stretch), -_BYTE, _BYTE)
        return fitted

    return fit


def propose(
    index: Any,  # noqa: ANN401 - faiss
    plan: Plan,
    queries: Vectors,
    count: int,
    mask: Mask | None = None,
    *,
    everywhere: bool = False,
) -> tuple[Vectors, Positions]:
    """The positions that look nearest, best first.

    Args:
        index: as `make` makes it, filled.
        plan: how it is asked.
        queries: float32[n, dim].
        count: how many for each query.
        mask: bool[positions], those that count; None for all.
        everywhere: look into all lists.

    Returns:
        (what ranks them float32[n, m], positions int64[n, m]), m ≤ count, padded with -1.
    """
    faiss = library()
    count = min(count, index.ntotal)
    if plan.kind == "rabitq":
        return _propose_widely(index, queries, count, mask)
    if plan.kind == "ivf-sq8":
        longest = np.abs(queries).max(axis=1, keepdims=True)
        queries = queries * (_BYTE / np.maximum(longest, np.float32(_TINY)))
    params = faiss.SearchParametersIVF() if plan.probes else faiss.SearchParameters()
    if plan.probes:
        params.nprobe = index.nlist if everywhere else min(plan.probes, index.nlist)
        scanned = index.ntotal * index.code_size * params.nprobe / index.nlist
        index.parallel_mode = _BY_LISTS if scanned > _MUCH_BYTES else _BY_QUERIES
    if mask is not None:
        bits = np.packbits(mask, bitorder="little")  # must outlive the search
        params.sel = faiss.IDSelectorBitmap(bits)
    found: tuple[Vectors, Positions] = index.search(queries, count, params=params)
    return found


def _propose_widely(
    index: Any,  # noqa: ANN401 - faiss
    queries: Vectors,
    count: int,
    mask: Mask | None,
) -> tuple[Vectors, Positions]:
    """For a kind that knows no masks: ask for more until enough of what counts is among it."""
    if mask is None:
        found: tuple[Vectors, Positions] = index.search(queries, count)
        return found
    wanted = min(count, int(mask.sum()))
    asked = count
    while True:
        scores, positions = index.search(queries, asked)
        counts = mask[positions] & (positions >= 0)
        if asked == index.ntotal or counts.sum(axis=1).min() >= wanted:
            order = np.argsort(~counts, axis=1, kind="stable")[:, :count]
            kept = np.take_along_axis(counts, order, 1)
            positions = np.where(kept, np.take_along_axis(positions, order, 1), -1)
            return np.take_along_axis(scores, order, 1), positions
        asked = min(index.ntotal, asked * 8)


def _lists(count: int) -> int:
    """About four times the root of the count, a power of two: FAISS's own advice."""
    return int(min(_MOST_LISTS, max(1, 1 << round(np.log2(4 * np.sqrt(max(count, 1)))))))
