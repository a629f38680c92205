"""What the encoders that run a model share: the device, the precision, the size of a batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any, TypeVar

import numpy as np

from ku_rag.devices import torch_device
from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput
from ku_rag.plugins import extra

Item = TypeVar("Item")
Made = TypeVar("Made")

_GROWTH = 1.05
"""A batch twice as large must be faster by this factor to be kept."""
_TRIES = 2
_THREADS = max(1, min(8, (cpu_count() or 1) - 1))
"""One processor is left to what encodes meanwhile."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a model runs, and in what numbers.

    Args:
        device: a torch device.
        dtype: a torch dtype of its weights.
    """

    device: Any
    dtype: Any

    @property
    def is_cuda(self) -> bool:
        """Whether it is a GPU of NVIDIA's, or AMD's."""
        return bool(self.device.type == "cuda")

    def load(self, model: Any) -> Any:  # noqa: ANN401 - any network, the same back
        """A network moved here, for encoding only."""
        model.eval().requires_grad_(requires_grad=False)
        return model.to(device=self.device, dtype=self.dtype)


def place(device: str, precision: str, *, needs: str) -> Place:
    """Choose where to run.

    Args:
        device: "auto" (CUDA, else Apple's GPU, else the CPU), "cpu", "cuda", "cuda:N" or "mps".
        precision: "auto" (bfloat16 on CUDA, else float32), "float32" or "bfloat16".
        needs: the extra that brings torch.

    Raises:
        BadInput: this machine has no such device, or there is no such precision.
    """
    torch = extra(needs, "torch")
    chosen = torch_device(device, needs=needs)
    if precision not in ("auto", "float32", "bfloat16"):
        raise BadInput(f"there is no precision {precision!r}: choose auto, float32 or bfloat16")
    if precision == "auto":
        precision = "bfloat16" if chosen.type == "cuda" else "float32"
    return Place(chosen, getattr(torch, precision))


class Batches:
    """How much is encoded at once; on CUDA it finds out what is fastest while it works.

    Args:
        place: where the model runs.
        given: items in a batch, for good; 0 finds out.
        first: the cost of a batch to begin with, which stays on other devices than CUDA.
        most: the largest cost ever tried.

    A batch of n items costs n times the cost of its dearest item: a text costs its tokens, as the
    others are padded to the longest.
    """

    def __init__(self, place: Place, given: int, *, first: int, most: int) -> None:
        self.size = first
        self._given = given
        self._is_cuda = place.is_cuda
        self._most = most
        self._settled = bool(given) or not place.is_cuda
        self._speed = self._slower_speed = 0.0
        self._tries = -1  # what runs first of all warms up

    def fits(self, count: int, cost: int) -> bool:
        """Whether a batch of `count` items, the dearest of which costs `cost`, is allowed."""
        return count <= self._given if self._given else count * cost <= self.size

    def run(
        self, batch: Sequence[Item], encode: Callable[[Sequence[Item]], Made], cost: int
    ) -> list[Made]:
        """Encode a batch, in halves if it does not fit into the GPU's memory.

        Args:
            batch: what fits; see `fits`.
            encode: does it; its result must be off the device, else its time means nothing.
            cost: of the dearest item.

        Raises:
            BadInput: not even one item fits into memory.
        """
        started = time.perf_counter()
        try:
            made = encode(batch)
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            if len(batch) == 1:
                raise BadInput(
                    f"the device has no memory left for a single item ({first_line(error)}): "
                    "free some, or use --device cpu"
                ) from error
        else:
            self.learn(len(batch) * cost, time.perf_counter() - started)
            return [made]
        half = len(batch) // 2
        self._given = min(self._given, half)
        self.size = min(self.size, half * cost)
        self._settled = True
        return self.run(batch[:half], encode, cost) + self.run(batch[half:], encode, cost)

    def learn(self, cost: int, seconds: float) -> None:
        """Take note of how long a batch of that cost took."""
        if self._settled or 2 * cost <= self.size:
            return
        self._tries += 1
        if self._tries:
            self._speed = max(self._speed, cost / seconds)
        if self._tries < _TRIES:
            return
        if self._speed < _GROWTH * self._slower_speed:
            self.size //= 2
            self._settled = True
        elif 2 * self.size > self._most:
            self._settled = True
        else:
            self.size *= 2
            self._slower_speed, self._speed, self._tries = self._speed, 0.0, 0


def encode_sorted(
    items: Sequence[Item],
    cost: Callable[[Item], int],
    encode: Callable[[Sequence[Item]], Vectors],
    batches: Batches,
    dim: int,
) -> Vectors:
    """Encode items of like cost together, each different one once.

    Args:
        items: hashable; equal ones get the very same vector.
        cost: of one, 1 or more.
        encode: float32[n, dim] of a batch.
        batches: says how many at once.
        dim: length of a vector.

    Returns:
        float32[len(items), dim], in the order of the items.
    """
    rows: dict[Item, int] = {}
    for item in items:
        rows.setdefault(item, len(rows))
    made = np.zeros((len(rows), dim), np.float32)
    batch: list[Item] = []

    def flush() -> None:
        if batch:
            parts = batches.run(batch, encode, cost(batch[-1]))
            made[[rows[item] for item in batch]] = np.concatenate(parts)
            batch.clear()

    for item in sorted(rows, key=cost):
        if batch and not batches.fits(len(batch) + 1, cost(item)):
            flush()
        batch.append(item)
    flush()
    return made[[rows[item] for item in items]]


def encode_ahead(
    items: Iterable[Item],
    prepare: Callable[[Item], Made],
    encode: Callable[[Sequence[Made]], Vectors],
    batches: Batches,
    dim: int,
    *,
    by_threads: bool = True,
) -> Vectors:
    """Encode items in order, while threads prepare the next ones.

    Args:
        items: drawn one after another, no further ahead than two batches.
        prepare: makes what is encoded from an item.
        encode: float32[n, dim] of a batch.
        batches: says how many at once.
        dim: length of a vector.
        by_threads: False prepares them here: when that is no work.

    Returns:
        float32[number of items, dim].
    """
    parts: list[Vectors] = []
    batch: list[Made] = []
    for made in _ahead(items, prepare, batches) if by_threads else map(prepare, items):
        if batch and not batches.fits(len(batch) + 1, 1):
            parts += batches.run(batch, encode, 1)
            batch = []
        batch.append(made)
    if batch:
        parts += batches.run(batch, encode, 1)
    return np.concatenate(parts) if parts else np.zeros((0, dim), np.float32)


def _ahead(
    items: Iterable[Item], prepare: Callable[[Item], Made], batches: Batches
) -> Iterator[Made]:
    waiting: deque[Future[Made]] = deque()
    if isinstance(items, Sequence) and len(items) <= 1:
        yield from map(prepare, items)
        return
    with ThreadPoolExecutor(_THREADS, "ku-pictures") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(prepare, item))
                if not batches.fits((len(waiting) + 1) // 2, 1):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def first_line(error: BaseException) -> str:
    """The first line of a message, without its full stop; the kind of error if there is none."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(". ") if lines else type(error).__name__
