"""What proposes and chooses the part of a picture that a question is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ku_rag.plugins import load

if TYPE_CHECKING:
    from ku_rag.encoders.base import Encoder
    from ku_rag.regions.base import Segmenter

_OWN = {
    "windows": "ku_rag.regions.windows:WindowsSegmenter",
    "whole": "ku_rag.regions.whole:WholeSegmenter",
    "yolo": "ku_rag.regions.yolo:YoloSegmenter",
    "maskrcnn": "ku_rag.regions.maskrcnn:MaskRCNNSegmenter",
}


def load_segmenter(spec: str, *, device: str = "auto", min_side: int = 50) -> Segmenter:
    """Make a segmenter.

    Args:
        spec: "name" or "name:argument": "windows", "whole", "yolo:PATH", "maskrcnn:PATH", or an
            installed one.
        device: "auto", "cpu", "cuda" or "mps", for those that run a model.
        min_side: least width and height of a region, in pixels.

    Raises:
        NotFound: there is no segmenter of that name, or its weights are not here.
        BadInput: its weights are not what they should be.
        MissingExtra: what it needs is not installed.
    """
    segmenter: Segmenter = load("segmenter", _OWN, spec, device=device, min_side=min_side)
    return segmenter


def default_segmenter(encoder: Encoder) -> str:
    """What proposes regions where nothing else was asked for.

    Windows suit the embedded encoder alone: a model would take minutes for 1,600 of them.
    """
    return "windows" if encoder.fingerprint.startswith("embedded:") else "whole"
