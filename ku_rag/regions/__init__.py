"""What proposes and chooses the part of a picture that a question is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ku_rag.plugins import load

if TYPE_CHECKING:
    from ku_rag.regions.base import Segmenter

_OWN = {"windows": "ku_rag.regions.windows:WindowsSegmenter"}


def load_segmenter(spec: str) -> Segmenter:
    """Make a segmenter from "name" or "name:argument"; "windows" needs nothing.

    Raises:
        NotFound: there is no segmenter of that name.
    """
    segmenter: Segmenter = load("segmenter", _OWN, spec)
    return segmenter
