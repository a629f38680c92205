"""No regions: a question is about the whole picture."""

from __future__ import annotations

from dataclasses import dataclass

from PIL.Image import Image

from ku_rag.types import Region


@dataclass(frozen=True, slots=True)
class WholeSegmenter:
    """Proposes nothing, so the whole picture is looked at."""

    @property
    def name(self) -> str:
        """What results call it."""
        return "whole"

    @property
    def fingerprint(self) -> str:
        """Names the method."""
        return "whole"

    def propose(self, image: Image) -> list[Region]:
        """No region of any picture."""
        return []
