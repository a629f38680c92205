"""Cutting a region out of a picture, with what lies around the thing kept or masked out."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from PIL import Image

from ku_rag.errors import BadInput
from ku_rag.types import Region

Background = Literal["keep", "mask"]
BACKGROUNDS: tuple[Background, ...] = get_args(Background)

FILL = (123, 117, 104)
"""What stands in for a background that is masked out: the mean colour of CLIP's training pictures,
0 after the normalising of its encoders. Black finds far less (docs/decisions/0013-regions.md)."""


def crop(image: Image.Image, region: Region, background: Background = "keep") -> Image.Image:
    """The part of an RGB picture that a region marks, as large as its box.

    Args:
        image: the picture that the region was proposed for.
        region: its mask, if it has one, must be as large as its box.
        background: "keep" takes the box as it is; "mask" paints what the mask leaves out in `FILL`.
            A region without a mask, or with one that leaves nothing, keeps it.

    Raises:
        BadInput: there is no such background.
    """
    if background not in BACKGROUNDS:
        raise BadInput(f"background is {background!r}: expected {' or '.join(BACKGROUNDS)}")
    part = image.crop(region.box)
    if background == "keep" or region.mask is None or not region.mask.any():
        return part
    filled = Image.new(part.mode, part.size, FILL)
    filled.paste(part, mask=Image.fromarray(region.mask.astype(np.uint8) * np.uint8(255)))
    return filled
