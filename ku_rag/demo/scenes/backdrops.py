"""Places where a flag may be seen: sky, landscape, sea, street, facade, room; all drawn by code."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Pixels = NDArray[np.float32]
Colour = tuple[int, int, int]

BACKDROPS = ("sky", "landscape", "sea", "street", "facade", "room")


def cloud_noise(rng: np.random.Generator, width: int, height: int, coarse: int = 4) -> Pixels:
    """Smooth noise with detail at several scales, about -1 to 1, float32[height, width]."""
    small_w, small_h = max(8, width // 4), max(8, height // 4)
    total = np.zeros((small_h, small_w), dtype=np.float32)
    weight, cells = 1.0, coarse
    for _ in range(5):
        grid = rng.standard_normal((cells, cells + cells // 3), dtype=np.float32)
        layer = Image.fromarray(grid).resize((small_w, small_h), Image.Resampling.BICUBIC)
        total += weight * np.asarray(layer)
        weight, cells = weight * 0.55, cells * 2
    total /= float(np.abs(total).max()) + 1e-6
    big = Image.fromarray(total).resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(big)


def make_backdrop(rng: np.random.Generator, kind: str, width: int, height: int) -> Image.Image:
    """Draw one of `BACKDROPS`, RGB, without any flag."""
    # Houses, leaves and books are measured for this size.
    picture = _PAINTERS[kind](rng, 640, 480)
    return picture if picture.size == (width, height) else picture.resize((width, height))


def _hsv(hue: float, saturation: float, value: float) -> Colour:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def _shade(colour: Colour, factor: float) -> Colour:
    red, green, blue = (min(255, max(0, round(c * factor))) for c in colour)
    return red, green, blue


def _textured(image: Image.Image, rng: np.random.Generator, top: int, amount: float) -> Image.Image:
    """Multiply everything below `top` by noise: grass, plaster, asphalt."""
    width, height = image.size
    if top >= height:
        return image
    part = np.asarray(image.crop((0, top, width, height)), dtype=np.float32)
    grain = rng.standard_normal((height - top, width), dtype=np.float32)
    field = 1 + amount * (cloud_noise(rng, width, height - top, 6) + 0.35 * grain)
    image.paste(
        Image.fromarray(np.clip(part * field[..., None], 0, 255).astype(np.uint8)), (0, top)
    )
    return image


def _sky(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    hue, depth = rng.uniform(0.55, 0.61), rng.uniform(0.15, 0.65)
    zenith = np.array(_hsv(hue, depth, rng.uniform(0.6, 0.95)), dtype=np.float32)
    low = np.array(_hsv(hue - rng.uniform(0, 0.06), depth * 0.3, 0.95), dtype=np.float32)
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    sky = zenith * (1 - down) + low * down
    cover = np.clip(cloud_noise(rng, width, height) * 2.2 + rng.uniform(-0.8, 0.9), 0, 1)
    cloud = np.float32(rng.uniform(200, 250))
    mixed = sky * (1 - 0.85 * cover[..., None]) + cloud * 0.85 * cover[..., None]
    return Image.fromarray(np.clip(mixed, 0, 255).astype(np.uint8))


def _ridge(
    rng: np.random.Generator, width: int, base: float, relief: float, rough: int
) -> list[tuple[float, float]]:
    """A skyline of hills from the left edge to the right."""
    steps = np.linspace(0, 1, 80)
    line = np.zeros_like(steps)
    for i in range(1, rough + 1):
        line += np.sin(2 * np.pi * (i * steps * rng.uniform(0.5, 1.2) + rng.random())) / i
    return [(float(x * width), float(base - relief * y)) for x, y in zip(steps, line, strict=True)]


def _tree(
    draw: ImageDraw.ImageDraw, rng: np.random.Generator, x: float, y: float, size: float
) -> None:
    leaf = _hsv(rng.uniform(0.2, 0.38), rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.5))
    draw.rectangle((x - size * 0.04, y - size * 0.5, x + size * 0.04, y), fill=(70, 52, 38))
    for _ in range(14):
        dx, dy = rng.normal(0, 0.17 * size), -0.68 * size + rng.normal(0, 0.15 * size)
        r = size * rng.uniform(0.08, 0.17)
        box = (x + dx - r, y + dy - r, x + dx + r, y + dy + r)
        draw.ellipse(box, fill=_shade(leaf, rng.uniform(0.75, 1.3)))


def _landscape(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    image = _sky(rng, width, height)
    draw = ImageDraw.Draw(image)
    horizon = height * rng.uniform(0.45, 0.7)
    layers = int(rng.integers(2, 5))
    ground = _hsv(rng.uniform(0.1, 0.36), rng.uniform(0.25, 0.6), rng.uniform(0.35, 0.65))
    haze = np.array([175, 190, 205])
    for i in range(layers):
        near = (i + 1) / layers
        base = horizon - height * 0.12 * (1 - near)
        mixed = tuple(
            int(v) for v in haze * (1 - near) * 0.8 + np.array(ground) * (0.2 + 0.8 * near)
        )
        line = _ridge(rng, width, base, height * 0.07 * (1.3 - near), 5)
        draw.polygon([*line, (width, height), (0, height)], fill=(mixed[0], mixed[1], mixed[2]))
    if rng.random() < 0.5:  # a path towards the horizon
        foot, far = rng.uniform(0.1, 0.9) * width, rng.uniform(0.3, 0.7) * width
        path = _hsv(0.1, 0.2, rng.uniform(0.5, 0.75))
        top = horizon + height * 0.06
        corners = [(foot - 60, height), (foot + 60, height), (far + 3, top), (far - 3, top)]
        draw.polygon(corners, fill=path)
    _textured(image, rng, int(horizon - height * 0.02), 0.16)
    for _ in range(int(rng.integers(0, 9))):
        depth = rng.uniform(0.05, 0.6) ** 1.5
        y = horizon + (height - horizon) * depth
        _tree(draw, rng, rng.uniform(0, width), y, height * (0.06 + 0.5 * depth))
    return image


def _sea(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    image = _sky(rng, width, height)
    horizon = int(height * rng.uniform(0.45, 0.7))
    draw = ImageDraw.Draw(image)
    water = _hsv(rng.uniform(0.48, 0.6), rng.uniform(0.25, 0.7), rng.uniform(0.3, 0.6))
    draw.rectangle((0, horizon, width, height), fill=water)
    rows = height - horizon
    depth = np.linspace(0.1, 1, rows, dtype=np.float32)[:, None]
    ripple = rng.standard_normal((rows, width // 16 + 1), dtype=np.float32)
    wide = np.asarray(Image.fromarray(ripple).resize((width, rows), Image.Resampling.BICUBIC))
    part = np.asarray(image.crop((0, horizon, width, height)), dtype=np.float32)
    lit = np.clip(
        part * (0.85 + 0.25 * depth[..., None]) * (1 + 0.13 * wide * depth)[..., None], 0, 255
    )
    image.paste(Image.fromarray(lit.astype(np.uint8)), (0, horizon))
    if rng.random() < 0.6:
        line = _ridge(rng, width, horizon - 2, height * 0.03, 4)
        draw.polygon([*line, (width, horizon), (0, horizon)], fill=_hsv(0.5, 0.15, 0.5))
    for _ in range(int(rng.integers(0, 4))):
        x, y, size = rng.uniform(0, width), rng.uniform(horizon, height), rng.uniform(12, 45)
        hull = _hsv(rng.random(), rng.uniform(0, 0.7), rng.uniform(0.3, 0.9))
        draw.polygon(
            [
                (x - size, y - size * 0.3),
                (x + size, y - size * 0.3),
                (x + size * 0.6, y),
                (x - size * 0.6, y),
            ],
            fill=hull,
        )
        draw.polygon(
            [(x, y - size * 0.35), (x, y - size * 1.7), (x + size * 0.8, y - size * 0.4)],
            fill=(235, 235, 228),
        )
    return image


def _windows(
    draw: ImageDraw.ImageDraw,
    rng: np.random.Generator,
    box: tuple[float, float, float, float],
    cell: tuple[float, float],
    frame: Colour,
) -> None:
    left, top, right, bottom = box
    glass = _hsv(rng.uniform(0.5, 0.65), rng.uniform(0.1, 0.4), rng.uniform(0.2, 0.5))
    columns, rows = max(1, int((right - left) / cell[0])), max(1, int((bottom - top) / cell[1]))
    step_x, step_y = (right - left) / columns, (bottom - top) / rows
    for row in range(rows):
        for column in range(columns):
            x, y = left + (column + 0.25) * step_x, top + (row + 0.2) * step_y
            x1, y1 = x + step_x * 0.5, y + step_y * 0.6
            draw.rectangle((x - 2, y - 2, x1 + 2, y1 + 2), fill=frame)
            draw.rectangle((x, y, x1, y1), fill=_shade(glass, rng.uniform(0.7, 1.5)))
            draw.line(((x + x1) / 2, y, (x + x1) / 2, y1), fill=frame, width=2)


def _street(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    image = _sky(rng, width, height)
    draw = ImageDraw.Draw(image)
    ground = height * rng.uniform(0.72, 0.85)
    x = -rng.uniform(0, 60)
    while x < width:
        wide, tall = rng.uniform(70, 190), rng.uniform(0.25, 0.75) * height
        wall = _hsv(rng.choice([0.02, 0.06, 0.1, 0.12, 0.6, 0.3]) + rng.uniform(-0.02, 0.02),
                    rng.uniform(0.05, 0.5), rng.uniform(0.4, 0.9))  # fmt: skip
        top = ground - tall
        draw.rectangle((x, top, x + wide, ground), fill=wall)
        if rng.random() < 0.5:
            roof = _hsv(rng.uniform(0, 0.08), rng.uniform(0.1, 0.6), rng.uniform(0.25, 0.5))
            draw.polygon(
                [
                    (x - 4, top),
                    (x + wide + 4, top),
                    (x + wide * 0.8, top - 35),
                    (x + wide * 0.2, top - 35),
                ],
                fill=roof,
            )
        frame = (225, 222, 214) if rng.random() < 0.6 else _shade(wall, 0.6)
        _windows(
            draw,
            rng,
            (x + 6, top + 8, x + wide - 6, ground - 42),
            (rng.uniform(28, 44), rng.uniform(38, 56)),
            frame,
        )
        awning = _hsv(rng.random(), rng.uniform(0.2, 0.8), rng.uniform(0.3, 0.8))
        draw.rectangle((x + 8, ground - 38, x + wide - 8, ground), fill=_shade(wall, 0.5))
        draw.rectangle((x + 6, ground - 40, x + wide - 6, ground - 30), fill=awning)
        x += wide
    road = round(rng.uniform(70, 130))
    draw.rectangle((0, ground, width, height), fill=(road + 40, road + 38, road + 34))
    draw.rectangle(
        (0, ground + (height - ground) * 0.25, width, height), fill=(road, road, road + 4)
    )
    _textured(image, rng, int(ground - height * 0.5), 0.08)
    for _ in range(int(rng.integers(0, 4))):
        car, size = (
            _hsv(rng.random(), rng.uniform(0, 0.8), rng.uniform(0.15, 0.85)),
            rng.uniform(35, 75),
        )
        x, y = rng.uniform(0, width), rng.uniform(ground + 20, height - 5)
        draw.rounded_rectangle((x - size, y - size * 0.42, x + size, y), 8, fill=car)
        draw.rounded_rectangle(
            (x - size * 0.6, y - size * 0.72, x + size * 0.5, y - size * 0.3),
            9,
            fill=_shade(car, 0.6),
        )
        for side in (-0.6, 0.6):
            wheel = (x + side * size - 8, y - 9, x + side * size + 8, y + 7)
            draw.ellipse(wheel, fill=(25, 25, 27))
    for _ in range(int(rng.integers(0, 3))):
        _tree(draw, rng, rng.uniform(0, width), ground + 12, rng.uniform(100, 190))
    return image


def _facade(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    wall = _hsv(rng.uniform(0.0, 0.14), rng.uniform(0.03, 0.5), rng.uniform(0.45, 0.9))
    image = Image.new("RGB", (width, height), wall)
    draw = ImageDraw.Draw(image)
    if rng.random() < 0.6:
        brick_h, mortar = int(rng.integers(9, 18)), _shade(wall, rng.choice([0.8, 1.15]))
        brick_w = brick_h * 3
        for row, y in enumerate(range(0, height, brick_h)):
            draw.line((0, y, width, y), fill=mortar, width=2)
            for x in range((row % 2) * brick_w // 2, width, brick_w):
                draw.line((x, y, x, y + brick_h), fill=mortar, width=2)
    frame = (230, 228, 220) if rng.random() < 0.7 else (60, 50, 45)
    _windows(
        draw,
        rng,
        (-20, -30, width + 20, height + 30),
        (rng.uniform(110, 220), rng.uniform(150, 240)),
        frame,
    )
    return _textured(image, rng, 0, 0.09)


def _room(rng: np.random.Generator, width: int, height: int) -> Image.Image:
    wall = _hsv(rng.random(), rng.uniform(0.02, 0.25), rng.uniform(0.55, 0.92))
    image = Image.new("RGB", (width, height), wall)
    draw = ImageDraw.Draw(image)
    floor = height * rng.uniform(0.75, 0.9)
    draw.rectangle(
        (0, floor, width, height), fill=_hsv(rng.uniform(0.04, 0.1), 0.45, rng.uniform(0.3, 0.6))
    )
    draw.rectangle((0, floor - 8, width, floor), fill=(232, 230, 225))
    for _ in range(int(rng.integers(1, 4))):  # shelves of books
        x, y, wide = rng.uniform(-40, width - 80), rng.uniform(40, floor - 90), rng.uniform(80, 220)
        board = _hsv(0.07, 0.5, rng.uniform(0.25, 0.6))
        book = x
        while book < x + wide:
            thick, tall = rng.uniform(6, 18), rng.uniform(34, 62)
            cover = _hsv(rng.random(), rng.uniform(0.1, 0.8), rng.uniform(0.2, 0.85))
            draw.rectangle((book, y - tall, book + thick, y), fill=cover)
            book += thick + 1
        draw.rectangle((x - 6, y, x + wide + 12, y + 7), fill=board)
    for _ in range(int(rng.integers(0, 3))):  # framed pictures without content
        x, y, wide, tall = (
            rng.uniform(0, width - 90),
            rng.uniform(10, floor * 0.4),
            rng.uniform(50, 110),
            rng.uniform(50, 110),
        )
        draw.rectangle((x, y, x + wide, y + tall), fill=_hsv(0.08, 0.5, rng.uniform(0.2, 0.5)))
        inner = _hsv(rng.random(), rng.uniform(0.05, 0.35), rng.uniform(0.5, 0.9))
        draw.rectangle((x + 8, y + 8, x + wide - 8, y + tall - 8), fill=inner)
    if rng.random() < 0.6:
        sofa = _hsv(rng.random(), rng.uniform(0.1, 0.6), rng.uniform(0.2, 0.7))
        x, wide = rng.uniform(-60, width * 0.6), rng.uniform(180, 300)
        draw.rounded_rectangle((x, floor - 90, x + wide, floor - 10), 22, fill=_shade(sofa, 0.85))
        draw.rounded_rectangle((x - 15, floor - 50, x + wide + 15, floor + 20), 18, fill=sofa)
    pixels = np.asarray(_textured(image, rng, 0, 0.04), dtype=np.float32)
    across, down = np.meshgrid(np.linspace(-1, 1, width), np.linspace(-1, 1, height))
    light = 1 - 0.28 * np.clip(np.hypot(across - rng.uniform(-1, 1), down + 0.6) - 0.3, 0, 1.6)
    return Image.fromarray(np.clip(pixels * light[..., None], 0, 255).astype(np.uint8))


_PAINTERS = {
    "sky": _sky,
    "landscape": _landscape,
    "sea": _sea,
    "street": _street,
    "facade": _facade,
    "room": _room,
}
