"""Encoders: texts and pictures to vectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ku_rag.errors import BadInput
from ku_rag.plugins import absolute, load, offered

if TYPE_CHECKING:
    from ku_rag.encoders.base import Encoder

_OWN = {
    "embedded": "ku_rag.encoders.embedded:EmbeddedEncoder",
    "longclip": "ku_rag.encoders.longclip:LongClipEncoder",
    "open_clip": "ku_rag.encoders.openclip:OpenClipEncoder",
    "sentence": "ku_rag.encoders.sentence_transformers:SentenceEncoder",
}
_TEXT_ONLY = {"sentence"}


def load_encoder(spec: str, *, device: str = "auto", batch_size: int = 0) -> Encoder:
    """Create an encoder.

    Args:
        spec: "name" or "name:argument", such as "embedded" or "longclip:PATH"; or two of them for
            texts and pictures, "sentence:PATH+longclip:PATH". With a sentence encoder alone,
            "embedded" encodes the pictures.
        device: "auto", "cpu", "cuda" or "mps", for those that run a model.
        batch_size: items in a batch; 0 chooses by device.

    Raises:
        NotFound: there is no such encoder, or its weights are not on this machine.
        BadInput: its weights are damaged or of another kind.
        MissingExtra: a package that it needs is not installed.
    """
    parts = sides(spec)
    if parts[-1].partition(":")[0] in _TEXT_ONLY:
        raise BadInput(
            f"the encoder of pictures is {parts[-1]}, which knows texts only: write it first, as "
            f'in "{parts[-1]}+embedded"'
        )
    made = [load_side(one, device=device, batch_size=batch_size) for one in parts]
    if len(made) == 1:
        return made[0]
    from ku_rag.encoders.pair import Paired

    return Paired(*made)


def load_side(spec: str, *, device: str = "auto", batch_size: int = 0) -> Encoder:
    """Create one of the encoders that `sides` names. Raises as `load_encoder`."""
    from ku_rag.encoders.base import RgbAdapter

    encoder: Any = RgbAdapter(load("encoder", _OWN, spec, device=device, batch_size=batch_size))
    return cast("Encoder", encoder)


def sides(spec: str) -> list[str]:
    """Return the spec of one encoder, or those of texts and pictures, with absolute paths."""
    parts = [spec]
    if "+" in spec:  # else installed packages need not be searched
        known = "|".join(map(re.escape, sorted(offered("encoder", _OWN))))
        parts = re.split(rf"\+(?=(?:{known})(?::|$))", spec, maxsplit=1)
    if len(parts) == 1 and parts[0].partition(":")[0] in _TEXT_ONLY:
        parts.append("embedded")
    return [absolute(part) for part in parts]
