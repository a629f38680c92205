"""Servers of embeddings on this machine: llama.cpp with a small model, and one that records."""

from __future__ import annotations

import string
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from tests.endpoint import Endpoint, Said, serving

needs_llama = pytest.mark.skipif(
    not (find_spec("xllamacpp") and find_spec("gguf")),
    reason="needs xllamacpp and gguf, which `make test` installs",
)
WIDTH = 32
"""Length of the vectors of the small model."""
_CONTEXT, _HIDDEN = 512, 64
_RUN = """
import sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path, settings.mmproj.path = sys.argv[1:]
settings.embedding, settings.warmup, settings.mmproj_use_gpu = True, False, False
settings.n_ctx, settings.n_parallel, settings.port = 1024, 2, 0
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def save_model(path: Path, seed: int = 0) -> Path:
    """Write a BERT of one layer with random weights, whose tokens are letters."""
    from gguf import GGUFWriter, PoolingType

    rng = np.random.default_rng(seed)
    letters = string.ascii_lowercase + string.digits + string.punctuation
    starts = ["\u2581" + letter for letter in letters]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *starts, *letters]
    file = GGUFWriter(path, "bert")
    file.add_context_length(_CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_feed_forward_length(_HIDDEN)
    file.add_block_count(1)
    file.add_head_count(2)
    file.add_layer_norm_eps(1e-12)
    file.add_causal_attention(False)
    file.add_pooling_type(PoolingType.MEAN)
    file.add_tokenizer_model("bert")
    file.add_token_list(tokens)
    file.add_token_types([3] * 4 + [1] * (len(tokens) - 4))
    file.add_token_type_count(2)
    for name, number in {"bos": 2, "eos": 3, "unk": 1, "sep": 3, "pad": 0, "mask": 1}.items():
        getattr(file, f"add_{name}_token_id")(number)
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        "token_types": (2, WIDTH),
        "position_embd": (_CONTEXT, WIDTH),
        **{f"blk.0.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_up": (_HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, _HIDDEN),
    }
    for name, shape in shapes.items():
        file.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
        if name.startswith("blk"):
            file.add_tensor(f"{name}.bias", rng.normal(size=shape[0]).astype(np.float32))
    for name in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        file.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
        file.add_tensor(f"{name}.bias", np.zeros(WIDTH, np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def save_picture_model(folder: Path) -> tuple[Path, Path]:
    """Write a LLaVA of one layer with random weights: the network, and the tower of pictures."""
    from gguf import GGUFWriter, PoolingType, TokenType

    rng, side, patch = np.random.default_rng(0), 32, 16
    square, wide, narrow = (WIDTH, WIDTH), (_HIDDEN, WIDTH), (WIDTH, _HIDDEN)

    def finish(file: GGUFWriter, shapes: dict[str, tuple[int, ...]], norms: list[str]) -> None:
        for name, shape in shapes.items():
            file.add_tensor(f"{name}.weight", rng.normal(0, 0.3, shape).astype(np.float32))
        for name in norms:
            file.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
        file.write_header_to_file()
        file.write_kv_data_to_file()
        file.write_tensors_to_file()
        file.close()

    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256))]
    text = GGUFWriter(folder / "text.gguf", "llama")
    text.add_context_length(_CONTEXT)
    text.add_embedding_length(WIDTH)
    text.add_feed_forward_length(_HIDDEN)
    text.add_block_count(1)
    text.add_head_count(2)
    text.add_layer_norm_rms_eps(1e-6)
    text.add_pooling_type(PoolingType.LAST)
    text.add_tokenizer_model("llama")
    text.add_token_list(tokens)
    text.add_token_scores([0.0] * len(tokens))
    text.add_token_types(kinds)
    shapes = {name: (len(tokens), WIDTH) for name in ("token_embd", "output")}
    shapes |= {f"blk.0.attn_{part}": square for part in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": wide, "blk.0.ffn_up": wide, "blk.0.ffn_down": narrow}
    finish(text, shapes, ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"])

    tower = GGUFWriter(folder / "pictures.gguf", "clip")
    tower.add_bool("clip.has_vision_encoder", True)
    tower.add_string("clip.projector_type", "mlp")
    tower.add_bool("clip.use_gelu", True)
    numbers = {
        "image_size": side, "patch_size": patch, "embedding_length": WIDTH, "projection_dim": WIDTH,
        "feed_forward_length": _HIDDEN, "block_count": 2, "attention.head_count": 2,
    }  # fmt: skip
    for name, number in numbers.items():
        tower.add_uint32(f"clip.vision.{name}", number)
    tower.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    for name in ("image_mean", "image_std"):
        tower.add_array(f"clip.vision.{name}", [0.5, 0.5, 0.5])
    shapes = {
        "v.patch_embd": (WIDTH, 3, patch, patch),
        "v.position_embd": ((side // patch) ** 2 + 1, WIDTH),
        "mm.0": square,
        "mm.2": square,
    }
    tower.add_tensor("v.class_embd", np.ones(WIDTH, np.float32))
    for name in ("mm.0", "mm.2", "v.pre_ln", "v.post_ln"):
        tower.add_tensor(f"{name}.bias", np.zeros(WIDTH, np.float32))
    norms = ["v.pre_ln", "v.post_ln"]
    for block in ("v.blk.0", "v.blk.1"):
        norms += [f"{block}.ln1", f"{block}.ln2"]
        shapes |= {f"{block}.attn_{part}": square for part in ("q", "k", "v", "out")}
        shapes |= {f"{block}.ffn_up": wide, f"{block}.ffn_down": narrow}
        for part, size in {
            "ln1": WIDTH,
            "ln2": WIDTH,
            "ffn_up": _HIDDEN,
            "ffn_down": WIDTH,
        }.items():
            tower.add_tensor(f"{block}.{part}.bias", np.zeros(size, np.float32))
        for part in ("q", "k", "v", "out"):
            tower.add_tensor(f"{block}.attn_{part}.bias", np.zeros(WIDTH, np.float32))
    finish(tower, shapes, norms)
    return folder / "text.gguf", folder / "pictures.gguf"


@contextmanager
def serving_llama(model: Path, tower: Path | str = "") -> Iterator[str]:
    """Run llama.cpp's server with a model, and yield the address of its interface."""
    command = [sys.executable, "-c", _RUN, str(model), str(tower)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, **pipes) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().strip() + "/v1"
        finally:
            server.kill()


def embeddings(vectors: Any) -> Said:
    """A response with vectors, in reverse order, each with its number."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    return Said({"object": "list", "model": "another-name", "data": data[::-1]})


def items(body: dict[str, Any]) -> list[str]:
    """The texts and the addresses of pictures in a request of any form."""
    if "input" in body:
        parts = body["input"]
        return [part if isinstance(part, str) else part["multimodal_data"][0] for part in parts]
    [message] = body["messages"]
    [part] = message["content"]
    return [part["text"] if part["type"] == "text" else part["image_url"]["url"]]


def vector(item: str, dim: int = 8) -> list[float]:
    """A vector of a given length that differs for each item."""
    return [float(n) for n in np.random.default_rng(crc32(item.encode())).normal(size=dim)]


def recording(
    by: Callable[[dict[str, Any]], Said] | None = None,
) -> AbstractContextManager[Endpoint]:
    """A server that returns a separate vector of 8 numbers for each item and records requests."""
    return serving(by=by or (lambda body: embeddings(map(vector, items(body)))))
