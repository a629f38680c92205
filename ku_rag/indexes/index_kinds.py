"""The kinds of vector index: how each is built and searched.

| kind         | stores per vector            | training | search                               |
| ------------ | ---------------------------- | -------- | ------------------------------------ |
| `flat`       | float16                      | none     | exact, for up to about 20,000        |
| `rabitq`     | one bit per dimension        | none     | scans all, rescores some             |
| `ivf-sq8`    | one byte per dimension, IVF  | k-means  | scans the nearest lists              |
| `ivf-rabitq` | one bit per dimension, IVF   | k-means  | the same in an eighth of the memory  |

All kinds but `flat` return candidates, which are rescored with the stored vectors. (RaBitQ: Gao and
Long, SIGMOD 2024. FAISS implements it and scalar quantisation.)
"""

from __future__ import annotations

import base64
import math
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
"""Recall and candidates refer to this many hits."""

_TRAINING_PER_LIST = 40
_MAX_LISTS = 2048
_MAX_TRAINING = 1 << 14
_KMEANS_ITERATIONS = 10
_BYTE_MAX = 127
_SCALE_SAMPLE = 2048
_CLIPPED_SHARE = 1e-4
"""Share of vector components that exceed the byte range and are clipped."""
_TINY = 1e-12
_BY_QUERIES, _BY_LISTS = 0, 1
_PARALLEL_BYTES = 16 << 20
"""A scan of at least this size uses several threads, which takes tens of milliseconds when other
processes use the processor as well."""
_SELECTED = 2
"""Lists are scanned for so many times as many selected rows as there are rows in other searches."""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Search parameters of an index.

    Args:
        candidates: rows to rescore for every ten hits.
        probes: IVF lists to scan; 0 for kinds without lists.
        recall: measured recall@10, 0 to 1.
    """

    kind: KindName = "flat"
    candidates: int = TOP
    probes: int = 0
    recall: float = 1.0


def faiss_module() -> Any:  # noqa: ANN401 - its stubs have C++ signatures, not Python ones
    """Import FAISS at its first use."""
    import faiss

    return faiss


def training_size(kind: KindName, count: int) -> int:
    """Return the number of training vectors for an index of `count` vectors."""
    if kind == "flat":
        return 0
    if kind == "rabitq":  # only the mean is trained
        return min(count, _MAX_TRAINING)
    return min(count, list_count(count) * _TRAINING_PER_LIST)


@dataclass(frozen=True, slots=True)
class ByteQuantizer:
    """Maps vectors and queries to integers from -127 to 127.

    It subtracts the mean and multiplies by one scale for all dimensions. For vectors of length 1
    this keeps the order of distances, which is the order of cosines. FAISS then multiplies bytes,
    in half the time that a scale per dimension takes.

    Args:
        mean: float32[dim], the mean of the training vectors.
    """

    mean: Vectors
    scale: float

    @classmethod
    def fit(cls, training: Vectors) -> ByteQuantizer:
        """Fit mean and scale to training vectors float32[n, dim]."""
        mean = training.mean(axis=0)
        spread = np.abs(training[:: -(-len(training) // _SCALE_SAMPLE)] - mean)
        return cls(mean, _BYTE_MAX / max(float(np.quantile(spread, 1 - _CLIPPED_SHARE)), _TINY))

    def __call__(self, vectors: Vectors) -> Vectors:
        """Quantise float32[n, dim] to integers stored as float32[n, dim]."""
        quantised: Vectors = np.rint((vectors - self.mean) * np.float32(self.scale))
        return np.clip(quantised, -_BYTE_MAX, _BYTE_MAX, out=quantised)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form for the index header."""
        mean = base64.b64encode(self.mean.astype("<f4").tobytes()).decode()
        return {"mean": mean, "scale": self.scale}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ByteQuantizer:
        """Restore from `to_dict`."""
        return cls(np.frombuffer(base64.b64decode(stored["mean"]), "<f4"), stored["scale"])


