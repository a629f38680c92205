"""Device, precision and batches of torch models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ku_rag.encoders.base import Vectors
from ku_rag.errors import BadInput, reason
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from torch import device

Item = TypeVar("Item")

TEXT_COSTS = {"cpu": 512, "cuda": 65_536, "mps": 4096}
"""Padded tokens in a batch, by type of device; measured."""
IMAGE_COSTS = {"cpu": 8, "cuda": 256, "mps": 32}
"""Pictures in a batch."""


@dataclass(frozen=True, slots=True)
class Place:
    """The torch device of a model, and the torch dtype of its weights."""

    device: Any
    dtype: Any

    def load(self, model: Any) -> Any:  # noqa: ANN401 - any network, the same back
        """Move a network to the device, for inference only."""
        model.eval().requires_grad_(requires_grad=False)
        return model.to(device=self.device, dtype=self.dtype)


def torch_device(name: str, *, needs: str) -> device:
    """Return a torch device by name.

    The name is "auto" (CUDA, else Apple's GPU, else the CPU), "cpu", "cuda", "cuda:N" or "mps".
    `needs` is the extra that brings torch. `BadInput` if the machine has no such device.
    """
    torch = extra(needs, "torch")
    offered = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    there = [kind for kind, is_there in offered.items() if is_there]
    chosen = there[0] if name == "auto" else name
    kind, colon, number = chosen.partition(":")
    is_numbered = kind == "cuda" and number.isdecimal() and int(number) < torch.cuda.device_count()
    if kind not in there or (colon and not is_numbered):
        raise BadInput(
            f"there is no device {name!r} on this machine: choose auto or {', '.join(there)}"
        )
    found: device = torch.device(chosen)
    return found


def place(device: str, *, needs: str) -> Place:
    """Choose a device as `torch_device` does, and bfloat16 on CUDA, else float32."""
    torch, chosen = extra(needs, "torch"), torch_device(device, needs=needs)
    return Place(chosen, torch.bfloat16 if chosen.type == "cuda" else torch.float32)


class Batches:
    """Encodes items in batches. A batch that does not fit into the GPU's memory is halved.

    Args:
        given: items in a batch; 0 uses `cost`.
        cost: the largest cost of a batch otherwise. A batch of n items costs n times the cost of
            its most expensive item, because shorter texts are padded to the longest.
    """

    def __init__(self, given: int, *, cost: int) -> None:
        self._given, self._cost = given, cost

    def encode(
        self,
        items: Sequence[Item],
        cost: Callable[[Item], int],
        encode: Callable[[Sequence[Item]], Vectors],
        dim: int,
    ) -> Vectors:
        """Encode hashable items in batches of similar cost, equal items once.

        An item costs at least 1, and `encode` returns float32[n, dim] for a batch. The vectors,
        float32[len(items), dim], are in the order of the items. `BadInput` if a single item does
        not fit into memory.
        """
        ordered = sorted(dict.fromkeys(items), key=cost)
        made: dict[Item, Vectors] = {}
        while left := ordered[len(made) :]:
            batch = left[: self._count(left, cost)]
            try:
                made.update(zip(batch, encode(batch), strict=True))
            except RuntimeError as error:
                if type(error).__name__ != "OutOfMemoryError":
                    raise
                if len(batch) == 1:
                    raise BadInput(
                        f"the device has no memory left for a single item ({reason(error)}): "
                        "free some, or use --device cpu"
                    ) from error
                half = len(batch) // 2
                self._given = min(self._given, half)
                self._cost = min(self._cost, half * cost(batch[-1]))
        return np.stack([made[item] for item in items]) if items else np.zeros((0, dim), np.float32)

    def _count(self, items: Sequence[Item], cost: Callable[[Item], int]) -> int:
        """Return the size of the next batch, at least 1; items are sorted by cost."""
        if self._given:
            return self._given
        numbers = (n for n, item in enumerate(items) if (n + 1) * cost(item) > self._cost)
        return max(1, next(numbers, len(items)))


def check_length(longest: int, encoder: Any) -> None:  # noqa: ANN401 - or an encoder of texts
    """Raise `BadInput` if the longest text has more tokens than the encoder's limit."""
    if longest > encoder.max_tokens:
        raise BadInput(
            f"a text has {longest:,} tokens: {encoder.fingerprint.partition(':')[0]} takes "
            f"{encoder.max_tokens} at most; cut it into chunks"
        )
