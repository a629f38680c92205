"""Places behind a flag: sky, landscape, street, facade and room, 640 by 480 pixels."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Pixels = NDArray[np.float32]
Colour = tuple[int, int, int]
Pen = ImageDraw.ImageDraw
Random = np.random.Generator

BACKDROPS = {"sky": 3, "landscape": 3, "street": 2, "facade": 2, "room": 2}
"""Kind of place → how often it is chosen, in twelfths."""
WIDTH, HEIGHT = 640, 480

_STONE = (230, 228, 220)


def make_backdrop(rng: Random, kind: str) -> Image.Image:
    """Draw one of `BACKDROPS`, RGB, without any flag."""
    return _PAINTERS[kind](rng)


def _noise(rng: Random, height: int, coarse: int = 4) -> Pixels:
    """Smooth noise with detail at five scales, -1 to 1, float32[height, WIDTH]."""
    total = np.zeros((height, WIDTH), dtype=np.float32)
    for scale in range(5):
        cells = coarse << scale
        grid = Image.fromarray(rng.standard_normal((cells, cells + cells // 3), dtype=np.float32))
        total += 0.55**scale * np.asarray(grid.resize((WIDTH, height), Image.Resampling.BICUBIC))
    total /= np.abs(total).max() + 1e-6
    return total


def _hsv(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def _random_colour(rng: Random, dull: float = 0.8) -> Colour:
    return _hsv(rng.random(), rng.uniform(0.05, dull), rng.uniform(0.2, 0.85))


def _shade(colour: Colour, factor: float) -> Colour:
    red, green, blue = (min(255, round(channel * factor)) for channel in colour)
    return red, green, blue


def _texture(image: Image.Image, rng: Random, top: int, amount: float) -> Image.Image:
    """Multiply everything below `top` by noise, as grass, plaster and asphalt look."""
    part = np.asarray(image.crop((0, top, WIDTH, HEIGHT)), dtype=np.float32)
    grain = rng.standard_normal(part.shape[:2], dtype=np.float32)
    factor = 1 + amount * (_noise(rng, HEIGHT - top, 6) + 0.35 * grain)
    lit = np.clip(part * factor[..., None], 0, 255).astype(np.uint8)
    image.paste(Image.fromarray(lit), (0, top))
    return image


def _sky(rng: Random) -> Image.Image:
    hue, depth = rng.uniform(0.55, 0.61), rng.uniform(0.15, 0.65)
    zenith = np.array(_hsv(hue, depth, rng.uniform(0.6, 0.95)), dtype=np.float32)
    horizon = np.array(_hsv(hue - 0.03, depth * 0.3, 0.95), dtype=np.float32)
    down = np.linspace(0, 1, HEIGHT, dtype=np.float32)[:, None, None]
    clouds = 0.85 * np.clip(_noise(rng, HEIGHT) * 2.2 + rng.uniform(-0.8, 0.9), 0, 1)[..., None]
    sky = (zenith * (1 - down) + horizon * down) * (1 - clouds) + rng.uniform(200, 250) * clouds
    return Image.fromarray(np.clip(sky, 0, 255).astype(np.uint8))


def _tree(pen: Pen, rng: Random, x: float, y: float, size: float) -> None:
    leaf = _hsv(rng.uniform(0.2, 0.38), rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.5))
    pen.rectangle((x - size * 0.04, y - size * 0.5, x + size * 0.04, y), fill=(70, 52, 38))
    for _ in range(14):
        dx, dy = rng.normal(0, 0.17 * size), rng.normal(-0.68 * size, 0.15 * size)
        radius = size * rng.uniform(0.08, 0.17)
        pen.circle((x + dx, y + dy), radius, fill=_shade(leaf, rng.uniform(0.75, 1.3)))


def _landscape(rng: Random) -> Image.Image:
    image = _sky(rng)
    pen = ImageDraw.Draw(image)
    horizon = HEIGHT * rng.uniform(0.45, 0.7)
    ground = np.array(_hsv(rng.uniform(0.1, 0.6), rng.uniform(0.25, 0.6), rng.uniform(0.35, 0.65)))
    haze = np.array([140, 152, 164])
    ridges = int(rng.integers(2, 5))
    for near in np.linspace(1 / ridges, 1, ridges):
        red, green, blue = (round(v) for v in haze * (1 - near) + ground * (0.2 + 0.8 * near))
        line = horizon - HEIGHT * (0.12 * (1 - near) + 0.09 * (1.3 - near) * _noise(rng, 1)[0])
        skyline = [(float(x), float(y)) for x, y in enumerate(line)]
        pen.polygon([*skyline, (WIDTH, HEIGHT), (0, HEIGHT)], fill=(red, green, blue))
    _texture(image, rng, int(horizon), 0.16)
    for _ in range(int(rng.integers(0, 9))):
        depth = rng.uniform(0.05, 0.6) ** 1.5
        foot = horizon + (HEIGHT - horizon) * depth
        _tree(pen, rng, rng.uniform(0, WIDTH), foot, HEIGHT * (0.06 + 0.5 * depth))
    return image


def _windows(pen: Pen, rng: Random, box: tuple[float, float, float, float], cell: float) -> None:
    """Rows of windows, one in each `cell` pixels."""
    left, top, right, bottom = box
    frame = _STONE if rng.random() < 0.65 else (60, 50, 45)
    glass = _hsv(rng.uniform(0.5, 0.65), rng.uniform(0.1, 0.4), rng.uniform(0.2, 0.5))
    columns, rows = max(1, int((right - left) / cell)), max(1, int((bottom - top) / cell / 1.3))
    across, down = (right - left) / columns, (bottom - top) / rows
    for row in range(rows):
        for column in range(columns):
            x, y = left + (column + 0.25) * across, top + (row + 0.2) * down
            x1, y1 = x + 0.5 * across, y + 0.6 * down
            lit = _shade(glass, rng.uniform(0.7, 1.5))
            pen.rectangle((x - 2, y - 2, x1 + 2, y1 + 2), fill=lit, outline=frame, width=3)
            pen.line(((x + x1) / 2, y, (x + x1) / 2, y1), fill=frame, width=2)


def _street(rng: Random) -> Image.Image:
    image = _sky(rng)
    pen = ImageDraw.Draw(image)
    ground = HEIGHT * rng.uniform(0.72, 0.85)
    x = -rng.uniform(0, 60)
    while x < WIDTH:
        wide, top = rng.uniform(70, 190), ground - rng.uniform(0.25, 0.75) * HEIGHT
        wall = _hsv(rng.choice([0.02, 0.07, 0.12, 0.3, 0.6]), rng.uniform(0.05, 0.5),
                    rng.uniform(0.4, 0.9))  # fmt: skip
        pen.rectangle((x, top, x + wide, ground), fill=wall)
        if rng.random() < 0.5:
            roof = _hsv(rng.uniform(0, 0.08), rng.uniform(0.1, 0.6), rng.uniform(0.25, 0.5))
            pen.polygon([(x - 4, top), (x + wide + 4, top), (x + wide / 2, top - 40)], fill=roof)
        _windows(pen, rng, (x + 6, top + 8, x + wide - 6, ground - 42), rng.uniform(28, 44))
        pen.rectangle((x + 6, ground - 40, x + wide - 6, ground - 28), fill=_random_colour(rng))
        x += wide
    road = round(rng.uniform(70, 130))
    pen.rectangle((0, ground, WIDTH, HEIGHT), fill=(road, road, road + 4))
    _texture(image, rng, int(ground - HEIGHT * 0.5), 0.08)
    for _ in range(int(rng.integers(0, 4))):
        car, size = _random_colour(rng), rng.uniform(35, 75)
        x, y = rng.uniform(0, WIDTH), rng.uniform(ground + 20, HEIGHT - 5)
        for left, top, right, bottom, shade in ((-1, 0.42, 1, 0, 1.0), (-0.6, 0.72, 0.5, 0.3, 0.6)):
            body = (x + left * size, y - top * size, x + right * size, y - bottom * size)
            pen.rounded_rectangle(body, 8, fill=_shade(car, shade))
        for wheel in (-0.6, 0.6):
            pen.circle((x + wheel * size, y), 8, fill=(25, 25, 27))
    for _ in range(int(rng.integers(0, 3))):
        _tree(pen, rng, rng.uniform(0, WIDTH), ground + 12, rng.uniform(100, 190))
    return image


def _facade(rng: Random) -> Image.Image:
    wall = _hsv(rng.uniform(0.0, 0.14), rng.uniform(0.03, 0.5), rng.uniform(0.45, 0.9))
    image = Image.new("RGB", (WIDTH, HEIGHT), wall)
    pen = ImageDraw.Draw(image)
    if rng.random() < 0.6:
        brick, mortar = int(rng.integers(9, 18)), _shade(wall, rng.choice([0.8, 1.15]))
        for row, y in enumerate(range(0, HEIGHT, brick)):
            pen.line((0, y, WIDTH, y), fill=mortar, width=2)
            for x in range(row % 2 * brick * 3 // 2, WIDTH, brick * 3):
                pen.line((x, y, x, y + brick), fill=mortar, width=2)
    _windows(pen, rng, (-20, -30, WIDTH + 20, HEIGHT + 30), rng.uniform(110, 200))
    return _texture(image, rng, 0, 0.09)


def _room(rng: Random) -> Image.Image:
    wall = _hsv(rng.random(), rng.uniform(0.02, 0.25), rng.uniform(0.55, 0.92))
    image = Image.new("RGB", (WIDTH, HEIGHT), wall)
    pen = ImageDraw.Draw(image)
    floor = HEIGHT * rng.uniform(0.75, 0.9)
    pen.rectangle((0, floor, WIDTH, HEIGHT), fill=_hsv(0.07, 0.45, rng.uniform(0.3, 0.6)))
    pen.rectangle((0, floor - 8, WIDTH, floor), fill=_STONE)
    for _ in range(int(rng.integers(1, 4))):  # shelves of books
        x, y, wide = rng.uniform(-40, 560), rng.uniform(60, floor - 90), rng.uniform(80, 220)
        pen.rectangle((x - 6, y, x + wide + 12, y + 7), fill=_hsv(0.07, 0.5, 0.4))
        book = x
        while book < x + wide:
            thick = rng.uniform(6, 18)
            back = (book, y - rng.uniform(34, 62), book + thick, y)
            pen.rectangle(back, fill=_random_colour(rng))
            book += thick + 1
    if rng.random() < 0.6:
        sofa, x, wide = _random_colour(rng, 0.6), rng.uniform(-60, 380), rng.uniform(180, 300)
        pen.rounded_rectangle((x, floor - 90, x + wide, floor), 22, fill=_shade(sofa, 0.85))
        pen.rounded_rectangle((x - 15, floor - 50, x + wide + 15, floor + 20), 18, fill=sofa)
    return _texture(image, rng, 0, 0.04)


_PAINTERS = {
    "sky": _sky, "landscape": _landscape, "street": _street, "facade": _facade, "room": _room,
}  # fmt: skip