def make(
    kind: KindName, dim: int, count: int, training: Vectors
) -> tuple[Any, ByteQuantizer | None]:
    """Make an empty, trained index for `count` vectors, and the quantiser applied to them, if any.

    The training vectors are float32[training_size(kind, count), dim].
    """
    faiss = faiss_module()
    by_cosine = faiss.METRIC_INNER_PRODUCT
    if kind == "flat":
        return faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, by_cosine), None
    if kind == "rabitq":
        index = faiss.IndexRaBitQFastScan(dim, by_cosine)
        index.train(training)
        return index, None
    if kind == "ivf-rabitq":
        index = faiss.index_factory(dim, f"IVF{list_count(count)},RaBitQ", by_cosine)
        _train(index, training)
        return index, None
    quantizer = ByteQuantizer.fit(training)
    code = faiss.ScalarQuantizer.QT_8bit_direct_signed
    centroids = faiss.IndexFlatL2(dim)
    index = faiss.IndexIVFScalarQuantizer(
        centroids, dim, list_count(count), code, faiss.METRIC_L2, False
    )
    _train(index, quantizer(training))
    # Every query is compared with all centroids; comparing bytes takes half the time.
    rounded = faiss.IndexScalarQuantizer(dim, code, faiss.METRIC_L2)
    rounded.add(centroids.reconstruct_n(0, index.nlist))
    index.quantizer, index.own_fields = rounded, True
    rounded.this.disown()
    return index, quantizer


def _train(index: Any, training: Vectors) -> None:  # noqa: ANN401 - faiss
    index.cp.niter = _KMEANS_ITERATIONS
    index.cp.min_points_per_centroid = 1
    index.train(training)


def search_candidates(
    index: Any,  # noqa: ANN401 - faiss
    plan: IndexPlan,
    queries: Vectors,
    count: int,
    mask: Mask | None = None,
    *,
    selected: bool = False,
) -> tuple[Vectors, Positions]:
    """Return the positions that are probably nearest, best first, `count` for each query.

    `queries` are float32[n, dim], quantised if the kind has a quantiser. `mask`, bool[positions],
    is True for positions to search. It selects given rows, so that more lists are scanned, or else
    hides deleted ones.

    Returns:
        (scores float32[n, m], positions int64[n, m]), m ≤ count, padded with -1.
    """
    count = min(count, index.ntotal)
    if plan.kind == "rabitq":
        return _search_with_growing_k(index, queries, count, mask)
    faiss = faiss_module()
    params = faiss.SearchParametersIVF() if plan.probes else faiss.SearchParameters()
    small = False
    if plan.probes:
        params.nprobe, share = min(plan.probes, index.nlist), 1.0
        if selected and mask is not None:
            # As many selected rows are scanned as there are rows in the lists of other searches.
            share = max(1, int(mask.sum())) / len(mask)
            params.nprobe = min(index.nlist, math.ceil(_SELECTED * plan.probes / share))
        scanned = share * index.ntotal * index.code_size * params.nprobe / index.nlist
        index.parallel_mode = _BY_LISTS if scanned > _PARALLEL_BYTES else _BY_QUERIES
        small = len(queries) == 1 and scanned <= _PARALLEL_BYTES
    if mask is not None:
        bits = np.packbits(mask, bitorder="little")  # must outlive the search
        params.sel = faiss.IDSelectorBitmap(bits)
    with _single_threaded(faiss) if small else nullcontext():
        hits: tuple[Vectors, Positions] = index.search(queries, count, params=params)
        if selected and plan.probes and params.nprobe < index.nlist and (hits[1] < 0).any():
            params.nprobe = index.nlist  # the selected rows are in other lists
            hits = index.search(queries, count, params=params)
    return hits


@contextmanager
def _single_threaded(faiss: Any) -> Iterator[None]:  # noqa: ANN401 - faiss
    """Use one thread: waking others takes longer than a small scan.

    FAISS compares centroids with all threads whatever `parallel_mode` says.
    """
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # affects the calling thread only
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def _search_with_growing_k(
    index: Any,  # noqa: ANN401 - faiss
    queries: Vectors,
    count: int,
    mask: Mask | None,
) -> tuple[Vectors, Positions]:
    """Search a kind without mask support: request more hits until enough are valid."""
    if mask is None:
        hits: tuple[Vectors, Positions] = index.search(queries, count)
        return hits
    wanted = min(count, int(mask.sum()))
    requested = count
    while True:
        scores, positions = index.search(queries, requested)
        valid = mask[positions] & (positions >= 0)
        if requested == index.ntotal or valid.sum(axis=1).min() >= wanted:
            order = np.argsort(~valid, axis=1, kind="stable")[:, :count]
            kept = np.take_along_axis(valid, order, 1)
            positions = np.where(kept, np.take_along_axis(positions, order, 1), -1)
            return np.take_along_axis(scores, order, 1), positions
        requested = min(index.ntotal, requested * 8)


def list_count(count: int) -> int:
    """Return the number of IVF lists: the power of two nearest to 4 * sqrt(count)."""
    return int(min(_MAX_LISTS, max(1, 1 << round(np.log2(4 * np.sqrt(max(count, 1)))))))
