"""What turns texts and pictures into vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ku_rag.plugins import load

if TYPE_CHECKING:
    from ku_rag.encoders.base import Encoder

_OWN = {"embedded": "ku_rag.encoders.embedded:EmbeddedEncoder"}


def load_encoder(spec: str) -> Encoder:
    """Make an encoder from "name" or "name:argument"; "embedded" needs nothing.

    Raises:
        NotFound: there is no encoder of that name.
    """
    encoder: Encoder = load("encoder", _OWN, spec)
    return encoder
