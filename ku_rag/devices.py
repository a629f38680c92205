"""Devices for torch models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ku_rag.errors import BadInput
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from torch import device


def torch_device(name: str, *, needs: str) -> device:
    """Return a torch device by name.

    Args:
        name: "auto" (CUDA, else Apple's GPU, else the CPU), "cpu", "cuda", "cuda:N" or "mps".
        needs: the extra that brings torch.

    Raises:
        BadInput: the machine has no such device.
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
