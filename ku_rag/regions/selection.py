"""Selection of the region that a question is about (KU-RAG, section 3.3.1, eq. 4 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from PIL.Image import Image

from ku_rag.encoders.base import Encoder, encode_queries
from ku_rag.errors import BadInput
from ku_rag.regions.crops import Background, crop
from ku_rag.types import Region


def choose(
    image: Image,
    question: str,
    regions: Sequence[Region],
    encoder: Encoder,
    *,
    threshold: float = 0.19,
    background: Background = "keep",
) -> Region:
    """Return the only region whose cosine to the question passes a threshold, or the whole picture.

    Each region is cropped and encoded (eq. 4) and compared with the question (eq. 5). If no region
    or several pass the threshold, the question may be about the scene or about several objects, and
    the whole picture is returned (eq. 6). 0.19 suits Long-CLIP.
    """
    if not encoder.cross_modal:
        raise BadInput(
            f"{encoder.fingerprint} cannot compare a question with a picture: choose regions by "
            "what the knowledge base holds, or take an encoder such as longclip"
        )
    whole = Region((0, 0, *image.size), "whole")
    if not regions:
        return replace(whole, why="no region was proposed: the whole picture")
    if not question.strip():
        return replace(whole, why="there is no question to choose a region by: the whole picture")
    query = encode_queries(encoder, [question])[0]
    crops = [crop(image, region, background) for region in regions]
    cosines = encoder.encode_images(crops) @ query
    best = int(cosines.argmax())
    passing = int((cosines > threshold).sum())
    why = (
        f"{passing} of {len(regions)} regions {'passes' if passing == 1 else 'pass'} the threshold "
        f"{threshold:g}; the best cosine to the question is {cosines[best]:.3f}"
    )
    if passing != 1:
        return replace(whole, why=f"{why}: the whole picture")
    what = f"{regions[best].why}; " if regions[best].why else ""
    return replace(regions[best], score=round(float(cosines[best]), 4), why=what + why)
