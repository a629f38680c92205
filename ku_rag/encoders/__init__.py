"""What turns texts and pictures into vectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
    """Make an encoder.

    Args:
        spec: "name" or "name:argument", such as "embedded" or "longclip:PATH"; or two of them for
            texts and pictures, "sentence:PATH+longclip:PATH". A sentence encoder alone leaves the
            pictures to "embedded".
        device: "auto", "cpu", "cuda" or "mps", for those that run a model.
        batch_size: items encoded at once; 0 finds out.

    Raises:
        NotFound: there is no encoder of that name, or its weights are not here.
        BadInput: its weights are not what they should be.
        MissingExtra: what it needs is not installed.
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
    """Make one of what `sides` gives; it may know texts only. Raises as `load_encoder`."""
    made: Encoder = load("encoder", _OWN, spec, device=device, batch_size=batch_size)
    return made


def sides(spec: str) -> list[str]:
    """The specs of the one encoder, or of the two for texts and pictures; paths made absolute."""
    known = "|".join(map(re.escape, sorted(offered("encoder", _OWN))))
    parts = re.split(rf"\+(?=(?:{known})(?::|$))", spec, maxsplit=1)
    if len(parts) == 1 and parts[0].partition(":")[0] in _TEXT_ONLY:
        parts.append("embedded")
    return [absolute(part) for part in parts]
