"""The segmenter without regions: questions are about the whole picture."""

from __future__ import annotations

from PIL.Image import Image

from ku_rag.types import Region


class WholeSegmenter:
    """Proposes no regions, so that the whole picture is used."""

    name = fingerprint = "whole"

    def propose(self, image: Image) -> list[Region]:
        """Return no regions."""
        return []
