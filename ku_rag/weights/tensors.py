"""Read tensors from files of weights without running code in them."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag.errors import BadInput, reason
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from torch import Tensor

_FOREIGN = re.compile(r"GLOBAL ([a-zA-Z_][\w.]*)|Unsupported (?:class|global) ([a-zA-Z_][\w.]*)")
_BROKEN = (
    *(RuntimeError, ValueError, EOFError, OSError, KeyError, IndexError, TypeError),
    *(AttributeError, AssertionError, pickle.UnpicklingError),
)


def read_tensors(path: Path, expected: str) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file, or of a file that `torch.save` wrote.

    The file is mapped if its format allows it, so that only used tensors are read.

    Raises:
        BadInput: it is damaged, contains code, or holds no named tensors.
    """
    torch = extra("longclip", "torch")
    with path.open("rb") as file:
        is_safetensors = path.suffix == ".safetensors" or file.read(9)[8:] == b"{"
    loaded = (_load_safetensors if is_safetensors else _load_pickle)(path, expected)
    if isinstance(loaded, Mapping) and isinstance(loaded.get("state_dict"), Mapping):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, Mapping):
        raise BadInput(f"{path} holds a {type(loaded).__name__}: expected {expected}")
    tensors = {str(key): value for key, value in loaded.items() if torch.is_tensor(value)}
    if not tensors or len(tensors) < len(loaded) // 2:
        keys = ", ".join(repr(str(key)) for key in list(loaded)[:3]) or "nothing"
        raise BadInput(f"{path} holds no state dict but {keys}: expected {expected}")
    if all(key.startswith("module.") for key in tensors):
        tensors = {key.removeprefix("module."): value for key, value in tensors.items()}
    return tensors


def _load_safetensors(path: Path, expected: str) -> Any:  # noqa: ANN401 - whatever the file holds
    load_file = extra("longclip", "safetensors.torch").load_file
    try:
        return load_file(path)
    except Exception as error:  # SafetensorError is a child of Exception only
        raise _unreadable(path, reason(error), expected) from error


def _load_pickle(path: Path, expected: str) -> Any:  # noqa: ANN401 - whatever the file holds
    torch = extra("longclip", "torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(
                path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path) or None
            )
    except _BROKEN as error:
        if "TorchScript" in str(error):
            raise BadInput(
                f"{path} is a TorchScript archive, which is code: expected {expected}; save its "
                "state_dict() to a file of its own"
            ) from error
        if match := _FOREIGN.search(str(error)):
            raise BadInput(
                f"{path} asks for {match[1] or match[2]}, which weights do not need and which "
                f"could run code: nothing of it was run; expected {expected}"
            ) from error
        # torch's message about other pickles suggests to run them.
        strange = isinstance(error, pickle.UnpicklingError)
        why = "not as torch saves them, nothing of it was run" if strange else reason(error)
        raise _unreadable(path, why, expected) from error


def _unreadable(path: Path, why: str, expected: str) -> BadInput:
    return BadInput(
        f"{path} cannot be read as weights, it may have been cut off ({why}): "
        f"expected {expected}; copy the file again"
    )
