"""The two towers of a CLIP with open_clip's weights, without unused computation.

Texts are padded to the longest of their batch only: the mask is causal, so tokens after the end of
a text have no effect. In the last layer only one position of each row is used (the end of a text,
the class token of a picture), so only that one is computed. x · sigmoid(1.702 x), three passes over
memory, becomes SiLU, one pass: 1.702 is multiplied into the weights before it and divided out of
those after it. On an x86 CPU the weights are packed once for oneDNN, which is a seventh faster for
a batch and by half for a question.
"""

from __future__ import annotations

from platform import machine
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def fold_quick_gelu(model: nn.Module) -> None:
    """Replace every QuickGELU of a model by SiLU, in place; its outputs stay the same."""
    from open_clip.transformer import QuickGELU

    for module in model.modules():
        parts = dict(module.named_children())
        if isinstance(parts.get("gelu"), QuickGELU) and {"c_fc", "c_proj"} <= parts.keys():
            before: Any = parts["c_fc"]
            behind: Any = parts["c_proj"]
            with torch.no_grad():
                before.weight.mul_(1.702)
                before.bias.mul_(1.702)
                behind.weight.div_(1.702)
            module.gelu = nn.SiLU(inplace=True)


class Packed(nn.Module):
    """A linear layer with weights packed for oneDNN; float32 on an x86 CPU only.

    Args:
        weight: float32[out, in].
        bias: float32[out].
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        self.bias = bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Float32[..., out] of float32[..., in]."""
        made: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return made


def prepare(transformer: Any) -> None:  # noqa: ANN401 - a plain transformer of open_clip
    """Replace the linear layers of a plain transformer, by packed ones if possible."""
    linear: type[Packed] | type[_Linear] = Packed if _can_pack(transformer) else _Linear
    with torch.no_grad():
        last = len(transformer.resblocks) - 1
        for number, block in enumerate(transformer.resblocks):
            attention, mlp = block.attn, block.mlp
            weight, bias = attention.in_proj_weight, attention.in_proj_bias
            width = weight.shape[1] if number == last else 0
            # The last layer asks from one position of each row only.
            attention.q_proj = linear(weight[:width], bias[:width]) if width else None
            attention.in_proj = linear(weight[width:], bias[width:])
            attention.in_proj_weight = None
            for holder, name in ((attention, "out_proj"), (mlp, "c_fc"), (mlp, "c_proj")):
                layer = getattr(holder, name)
                setattr(holder, name, linear(layer.weight, layer.bias))


class _Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


def _can_pack(transformer: Any) -> bool:  # noqa: ANN401
    weight = transformer.resblocks[0].attn.in_proj_weight
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return False
    backend: Any = torch.backends.mkldnn
    if machine() not in ("x86_64", "AMD64") or not backend.is_available():
        return False
    try:
        Packed(torch.zeros(8, 8), torch.zeros(8))(torch.zeros(1, 8))
    except (AttributeError, RuntimeError, NotImplementedError):
        # These operators have no public name, so another torch may have others.
        return False
    return True


def text_part(model: Any) -> Any | None:  # noqa: ANN401 - a model of open_clip
    """Return the part with the text tower if `encode_text` supports it, else None."""
    from open_clip.model import CLIP
    from open_clip.transformer import TextTransformer

    part = model if type(model) is CLIP else getattr(model, "text", None)
    if not isinstance(part, CLIP | TextTransformer):
        return None
    pool = getattr(part, "text_pool_type", getattr(part, "pool_type", None))
    usual = (
        part.attn_mask is not None
        and pool == "argmax"
        and getattr(part, "cls_emb", None) is None
        and not getattr(part, "use_pad_mask", False)
    )
    return part if usual and _is_plain(part.transformer) else None


def encode_text(part: Any, ids: Tensor, ends: Tensor) -> Tensor:  # noqa: ANN401
    """Return text features [n, dim], not normalised.

    Args:
        part: see `text_part`.
        ids: int64[n, length], with any padding.
        ends: int64[n], the position of each text's end token.
    """
    x: Tensor = part.token_embedding(ids) + part.positional_embedding[: ids.shape[1]]
    x = part.ln_final(_run(part.transformer.resblocks, x, ends))
    return _projected(x, part.text_projection)


def is_plain_vision(tower: Any) -> bool:  # noqa: ANN401 - any tower
    """Return whether `encode_pixels` supports an image tower."""
    from open_clip.transformer import VisionTransformer

    return bool(
        type(tower) is VisionTransformer
        and tower.attn_pool is None
        and tower.pool_type == "tok"
        and not tower.output_tokens
        and _is_plain(tower.transformer)
    )


def encode_pixels(tower: Any, pixels: Tensor) -> Tensor:  # noqa: ANN401
    """Return image features [n, dim], not normalised, of pixels [n, 3, side, side]."""
    x = tower.conv1(pixels).flatten(2).transpose(1, 2)
    first = tower.class_embedding.expand(len(x), 1, -1)
    x = tower.ln_pre(torch.cat([first, x], dim=1) + tower.positional_embedding)
    x = tower.ln_post(_run(tower.transformer.resblocks, x, None))
    return _projected(x, tower.proj)


def _projected(x: Tensor, project: Any) -> Tensor:  # noqa: ANN401 - a table, a layer or None
    if isinstance(project, nn.Module):
        x = project(x)
    elif project is not None:
        x = x @ project
    return x


def _is_plain(transformer: Any) -> bool:  # noqa: ANN401
    from open_clip.transformer import ResidualAttentionBlock

    return all(
        type(block) is ResidualAttentionBlock
        and isinstance(block.ls_1, nn.Identity)
        and isinstance(block.ls_2, nn.Identity)
        and block.attn.in_proj_weight is not None
        and block.attn.in_proj_bias is not None
        for block in transformer.resblocks
    )


def _run(blocks: Any, x: Tensor, ends: Tensor | None) -> Tensor:  # noqa: ANN401
    """Run all blocks over x [n, length, width]; returns one position of each row, [n, width].

    Args:
        blocks: pre-norm attention and MLP.
        x: the embedded rows.
        ends: the position to return of each row, with a causal mask; None for the first one, with
            no mask.
    """
    rows = torch.arange(len(x), device=x.device)
    for block in blocks:
        attention, seen = block.attn, None
        around = block.ln_1(x)
        if attention.q_proj is None:
            q, k, v = _heads(attention, attention.in_proj(around), 3)
        else:
            at = torch.zeros_like(rows) if ends is None else ends
            x = x[rows, at][:, None]
            (q,) = _heads(attention, attention.q_proj(around[rows, at][:, None]), 1)
            k, v = _heads(attention, attention.in_proj(around), 2)
            if ends is not None:
                seen = torch.arange(k.shape[2], device=x.device) <= ends[:, None]
                seen = seen[:, None, None]
        causal = ends is not None and attention.q_proj is None
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=causal)
        x = x + attention.out_proj(found.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.ln_2(x))
    return x[:, 0]


def _heads(attention: Any, found: Tensor, number: int) -> tuple[Tensor, ...]:  # noqa: ANN401
    """Split a product into queries, keys or values [n, heads, length, width of a head]."""
    n, length, _ = found.shape
    apart = found.view(n, length, number, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
    return apart.unbind()
