"""The protocol of segmenters, which propose regions of a picture, and one that proposes none."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from PIL.Image import Image

from ku_rag.types import Region


@runtime_checkable
class Segmenter(Protocol):
    """Proposes the regions of a picture that a question could be about (KU-RAG, section 3.3.1)."""

    @property
    def name(self) -> str:
        """The name in results, such as "windows"."""

    @property
    def fingerprint(self) -> str:
        """Identifies the method and its parameters."""

    def propose(self, image: Image) -> list[Region]:
        """Return regions of an RGB picture, the whole picture excluded."""


class WholeSegmenter:
    """Proposes no regions, so that the whole picture is used."""

    name = fingerprint = "whole"

    def propose(self, image: Image) -> list[Region]:
        """Return no regions."""
        return []
