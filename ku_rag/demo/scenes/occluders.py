"""Things that stand before a flag: a branch, a lamp post, a sign, a hand, a person."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

FAR_OCCLUDERS = ("branch", "post", "sign")
OCCLUDERS = (*FAR_OCCLUDERS, "hand", "person")

_TRIES = 14


def hide(
    picture: Image.Image,
    cover: NDArray[np.float32],
    rng: np.random.Generator,
    kind: str,
    wanted: float,
) -> float:
    """Draw an occluder over the flag, in place, as large as it takes to hide `wanted` of it.

    Args:
        picture: RGB, with the flag in it.
        cover: how much of each pixel the flag covers, float32[height, width].
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
    total = float(cover.sum())
    low, high = 0.01, 1.0
    best, best_miss = (0.0, 0.0), math.inf
    for _ in range(_TRIES):
        size = (low + high) / 2
        layer = _draw(picture.size, np.random.default_rng(seed), kind, frame, size)
        alpha = np.asarray(layer.getchannel("A"), dtype=np.float32) / 255
        share = float((alpha * cover).sum()) / total
        if abs(share - wanted) < best_miss:
            best, best_miss = (size, share), abs(share - wanted)
        if best_miss < 0.01:
            break
        low, high = (size, high) if share < wanted else (low, size)
    layer = _draw(picture.size, np.random.default_rng(seed), kind, frame, best[0])
    picture.paste(layer.convert("RGB"), (0, 0), layer.getchannel("A"))
    return best[1]


