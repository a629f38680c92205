"""The seam between ku-rag and whatever proposes regions of a picture."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from PIL.Image import Image

from ku_rag.types import Region


@runtime_checkable
class Segmenter(Protocol):
    """Proposes the regions of a picture that a question could be about (KU-RAG, section 3.3.1)."""

    @property
    def name(self) -> str:
        """What results call it, such as "windows"."""

    @property
    def fingerprint(self) -> str:
        """Names the method and its parameters."""

    def propose(self, image: Image) -> list[Region]:
        """Regions of an RGB picture, without scores; the whole picture is not among them."""
