"""The segmenter without regions: questions are about the whole picture."""

from __future__ import annotations

from dataclasses import dataclass

from PIL.Image import Image

from ku_rag.types import Region


@dataclass(frozen=True, slots=True)
class WholeSegmenter:
    """Proposes no regions, so that the whole picture is used."""

    @property
    def name(self) -> str:
        """The name in results."""
        return "whole"

    @property
    def fingerprint(self) -> str:
        """Identifies the method."""
        return "whole"

    def propose(self, image: Image) -> list[Region]:
        """Return no regions."""
        return []
