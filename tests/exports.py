"""Small networks as ONNX files with encoder.json, like exports of CLIP, SigLIP and DINO."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

needs_onnx = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxruntime", "tokenizers"))),
    reason="needs onnx, onnxruntime and tokenizers, which `make test-all` installs",
)
DIM, SIDE, PATCH, WORDS = 8, 16, 8, 40
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.5]


def weights(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def save_network(path: Path, nodes: list[Any], inputs: Any, outputs: Any, constants: Any) -> None:
    """Write a graph; inputs and outputs are name → (type, shape)."""
    from onnx import checker, helper, numpy_helper, save

    values = [
        [helper.make_tensor_value_info(name, *kind) for name, kind in side.items()]
        for side in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", *values, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    checker.check_model(model)
    save(model, path)


def save_image_tower(path: Path) -> None:
    """Pixels → a vector for each patch, and their mean as a second output."""
    from onnx import TensorProto, helper

    kind = TensorProto.FLOAT
    nodes = [
        helper.make_node("Conv", ["pixel_values", "kernel"], ["grid"], strides=[PATCH, PATCH]),
        helper.make_node("Reshape", ["grid", "shape"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["last_hidden_state"], perm=[0, 2, 1]),
        helper.make_node(
            "ReduceMean", ["last_hidden_state"], ["image_embeds"], axes=[1], keepdims=0
        ),
    ]
    outputs = {
        "last_hidden_state": (kind, ["n", "patches", DIM]),
        "image_embeds": (kind, ["n", DIM]),
    }
    constants = {
        "kernel": weights(1, DIM, 3, PATCH, PATCH),
        "shape": np.array([0, DIM, -1], np.int64),
    }
    save_network(path, nodes, {"pixel_values": (kind, ["n", 3, SIDE, SIDE])}, outputs, constants)


def save_text_tower(path: Path, *, dim: int = DIM, has_mask: bool = False) -> None:
    """Ids of tokens → the mean of their vectors."""
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    looked_up, inputs = "last_hidden_state", {"input_ids": (TensorProto.INT64, ["n", "tokens"])}
    if has_mask:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["cast"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["cast", "axis"], ["wide"]),
            helper.make_node("Mul", [looked_up, "wide"], ["masked"]),
        ]
        looked_up = "masked"
        inputs["attention_mask"] = (TensorProto.INT64, ["n", "tokens"])
    nodes.append(helper.make_node("ReduceMean", [looked_up], ["text_embeds"], axes=[1], keepdims=0))
    outputs = {
        "text_embeds": (TensorProto.FLOAT, ["n", dim]),
        "last_hidden_state": (TensorProto.FLOAT, ["n", "tokens", dim]),
    }
    constants = {"table": weights(2, WORDS, dim)} | (
        {"axis": np.array([2], np.int64)} if has_mask else {}
    )
    save_network(path, nodes, inputs, outputs, constants)


def save_tokenizer(path: Path) -> None:
    """Letters are tokens; 1 and 2 are start and end."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    names = ["<pad>", "<s>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz0123456789"]
    vocabulary = {name: number for number, name in enumerate(names)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex("."), "isolated")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    tokenizer.save(str(path))


def save_export(folder: Path, *, has_text: bool = True, **changes: Any) -> Path:
    """Write the towers and encoder.json; `changes` update its "image" or "text"."""
    folder.mkdir(parents=True)
    save_image_tower(folder / "vision_model.onnx")
    settings: dict[str, Any] = {
        "image": {
            "file": "vision_model.onnx",
            "size": SIDE,
            "resize": "crop",
            "mean": MEAN,
            "std": STD,
            "output": "image_embeds",
        }
    }
    if has_text:
        save_text_tower(folder / "text_model.onnx")
        save_tokenizer(folder / "tokenizer.json")
        settings["text"] = {"file": "text_model.onnx", "tokens": 64}
    for tower, values in changes.items():
        settings[tower] |= values
    (folder / "encoder.json").write_text(json.dumps(settings))
    return folder
