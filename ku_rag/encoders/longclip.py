"""Long-CLIP's official checkpoints as open_clip models (KU-RAG, eq. 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ku_rag.encoders.clip import ClipEncoder
from ku_rag.errors import BadInput, reason
from ku_rag.plugins import extra
from ku_rag.weights.files import content_hash, weights_file
from ku_rag.weights.tensors import read_tensors

if TYPE_CHECKING:
    from torch import Tensor

_EXPECTED = "a Long-CLIP checkpoint, such as longclip-B.pt or longclip-L.pt"
_KEPT = 20
"""Position embeddings that Long-CLIP keeps from CLIP; the following ones are its own."""
_HEAD = 64
"""Width of an attention head in every CLIP."""


class LongClipEncoder(ClipEncoder):
    """Texts of up to 246 tokens and pictures in one space.

    Args:
        argument: path of a checkpoint, or a known name such as "longclip-B".

    Raises:
        NotFound: the weights are not on this machine; nothing is downloaded.
        BadInput: the file is not a Long-CLIP checkpoint, or the device does not exist.
        MissingExtra: open_clip is not installed.
    """

    def __init__(
        self, argument: str = "longclip-B", *, device: str = "auto", batch_size: int = 0
    ) -> None:
        open_clip = extra("longclip", "open_clip")
        path = weights_file(argument, _EXPECTED)
        model = build(read_tensors(path, _EXPECTED), path)
        super().__init__(
            model,
            open_clip.tokenizer.SimpleTokenizer(context_length=model.context_length),
            open_clip.image_transform(model.visual.image_size, is_train=False),
            fingerprint=f"longclip:{content_hash(path)}",
            device=device,
            batch_size=batch_size,
        )


def build(tensors: Mapping[str, Tensor], path: Path) -> Any:  # noqa: ANN401 - an open_clip CLIP
    """Create an open_clip CLIP with the weights of an official checkpoint, in float32 on the CPU.

    The sizes of the model are derived from its tensors. The path is for messages. `BadInput` if
    they are not those of a Long-CLIP.
    """
    torch = extra("longclip", "torch")
    clip = extra("longclip", "open_clip.model").CLIP
    folded = fold_positions(tensors, path)
    try:
        width, dim = folded["text_projection"].shape
        vision_width, _, patch, _ = folded["visual.conv1.weight"].shape
        patches = folded["visual.positional_embedding"].shape[0] - 1
        vision = {
            "layers": _layers(folded, "visual.transformer.resblocks."),
            "width": vision_width,
            "head_width": _HEAD,
            "patch_size": patch,
            "image_size": patch * round(patches**0.5),
        }
        text = {
            "context_length": folded["positional_embedding"].shape[0],
            "vocab_size": folded["token_embedding.weight"].shape[0],
            "width": width,
            "heads": width // _HEAD,
            "layers": _layers(folded, "transformer.resblocks."),
        }
        # On the meta device, no weights are initialised.
        with torch.device("meta"):
            model = clip(dim, vision, text, quick_gelu=True)
        model.load_state_dict(folded, strict=True, assign=True)
    except (KeyError, ValueError, RuntimeError, ZeroDivisionError, AssertionError) as error:
        raise BadInput(
            f"{path}: the tensors make no Long-CLIP ({reason(error)}): expected {_EXPECTED}, "
            "as it was published"
        ) from error
    length = text["context_length"]
    model.attn_mask = torch.full((length, length), float("-inf")).triu_(1)
    return model


def fold_positions(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Convert the tensors to float32 and merge Long-CLIP's two tables of position embeddings.

    Positions 0 to 19 come from `positional_embedding`, the others from `positional_embedding_res`.
    `BadInput` if a table is missing or has the wrong shape.
    """
    torch = extra("longclip", "torch")
    first, second = (tensors.get(f"positional_embedding{end}") for end in ("", "_res"))
    if first is None or second is None:
        raise BadInput(
            f"{path} holds {len(tensors)} tensors such as {next(iter(tensors))!r} without the two "
            f"tables of positions of a Long-CLIP: expected {_EXPECTED}, or open_clip:MODEL/PATH "
            "for a plain CLIP"
        )
    if first.shape != second.shape or first.ndim != 2 or len(first) <= _KEPT:
        raise BadInput(
            f"{path} has tables of positions of {tuple(first.shape)} and {tuple(second.shape)}: "
            f"expected two of the same size, as in {_EXPECTED}"
        )
    folded = {
        key: tensor.float() for key, tensor in tensors.items() if key != "positional_embedding_res"
    }
    folded["positional_embedding"] = torch.cat([first[:_KEPT], second[_KEPT:]]).float()
    return folded


def _layers(tensors: Mapping[str, Tensor], prefix: str) -> int:
    numbers = {key[len(prefix) :].split(".")[0] for key in tensors if key.startswith(prefix)}
    return len(numbers)
