"""Regions of pictures: segmenters, and the selection of a region by a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ku_rag.plugins import load

if TYPE_CHECKING:
    from ku_rag.regions.base import Segmenter

_OWN = {
    "windows": "ku_rag.encoders.embedded.windows:WindowsSegmenter",
    "whole": "ku_rag.regions.base:WholeSegmenter",
    "yolo": "ku_rag.regions.yolo:YoloSegmenter",
    "maskrcnn": "ku_rag.regions.maskrcnn:MaskRCNNSegmenter",
}


def load_segmenter(spec: str, *, device: str = "auto", min_side: int = 50) -> Segmenter:
    """Create a segmenter.

    Args:
        spec: "name" or "name:argument": "windows", "whole", "yolo:PATH", "maskrcnn:PATH", or an
            installed one.
        device: "auto", "cpu", "cuda" or "mps", for those that run a model.
        min_side: least width and height of a region, in pixels.

    Raises:
        NotFound: there is no such segmenter, or its weights are not on this machine.
        BadInput: its weights are damaged or of another kind.
        MissingExtra: a package that it needs is not installed.
    """
    segmenter: Segmenter = load("segmenter", _OWN, spec, device=device, min_side=min_side)
    return segmenter
