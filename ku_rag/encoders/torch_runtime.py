"""Device, precision and batches of the encoders that run a torch model."""

from __future__ import annotations

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
from ku_rag.weights.tensors import first_line

Item = TypeVar("Item")
Made = TypeVar("Made")

_THREADS = max(1, min(8, (cpu_count() or 1) - 1))
"""One processor is left to the encoding thread."""

TEXT_COSTS = {"cpu": 512, "cuda": 65_536, "mps": 4096}
"""Padded tokens in a batch, by type of device; see benchmarks/encode.py."""
IMAGE_COSTS = {"cpu": 8, "cuda": 256, "mps": 32}
"""Pictures in a batch."""


@dataclass(frozen=True, slots=True)
class Place:
    """The device and precision of a model.

    Args:
        device: a torch device.
        dtype: the torch dtype of its weights.
    """

    device: Any
    dtype: Any

    def load(self, model: Any) -> Any:  # noqa: ANN401 - any network, the same back
        """Move a network to the device, for inference only."""
        model.eval().requires_grad_(requires_grad=False)
        return model.to(device=self.device, dtype=self.dtype)


def place(device: str, precision: str, *, needs: str) -> Place:
    """Choose the device and precision.

    Args:
        device: "auto" (CUDA, else Apple's GPU, else the CPU), "cpu", "cuda", "cuda:N" or "mps".
        precision: "auto" (bfloat16 on CUDA, else float32), "float32" or "bfloat16".
        needs: the extra that brings torch.

    Raises:
        BadInput: the device or the precision does not exist.
    """
    torch = extra(needs, "torch")
    chosen = torch_device(device, needs=needs)
    if precision not in ("auto", "float32", "bfloat16"):
        raise BadInput(f"there is no precision {precision!r}: choose auto, float32 or bfloat16")
    if precision == "auto":
        precision = "bfloat16" if chosen.type == "cuda" else "float32"
    return Place(chosen, getattr(torch, precision))


class Batches:
    """Limits the size of batches. A batch that does not fit into the GPU's memory is halved.

    Args:
        given: items in a batch; 0 uses `cost`.
        cost: the largest cost of a batch otherwise.

    A batch of n items costs n times the cost of its most expensive item: the cost of a text is its
    number of tokens, because shorter texts are padded to the longest.
    """

    def __init__(self, given: int, *, cost: int) -> None:
        self.size = cost
        self._given = given

    def fits(self, count: int, cost: int) -> bool:
        """Return whether a batch of `count` items, each of at most `cost`, is allowed."""
        return count <= self._given if self._given else count * cost <= self.size

    def run(
        self, batch: Sequence[Item], encode: Callable[[Sequence[Item]], Made], cost: int
    ) -> list[Made]:
        """Encode a batch, in halves if it does not fit into the GPU's memory.

        Args:
            batch: items that `fits` allows.
            encode: encodes them.
            cost: of the most expensive item.

        Raises:
            BadInput: a single item does not fit into memory.
        """
        try:
            return [encode(batch)]
        except RuntimeError as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
            if len(batch) == 1:
                raise BadInput(
                    f"the device has no memory left for a single item ({first_line(error)}): "
                    "free some, or use --device cpu"
                ) from error
        half = len(batch) // 2
        self._given = min(self._given, half)
        self.size = min(self.size, half * cost)
        return self.run(batch[:half], encode, cost) + self.run(batch[half:], encode, cost)


def encode_sorted(
    items: Sequence[Item],
    cost: Callable[[Item], int],
    encode: Callable[[Sequence[Item]], Vectors],
    batches: Batches,
    dim: int,
) -> Vectors:
    """Encode items in batches of similar cost, equal items once.

    Args:
        items: hashable; equal items get the same vector.
        cost: cost of an item, at least 1.
        encode: returns float32[n, dim] for a batch.
        batches: limits the batches.
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
        items: read at most two batches ahead.
        prepare: converts an item to the encoder's input.
        encode: returns float32[n, dim] for a batch.
        batches: limits the batches.
        dim: length of a vector.
        by_threads: False prepares in the calling thread, for items that need no work.

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
