"""What the segmenters that run a model share: finding the file of weights, and the device."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ku_rag import weights
from ku_rag.errors import BadInput, NotFound
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from torch import device


def weights_file(argument: str, what: str) -> Path:
    """The absolute path of a file of weights; nothing is downloaded.

    Args:
        argument: a path ("~" is the home folder), or the name of a known model.
        what: what it should be, for the message.

    Raises:
        NotFound: there is no such file, or the known model was not pulled.
        BadInput: it is a folder, or empty.
        Corrupt: the known model's file is of another size.
    """
    path = Path(argument).expanduser().absolute()
    if not path.exists():
        if argument in weights.models():
            return weights.find(argument).absolute()
        raise NotFound(
            f"there is no file {path}: expected {what}, or the name of a model that "
            "`ku models list` knows"
        )
    if not path.is_file():
        raise BadInput(f"{path} is a folder: expected {what}")
    if path.stat().st_size == 0:
        raise BadInput(f"{path} is empty: expected {what}; copy the file again")
    return path


def content_hash(path: Path) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def torch_device(name: str, needed_by: str) -> device:
    """The device of that name; "auto" is CUDA, else Apple's, else the processor.

    Args:
        name: "auto", "cpu", "cuda", "cuda:1", "mps".
        needed_by: the extra that brings torch.

    Raises:
        BadInput: this machine has no such device.
    """
    torch = extra(needed_by, "torch")
    offered = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        name = next(kind for kind, there in offered.items() if there)
    kind = name.partition(":")[0]
    if not offered.get(kind):
        there = ", ".join(sorted(one for one, is_there in offered.items() if is_there))
        raise BadInput(f"device {name!r} is not on this machine: expected auto or one of {there}")
    found: device = torch.device(name)
    return found
