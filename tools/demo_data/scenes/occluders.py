"""Things in front of a flag: a branch, a lamp post, a person."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

FAR_OCCLUDERS = ("branch", "post")
OCCLUDERS = (*FAR_OCCLUDERS, "person")

_TRIES = 14
_BELOW = 10_000
"""A y below every picture, for things that stand on the ground."""
Frame = tuple[float, float, float, float]
Pen = ImageDraw.ImageDraw
Random = np.random.Generator


def hide(
    picture: Image.Image,
    cover: NDArray[np.float64],
    rng: Random,
    kind: str,
    wanted: float,
) -> float:
    """Draw an occluder over a flag, in place, in the size that hides `wanted` of it.

    Args:
        picture: RGB, with the flag in it.
        cover: how much of each pixel the flag covers, float64[height, width].
        rng: decides the shape.
        kind: one of `OCCLUDERS`.
        wanted: share of the flag's pixels to hide, 0.1 to 0.4.

    Returns:
        The share that is hidden, measured.
    """
    seed = int(rng.integers(1 << 32))
    rows, columns = np.nonzero(cover > 0.5)
    frame = (
        float(columns.min()), float(rows.min()), float(columns.max()), float(rows.max())
    )  # fmt: skip
    low, high = 0.01, 1.0
    tried: list[tuple[float, float, Image.Image]] = []
    for _ in range(_TRIES):
        amount = (low + high) / 2
        layer = Image.new("RGBA", picture.size, (0, 0, 0, 0))
        _PAINTERS[kind](ImageDraw.Draw(layer), np.random.default_rng(seed), frame, amount)
        alpha = np.asarray(layer.getchannel("A"), dtype=np.float32) / 255
        share = float((alpha * cover).sum() / cover.sum())
        tried.append((abs(share - wanted), share, layer))
        if abs(share - wanted) < 0.01:
            break
        low, high = (amount, high) if share < wanted else (low, amount)
    _, share, layer = min(tried, key=lambda one: one[0])
    picture.paste(layer.convert("RGB"), (0, 0), layer.getchannel("A"))
    return share


def _branch(pen: Pen, rng: Random, frame: Frame, amount: float) -> None:
    x0, y0, x1, y1 = frame
    reach = max(x1 - x0, y1 - y0)
    foot = np.array([rng.choice([x0 - 0.5 * reach, x1 + 0.5 * reach]), y0 - 0.35 * reach])
    tip = np.array([x0 + x1 - foot[0], y0 + rng.uniform(0.5, 1.0) * (y1 - y0)])
    pen.line((*foot, *tip), fill=(72, 54, 40), width=max(2, round(0.03 * reach)))
    hue = rng.uniform(60, 130)
    # The order of the leaves is fixed, so that more of them always hide more.
    for _ in range(round(260 * amount)):
        x, y = foot + rng.random() * (tip - foot) + rng.normal(0, 0.15 * reach, 2)
        turn, long = rng.uniform(0, math.pi), (0.035 * reach + 2) * rng.uniform(0.7, 1.5)
        dx, dy = math.cos(turn) * long, math.sin(turn) * long
        tone = rng.uniform(0.55, 1.15)
        colour = (round(hue * 0.55 * tone), round((hue + 25) * tone), round(40 * tone))
        corners = [(x - dx, y - dy), (x - 0.45 * dy, y + 0.45 * dx)]
        pen.polygon([*corners, (x + dx, y + dy), (x + 0.45 * dy, y - 0.45 * dx)], fill=colour)


def _post(pen: Pen, rng: Random, frame: Frame, amount: float) -> None:
    x0, y0, x1, y1 = frame
    grey, thick = int(rng.integers(35, 110)), amount * (x1 - x0)
    x, lean = x0 + rng.uniform(0.15, 0.85) * (x1 - x0), rng.uniform(-0.04, 0.04) * (y1 - y0)
    top = y0 - 2 * (y1 - y0) if rng.random() < 0.6 else -10
    for part, tone in ((0.5, 0.75), (0.3, 1.0), (0.12, 1.25)):
        half, shade = thick * part, round(grey * tone)
        corners = [(x + lean - half, top), (x + lean + half, top)]
        pen.polygon([*corners, (x + half, _BELOW), (x - half, _BELOW)], fill=(shade, shade, shade))
    pen.circle((x + lean, top), thick, fill=(235, 230, 205))


def _person(pen: Pen, rng: Random, frame: Frame, amount: float) -> None:
    x0, y0, x1, y1 = frame
    size = 0.16 * max(x1 - x0, y1 - y0) * (0.15 + 0.75 * amount)
    x, head = x0 + rng.random() * (x1 - x0), y1 - amount * 1.25 * (y1 - y0)
    red, green, blue = (int(v) for v in rng.integers(25, 170, 3))
    shoulders = (x - 2 * size, head + 2.1 * size, x + 2 * size, _BELOW)
    pen.rounded_rectangle(shoulders, max(1, 1.2 * size), fill=(red, green, blue))
    neck = (x - 0.5 * size, head + size, x + 0.5 * size, head + 2.6 * size)
    pen.rectangle(neck, fill=(190, 145, 115))
    brown = int(rng.integers(15, 60))
    hair = (2 * brown, round(1.4 * brown), brown)
    pen.ellipse((x - size, head, x + size, head + 2.3 * size), fill=hair)


_PAINTERS = {"branch": _branch, "post": _post, "person": _person}
