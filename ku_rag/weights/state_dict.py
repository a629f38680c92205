"""Read a state dict that torch saved before version 1.6, without torch and without running code."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ku_rag.errors import BadInput

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
_TYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


class _Tensor(NamedTuple):
    """A tensor in a storage: key and type of the storage, first element, shape and strides."""

    key: str
    type: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_arrays(path: Path, expected: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state dict by name.

    Only the few names that such a file needs are known; a file that names anything else is refused.

    Raises:
        BadInput: It is damaged, contains code, or is of another format.
    """
    try:
        with path.open("rb") as file:
            if (_load(file), _load(file)) != (_MAGIC, _PROTOCOL):
                raise ValueError("it does not begin as such a file does")
            _load(file)  # about the machine that wrote it
            tensors, keys = _load(file), _load(file)
            types = {tensor.key: np.dtype(_TYPES[tensor.type]) for tensor in tensors.values()}
            storages = {key: _read_storage(file, types[key]) for key in keys}
            return {name: _view(storages[tensor.key], tensor) for name, tensor in tensors.items()}
    except (pickle.UnpicklingError, ValueError, EOFError, LookupError, TypeError, OSError) as error:
        raise BadInput(
            f"{path} cannot be read as weights ({error}); nothing of it was run: expected "
            f"{expected}; install it again"
        ) from error
    except (AttributeError, MemoryError, OverflowError) as error:
        raise BadInput(f"{path} is damaged: expected {expected}; install it again") from error


class _Restricted(pickle.Unpickler):
    """Unpickles numbers, texts, lists, dicts, and tensors as `_Tensor`."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        """Return what may be called; everything else is refused."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _as_tensor
        if module == "torch" and name in _TYPES:
            return name
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> tuple[str, str]:  # noqa: ANN401 - as pickle has it
        """Return key and type of a storage."""
        kind, type_name, key, *_ = pid
        if kind != "storage":
            raise pickle.UnpicklingError(f"it refers to a {kind}")
        return key, type_name


def _load(file: BinaryIO) -> Any:  # noqa: ANN401 - whatever the file has
    return _Restricted(file).load()


def _as_tensor(
    storage: tuple[str, str],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *_: object,
) -> _Tensor:
    return _Tensor(*storage, offset, shape, strides)


def _read_storage(file: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    size = int.from_bytes(file.read(8), "little") * dtype.itemsize
    data = file.read(size)
    if len(data) != size:
        raise ValueError("it ends too early")
    return np.frombuffer(data, dtype)


def _view(storage: NDArray[Any], tensor: _Tensor) -> NDArray[Any]:
    """Return a tensor of a storage."""
    begin, steps = tensor.offset, [n - 1 for n in tensor.shape]
    last = begin + sum(n * stride for n, stride in zip(steps, tensor.strides, strict=True))
    if min(begin, *steps, *tensor.strides, 0) < 0 or last >= len(storage):
        raise ValueError("a tensor is not within its storage")
    strides = [stride * storage.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(storage[begin:], tensor.shape, strides, writeable=False)
