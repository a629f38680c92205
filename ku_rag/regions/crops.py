"""Crops of regions, with or without the background."""

from __future__ import annotations

from typing import Literal

import numpy as np
from PIL import Image

from ku_rag.types import Region

Background = Literal["keep", "mask"]

FILL = (123, 117, 104)
"""Colour of a masked background: the mean of CLIP's training pictures, which its encoders normalise
to 0. Recall with black is far lower (docs/decisions/0013-regions.md)."""


def crop(image: Image.Image, region: Region, background: Background = "keep") -> Image.Image:
    """Crop a region; "mask" fills the pixels outside its mask, if there is one, with `FILL`."""
    part = image.crop(region.box)
    if background == "keep" or region.mask is None or not region.mask.any():
        return part
    filled = Image.new(part.mode, part.size, FILL)
    filled.paste(part, mask=Image.fromarray(region.mask.astype(np.uint8) * np.uint8(255)))
    return filled
