"""What a camera does to a picture: exposure, white balance, blur, noise, JPEG."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter


@dataclass(frozen=True, slots=True)
class Shot:
    """Settings of one photograph.

    Args:
        exposure: in stops, -1.2 (dark) to 0.7 (bright).
        red: gain of the red channel (white balance).
        blue: gain of the blue channel.
        blur: radius of the defocus, pixels.
        noise: standard deviation of the sensor's noise, 0-255.
        vignette: how much darker the corners are, 0 to 0.4.
        quality: of the JPEG, 1 to 95.
    """

    exposure: float
    red: float
    blue: float
    blur: float
    noise: float
    vignette: float
    quality: int


def draw_shot(rng: np.random.Generator) -> Shot:
    """Choose settings of a photograph as people take them, bad ones among them."""
    return Shot(
        exposure=float(rng.uniform(-1.0, 0.55)),
        red=float(rng.uniform(0.86, 1.14)),
        blue=float(rng.uniform(0.86, 1.14)),
        blur=float(rng.choice([0.0, rng.uniform(0.3, 1.3)])),
        noise=float(rng.uniform(1, 8)),
        vignette=float(rng.uniform(0, 0.35)),
        quality=int(rng.integers(30, 93)),
    )


def photograph(picture: Image.Image, shot: Shot, rng: np.random.Generator) -> Image.Image:
    """Take a picture of a scene: RGB in, RGB out, through a JPEG file in memory."""
    with Image.open(io.BytesIO(jpeg(picture, shot, rng))) as stored:
        return stored.convert("RGB")


def jpeg(picture: Image.Image, shot: Shot, rng: np.random.Generator) -> bytes:
    """Take a picture of a scene and return its JPEG file."""
    if shot.blur > 0:
        picture = picture.filter(ImageFilter.GaussianBlur(shot.blur))
    width, height = picture.size
    # Light adds up in linear space, so gains are applied there; 2.2 stands in for sRGB's curve.
    linear = (np.arange(256, dtype=np.float32) / 255) ** 2.2
    gains = np.array([shot.red, 1.0, shot.blue], dtype=np.float32) * 2.0**shot.exposure
    table = linear[:, None] * gains
    # Bright parts roll off instead of being cut, as in a camera's tone curve.
    rolled = np.where(table > 0.7, 0.7 + 0.3 * (1 - np.exp(-(table - 0.7) / 0.3)), table)
    curve = 255 * np.clip(rolled, 0, 1) ** (1 / 2.2)
    lut = [round(float(v)) for v in curve.T.ravel()]
    pixels = np.asarray(picture.point(lut), dtype=np.float32)
    across = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    down = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    fall = 1 - np.float32(shot.vignette * 0.5) * (across**2 + down**2)
    grain = rng.standard_normal((height, width), dtype=np.float32) * np.float32(shot.noise)
    pixels = pixels * fall[..., None] + grain[..., None]
    taken = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    memory = io.BytesIO()
    taken.save(memory, "JPEG", quality=shot.quality)
    return memory.getvalue()