def _draw(
    size: tuple[int, int],
    rng: np.random.Generator,
    kind: str,
    frame: tuple[float, float, float, float],
    amount: float,
) -> Image.Image:
    """A transparent picture with the occluder; a larger `amount` (0 to 1) hides more."""
    layer = Image.new("RGBA", size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(layer)
    _PAINTERS[kind](draw, rng, frame, amount)
    return layer


def _branch(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    frame: tuple[float, float, float, float],
    amount: float,
) -> None:
    x0, y0, x1, y1 = frame
    wide, tall = x1 - x0, y1 - y0
    reach = max(wide, tall)
    from_left = rng.random() < 0.5
    start = (x0 - 0.5 * reach if from_left else x1 + 0.5 * reach, y0 - 0.35 * reach)
    end = (x1 + 0.1 * wide if from_left else x0 - 0.1 * wide, y0 + rng.uniform(0.5, 1.0) * tall)
    bark, hue = (72, 54, 40, 255), rng.uniform(60, 130)
    draw.line((*start, *end), fill=bark, width=max(2, round(0.03 * reach)))
    # The order of the leaves is fixed, so that more of them always hide more.
    leaf = 0.035 * reach + 2
    for i in range(round(260 * amount)):
        t = rng.random()
        x = start[0] + t * (end[0] - start[0]) + rng.normal(0, 0.16 * reach)
        y = start[1] + t * (end[1] - start[1]) + rng.normal(0, 0.14 * reach)
        turn, long = rng.uniform(0, math.pi), leaf * rng.uniform(0.7, 1.5)
        ux, uy = math.cos(turn) * long, math.sin(turn) * long
        tone = rng.uniform(0.55, 1.15)
        colour = (round(hue * 0.55 * tone), round((hue + 25) * tone), round(40 * tone), 255)
        corners = [
            (x - ux, y - uy),
            (x - 0.45 * uy, y + 0.45 * ux),
            (x + ux, y + uy),
            (x + 0.45 * uy, y - 0.45 * ux),
        ]
        draw.polygon(corners, fill=colour)
        if i % 12 == 0:
            foot = (start[0] + t * (end[0] - start[0]), start[1] + t * (end[1] - start[1]))
            draw.line((*foot, x, y), fill=bark, width=max(1, round(0.012 * reach)))


def _post(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    frame: tuple[float, float, float, float],
    amount: float,
) -> None:
    x0, y0, x1, y1 = frame
    grey = int(rng.integers(35, 110))
    x, thick = x0 + rng.uniform(0.15, 0.85) * (x1 - x0), amount * (x1 - x0)
    lean = rng.uniform(-0.04, 0.04) * (y1 - y0)
    top = y0 - 2 * (y1 - y0) if rng.random() < 0.6 else -10
    bottom = 10_000
    for part, tone in ((1.0, 0.75), (0.6, 1.0), (0.25, 1.25)):
        half = thick * part / 2
        colour = tuple(round(min(255, grey * tone)) for _ in range(3))
        corners = [
            (x + lean - half, top),
            (x + lean + half, top),
            (x + half, bottom),
            (x - half, bottom),
        ]
        draw.polygon(corners, fill=(*colour, 255))
    draw.ellipse(
        (x + lean - thick, top - thick, x + lean + thick, top + 0.6 * thick),
        fill=(235, 230, 205, 255),
    )


def _sign(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    frame: tuple[float, float, float, float],
    amount: float,
) -> None:
    x0, y0, x1, y1 = frame
    wide, tall = x1 - x0, y1 - y0
    corner = int(rng.integers(4))
    half_w, half_h = 0.9 * wide * math.sqrt(amount), 0.9 * tall * math.sqrt(amount)
    x, y = (x0, x1)[corner % 2], (y0, y1)[corner // 2]
    plates = ((60, 90, 150), (238, 238, 232), (45, 110, 70), (230, 190, 40), (120, 85, 60))
    plate = plates[int(rng.integers(len(plates)))]
    ink = (245, 245, 245, 255) if sum(plate) < 420 else (40, 40, 44, 255)
    draw.rectangle((x - 3, y, x + 3, 10_000), fill=(105, 105, 108, 255))
    draw.rounded_rectangle((x - half_w, y - half_h, x + half_w, y + half_h), 4, fill=(*plate, 255))
    for i in range(3):
        line = y - half_h * 0.5 + i * half_h * 0.5
        long = half_w * rng.uniform(0.4, 0.8)
        draw.line((x - long, line, x + long, line), fill=ink, width=max(1, round(half_h * 0.14)))


def _hand(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    frame: tuple[float, float, float, float],
    amount: float,
) -> None:
    x0, y0, x1, y1 = frame
    wide, tall = x1 - x0, y1 - y0
    tones = ((236, 196, 166), (205, 155, 118), (150, 100, 70), (95, 62, 45))
    skin = tones[int(rng.integers(len(tones)))]
    size = amount * 1.5 * min(wide, tall)
    x = x0 + rng.uniform(0.1, 0.9) * wide
    base = y1 + 0.05 * tall
    palm = base - size * 0.45
    sleeve = tuple(int(v) for v in rng.integers(30, 200, 3))
    draw.rectangle(
        (x - 0.42 * size, palm + 0.55 * size, x + 0.42 * size, 10_000), fill=(*sleeve, 255)
    )
    draw.rounded_rectangle(
        (x - 0.38 * size, palm - 0.4 * size, x + 0.38 * size, palm + 0.8 * size),
        max(1, 0.2 * size),
        fill=(*skin, 255),
    )
    shade = tuple(round(v * 0.8) for v in skin)
    for i in range(4):
        fx = x + (i - 1.5) * 0.2 * size
        tip = palm - size * (0.95 + (0.12, 0.2, 0.17, 0.0)[i])
        draw.rounded_rectangle(
            (fx - 0.09 * size, tip, fx + 0.09 * size, palm),
            max(1, 0.09 * size),
            fill=(*skin, 255),
            outline=(*shade, 255),
        )
    draw.line(
        (x + 0.38 * size, palm + 0.3 * size, x + 0.66 * size, palm - 0.2 * size),
        fill=(*skin, 255),
        width=max(2, round(0.2 * size)),
    )


def _person(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    frame: tuple[float, float, float, float],
    amount: float,
) -> None:
    x0, y0, x1, y1 = frame
    wide, tall = x1 - x0, y1 - y0
    size = max(wide, tall) * (0.15 + 0.75 * amount)
    x = x0 + rng.uniform(0.0, 1.0) * wide
    head = y1 - amount * 1.25 * tall
    coat = tuple(int(v) for v in rng.integers(25, 170, 3))
    brown = int(rng.integers(15, 60))
    hair = (2 * brown, round(1.4 * brown), brown)
    r = 0.16 * size
    draw.rounded_rectangle(
        (x - 2 * r, head + 2.1 * r, x + 2 * r, 10_000), max(1, 1.2 * r), fill=(*coat, 255)
    )
    draw.rectangle((x - 0.5 * r, head + r, x + 0.5 * r, head + 2.6 * r), fill=(190, 145, 115, 255))
    draw.ellipse((x - r, head, x + r, head + 2.3 * r), fill=(*hair, 255))


_PAINTERS = {"branch": _branch, "post": _post, "sign": _sign, "hand": _hand, "person": _person}
