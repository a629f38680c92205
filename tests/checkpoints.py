"""Checkpoints with random weights, for tests of encoders that run a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from open_clip.model import CLIP

TINY = {
    "embed_dim": 48,
    "vision_cfg": {"layers": 2, "width": 64, "patch_size": 16, "image_size": 64, "head_width": 64},
    "text_cfg": {"context_length": 248, "width": 64, "heads": 1, "layers": 2},
}
B = {
    "embed_dim": 512,
    "vision_cfg": {"layers": 12, "width": 768, "patch_size": 16, "image_size": 224},
    "text_cfg": {"context_length": 248, "width": 512, "heads": 8, "layers": 12},
}
L = {
    "embed_dim": 768,
    "vision_cfg": {"layers": 24, "width": 1024, "patch_size": 14, "image_size": 224},
    "text_cfg": {"context_length": 248, "width": 768, "heads": 12, "layers": 12},
}


def official(shape: dict[str, Any], *, seed: int = 0, dtype: Any = torch.float16) -> dict[str, Any]:
    """Random weights in the layout of the official Long-CLIP: two tables of positions."""
    with torch.device("meta"):
        template = CLIP(**shape, quick_gelu=True).state_dict()
    noise = torch.randn(1_000_003, generator=torch.Generator().manual_seed(seed)).to(dtype)
    tensors, at = {}, 0
    for key, like in template.items():
        if key.endswith(".bias"):
            tensors[key] = torch.zeros(like.shape, dtype=dtype)
        elif ".ln_" in key or key.startswith("ln_"):
            tensors[key] = torch.ones(like.shape, dtype=dtype)
        else:
            # Drawing hundreds of millions of numbers would take longer than the test.
            repeated = noise.roll(at).repeat(-(-like.numel() // len(noise)))[: like.numel()]
            scale = 0.1 if "embedding" in key else max(like.shape, default=1) ** -0.5
            tensors[key] = repeated.view(like.shape) * scale
            at += 1
    tensors["logit_scale"] = torch.tensor(4.6, dtype=dtype)
    positions = tensors["positional_embedding"]
    tensors["positional_embedding_res"] = positions.flip(0) + 0.01
    return tensors


def save_official(path: Path, shape: dict[str, Any] = TINY, **options: Any) -> Path:
    """Write the weights of `official` in the format of the suffix."""
    tensors = official(shape, **options)
    if path.suffix == ".safetensors":
        from safetensors.torch import save_file

        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, path)
    else:
        torch.save(tensors, path)
    return path


def save_folder(folder: Path, shape: dict[str, Any] = TINY, **text: Any) -> Path:
    """Write a small model of open_clip in its own format: a configuration beside the weights."""
    import open_clip
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    config = {**shape, "text_cfg": {**shape["text_cfg"], "context_length": 77, **text}}
    if text:
        config["custom_text"] = True
    written = {"model_cfg": config, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(written), encoding="utf-8")
    torch.manual_seed(0)
    model_class = open_clip.CustomTextCLIP if text else CLIP
    model = model_class(**{key: value for key, value in config.items() if key != "custom_text"})
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder


def save_cross_encoder(folder: Path, *, outputs: int = 1, seed: int = 0) -> Path:
    """Write a small BERT with random weights, as a cross-encoder."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(n) for n in range(97, 123)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    shape = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 64}
    config = BertConfig(
        vocab_size=len(words), num_hidden_layers=1, num_attention_heads=2, num_labels=outputs,
        initializer_range=0.5, **shape,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder
