"""State dicts in the format of torch before 1.6, read without torch."""

from __future__ import annotations

import io
import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from ku_rag.errors import BadInput
from ku_rag.weights.state_dict import read_arrays

EXPECTED = "the weights of a test"


class Storage:
    """A storage, which is pickled by its id."""

    def __init__(self, key, array):
        self.key, self.array = key, array


class Tensor:
    """A tensor, pickled as torch does."""

    def __init__(self, storage, offset, shape, strides):
        self.arguments = storage, offset, shape, strides, False, OrderedDict()


class Global:
    """A name in a module that need not be installed."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Pickler(pickle._Pickler):
    """Writes tensors and names as torch does."""

    def persistent_id(self, value):
        if isinstance(value, Storage):
            kind = "LongStorage" if value.array.dtype.kind == "i" else "FloatStorage"
            return "storage", Global("torch", kind), value.key, "cpu", value.array.size, None
        return None

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Global):
            self.write(pickle.GLOBAL + f"{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Tensor):
            self.save(Global("torch._utils", "_rebuild_tensor_v2"))
            self.save(value.arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(value, save_persistent_id)


def write(path, tensors, *, storages, beginning=(0x1950A86A20F9469CFC6C, 1001)):
    out = io.BytesIO()
    keys = [storage.key for storage in storages]
    for value in (*beginning, {"little_endian": True}, tensors, keys):
        Pickler(out, 2).dump(value)
    for storage in storages:
        out.write(storage.array.size.to_bytes(8, "little") + storage.array.tobytes())
    path.write_bytes(out.getvalue())
    return path


@pytest.fixture
def storages():
    return (
        Storage("1", np.arange(12, dtype="<f4")),
        Storage("2", np.array([7], "<i8")),
    )


def test_tensors_are_read_with_offsets_and_strides(tmp_path, storages):
    tensors = OrderedDict(
        whole=Tensor(storages[0], 0, (3, 4), (4, 1)),
        part=Tensor(storages[0], 4, (2, 1, 2), (4, 9, 1)),
        turned=Tensor(storages[0], 0, (4, 3), (1, 4)),
        scalar=Tensor(storages[1], 0, (), ()),
    )
    arrays = read_arrays(write(tmp_path / "w.pth", tensors, storages=storages), EXPECTED)
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert arrays["whole"].tolist() == whole.tolist()
    assert arrays["part"].tolist() == [[[4, 5]], [[8, 9]]]
    assert arrays["turned"].tolist() == whole.T.tolist()
    assert arrays["scalar"] == 7


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [(1, (3, 4), (4, 1)), (0, (2, 2), (20, 1)), (0, (2,), (-1,)), (-1, (2,), (1,)), (99, (), ())],
)
def test_a_tensor_outside_of_its_storage_is_refused(tmp_path, storages, offset, shape, strides):
    tensors = {"bad": Tensor(storages[0], offset, shape, strides)}
    path = write(tmp_path / "w.pth", tensors, storages=storages[:1])
    with pytest.raises(BadInput, match="not within its storage"):
        read_arrays(path, EXPECTED)


@pytest.mark.parametrize("name", ["system", "getcwd"])
def test_a_file_that_asks_for_code_is_refused_and_runs_nothing(tmp_path, storages, name):
    path = write(tmp_path / "w.pth", {"bad": Global(os.name, name)}, storages=storages[:1])
    with pytest.raises(BadInput, match="nothing of it was run"):
        read_arrays(path, EXPECTED)


def test_a_file_that_is_cut_off_or_of_another_format_is_refused(tmp_path, storages):
    tensors = {"whole": Tensor(storages[0], 0, (3, 4), (4, 1))}
    path = write(tmp_path / "w.pth", tensors, storages=storages[:1])
    data = path.read_bytes()
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        with pytest.raises(BadInput, match=EXPECTED):
            read_arrays(path, EXPECTED)
    write(path, tensors, storages=storages[:1], beginning=(1, 1001))
    with pytest.raises(BadInput, match="does not begin"):
        read_arrays(path, EXPECTED)
