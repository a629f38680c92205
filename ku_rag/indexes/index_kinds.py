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

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
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
_FEW_GONE, _SPARE = 0.01, 8
"""Where no more than this share is gone, so many more are asked for instead of masking."""


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
    return min(count, lists(count) * _TRAINED_A_LIST)


@dataclass(frozen=True, slots=True)
class Bytes:
    """How vectors, and what is asked of them, become whole numbers of -127 to 127.

    Their middle is taken off and the rest stretched, by one number for all dimensions: of vectors
    of length 1 this leaves the order of distances as it is, which is that of cosines. FAISS then
    multiplies bytes, in half of the time that it needs with a scale for each dimension.

    Args:
        middle: float32[dim], the mean of the vectors.
        stretch: what they are multiplied by then.
    """

    middle: Vectors
    stretch: float

    @classmethod
    def of(cls, training: Vectors) -> Bytes:
        """Fit for vectors like these, float32[n, dim]."""
        middle = training.mean(axis=0)
        spread = np.abs(training[:: -(-len(training) // _STRETCHED)] - middle)
        return cls(middle, _BYTE / max(float(np.quantile(spread, 1 - _CLIPPED)), _TINY))

    def __call__(self, vectors: Vectors) -> Vectors:
        """Vectors float32[n, dim] as whole numbers, float32[n, dim]."""
        fitted: Vectors = np.rint((vectors - self.middle) * np.float32(self.stretch))
        return np.clip(fitted, -_BYTE, _BYTE, out=fitted)

    def to_dict(self) -> dict[str, Any]:
        """As a header keeps it."""
        middle = base64.b64encode(self.middle.astype("<f4").tobytes()).decode()
        return {"middle": middle, "stretch": self.stretch}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Bytes:
        """As it was kept."""
        return cls(np.frombuffer(base64.b64decode(kept["middle"]), "<f4"), kept["stretch"])


def make(kind: KindName, dim: int, count: int, training: Vectors) -> tuple[Any, Bytes | None]:
    """An empty index of this kind, trained, and what vectors are made before they come to it.

    Args:
        kind: which.
        dim: length of a vector.
        count: how many it will hold.
        training: float32[training_size(kind, count), dim].
    """
    faiss = library()
    by_cosine = faiss.METRIC_INNER_PRODUCT
    if kind == "flat":
        return faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, by_cosine), None
    if kind == "rabitq":
        index = faiss.IndexRaBitQFastScan(dim, by_cosine)
        index.train(training)
        return index, None
    if kind == "ivf-rabitq":
        index = faiss.index_factory(dim, f"IVF{lists(count)},RaBitQ", by_cosine)
        _train(index, training)
        return index, None
    fit = Bytes.of(training)
    held = faiss.ScalarQuantizer.QT_8bit_direct_signed
    middles = faiss.IndexFlatL2(dim)
    index = faiss.IndexIVFScalarQuantizer(middles, dim, lists(count), held, faiss.METRIC_L2, False)
    _train(index, fit(training))
    # The middles of lists are all compared with every query, in bytes twice as fast.
    rounded = faiss.IndexScalarQuantizer(dim, held, faiss.METRIC_L2)
    rounded.add(middles.reconstruct_n(0, index.nlist))
    index.quantizer, index.own_fields = rounded, True
    rounded.this.disown()
    return index, fit


def _train(index: Any, training: Vectors) -> None:  # noqa: ANN401 - faiss
    index.cp.niter = _ROUNDS
    index.cp.min_points_per_centroid = 1
    index.train(training)


def propose(
    index: Any,  # noqa: ANN401 - faiss
    plan: Plan,
    queries: Vectors,
    count: int,
    mask: Mask | None = None,
    *,
    gone: int | None = None,
) -> tuple[Vectors, Positions]:
    """The positions that look nearest, best first.

    Args:
        index: as `make` makes it, filled.
        plan: how it is asked.
        queries: float32[n, dim], made fit for it.
        count: how many for each query.
        mask: bool[positions], those that count; None for all.
        gone: how many positions do not count, where those that do lie anywhere; None where they
            were picked, for which all lists are looked into.

    Returns:
        (what ranks them float32[n, m], positions int64[n, m]), m ≤ count, padded with -1.
    """
    count = min(count, index.ntotal)
    if plan.kind == "rabitq":
        return _propose_widely(index, queries, count, mask)
    if mask is not None and gone is not None and gone <= _FEW_GONE * index.ntotal:
        # To ask for some more is cheaper than to ask of every position whether it counts.
        asked = min(index.ntotal, count + _SPARE)
        scores, positions = _scan(index, plan.probes, queries, asked)
        counts = mask[positions] & (positions >= 0)
        if counts.sum(axis=1).min() >= count:
            return _first(counts, scores, positions, count)
    everywhere = mask is not None and gone is None
    probes = index.nlist if plan.probes and everywhere else plan.probes
    return _scan(index, probes, queries, count, mask)


def _scan(
    index: Any,  # noqa: ANN401 - faiss
    probes: int,
    queries: Vectors,
    count: int,
    mask: Mask | None = None,
) -> tuple[Vectors, Positions]:
    """Search under a mask, in so many lists; 0 where there are none."""
    faiss = library()
    params = faiss.SearchParametersIVF() if probes else faiss.SearchParameters()
    little = False
    if probes:
        params.nprobe = min(probes, index.nlist)
        scanned = index.ntotal * index.code_size * params.nprobe / index.nlist
        index.parallel_mode = _BY_LISTS if scanned > _MUCH_BYTES else _BY_QUERIES
        little = len(queries) == 1 and scanned <= _MUCH_BYTES
    if mask is not None:
        bits = np.packbits(mask, bitorder="little")  # must outlive the search
        params.sel = faiss.IDSelectorBitmap(bits)
    with _alone(faiss) if little else nullcontext():
        found: tuple[Vectors, Positions] = index.search(queries, count, params=params)
    return found


def _first(
    counts: Mask, scores: Vectors, positions: Positions, count: int
) -> tuple[Vectors, Positions]:
    """Of each query the first that count, padded with -1."""
    order = np.argsort(~counts, axis=1, kind="stable")[:, :count]
    kept = np.take_along_axis(counts, order, 1)
    positions = np.where(kept, np.take_along_axis(positions, order, 1), -1)
    return np.take_along_axis(scores, order, 1), positions


@contextmanager
def _alone(faiss: Any) -> Iterator[None]:  # noqa: ANN401 - faiss
    """Search in the calling thread alone: to wake the others takes longer than a small scan.

    The middles of lists are compared by all threads whatever `parallel_mode` says.
    """
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # of this thread only
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


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
            return _first(counts, scores, positions, count)
        asked = min(index.ntotal, asked * 8)


def lists(count: int) -> int:
    """How many lists so many vectors have: a power of two near four times the root of that."""
    return int(min(_MOST_LISTS, max(1, 1 << round(np.log2(4 * np.sqrt(max(count, 1)))))))
