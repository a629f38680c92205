"""Drawn pictures of shapes on cluttered backgrounds, with the true mask of each shape.

The small segmentation model beside this file was trained on such pictures (train_shapes.py); tests
and benchmarks draw other pictures from other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

KINDS = ("ellipse", "box", "triangle", "star")
_FINER = 3
"""Factor by which shapes are drawn larger and then scaled down, for smooth edges."""

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """How a shape is painted: one look is the same thing at every size and position."""

    kind: str
    pattern: str
    colours: tuple[Colour, Colour]
    aspect: float
    turn: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """A shape in a picture.

    Args:
        look: how it is painted.
        outline: float64[n, 2], corners in pixels.
        mask: bool[height, width], the pixels of the shape, in the size of the picture.
    """

    look: Look
    outline: NDArray[np.float64]
    mask: NDArray[np.bool_]

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Pixels (x0, y0, x1, y1), x1 and y1 exclusive."""
        ys, xs = np.nonzero(self.mask)
        return int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1


def random_look(random: np.random.Generator) -> Look:
    """A random look: a kind, two colours that differ clearly, a pattern."""
    first = random.integers(0, 256, 3)
    second = random.integers(0, 256, 3)
    while np.abs(first - second).max() < 90:
        second = random.integers(0, 256, 3)
    return Look(
        kind=KINDS[random.integers(len(KINDS))],
        pattern=("plain", "stripes", "checks", "rings")[random.integers(4)],
        colours=(_colour(first), _colour(second)),
        aspect=float(random.uniform(0.7, 1.4)),
        turn=float(random.uniform(0, 2 * np.pi)),
    )


def scene(
    random: np.random.Generator,
    size: tuple[int, int] = (192, 192),
    looks: list[Look] | None = None,
    sides: tuple[float, float] = (0.15, 0.5),
) -> tuple[Image.Image, list[Drawn]]:
    """A picture of one to five shapes that hardly overlap.

    Args:
        random: source of every random choice.
        size: width and height in pixels.
        looks: the shapes to draw; a shape that does not fit is omitted. None: random looks.
        sides: bounds of a shape's diameter, as fractions of the shorter side.
    """
    if looks is None:
        looks = [random_look(random) for _ in range(random.integers(1, 6))]
    image = _ground(random, size)
    covered = np.zeros((size[1], size[0]), bool)
    drawn = []
    for look in looks:
        for _ in range(12):
            radius = random.uniform(*sides) * min(size) / 2
            middle = np.array([random.uniform(radius * 0.6, side - radius * 0.6) for side in size])
            shape = Drawn(look, outline := _outline(look, radius) + middle, _mask(outline, size))
            if (shape.mask & covered).sum() < 0.04 * shape.mask.sum():
                image.paste(_paint(look, outline, size), mask=_smooth(outline, size))
                covered |= shape.mask
                drawn.append(shape)
                break
    noise = random.normal(0, random.uniform(0, 8), (size[1], size[0], 3))
    pixels = np.clip(np.asarray(image, np.float64) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels), drawn


def alone(look: Look, side: int = 160) -> Image.Image:
    """A picture of one shape on white, as in a shop or a book."""
    size = (side, side)
    outline = _outline(look, side * 0.42)
    outline += (np.array(size) - outline.max(0) - outline.min(0)) / 2
    image = Image.new("RGB", size, "white")
    image.paste(_paint(look, outline, size), mask=_smooth(outline, size))
    return image


# ---- painting ----------------------------------------------------------------------------------


def _colour(values: NDArray[np.int64]) -> Colour:
    red, green, blue = (int(value) for value in values)
    return red, green, blue


def _outline(look: Look, radius: float) -> NDArray[np.float64]:
    """Corners of the shape, centred on (0, 0)."""
    angles, radii = {
        "ellipse": (np.linspace(0, 2 * np.pi, 40, endpoint=False), np.ones(40)),
        "box": (np.pi / 4 + np.arange(4) * np.pi / 2, np.ones(4)),
        "triangle": (np.arange(3) * 2 * np.pi / 3, np.ones(3)),
        "star": (np.arange(10) * np.pi / 5, np.tile([1.0, 0.45], 5)),
    }[look.kind]
    corners = np.stack([np.cos(angles), np.sin(angles)], 1) * radii[:, None] * radius
    corners[:, 1] *= min(look.aspect, 1 / look.aspect)
    cos, sin = np.cos(look.turn), np.sin(look.turn)
    turned: NDArray[np.float64] = corners @ np.array([[cos, sin], [-sin, cos]])
    return turned


def _mask(outline: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.bool_]:
    return np.asarray(_smooth(outline, size)) > 127


def _smooth(outline: NDArray[np.float64], size: tuple[int, int]) -> Image.Image:
    fine = Image.new("L", (size[0] * _FINER, size[1] * _FINER))
    ImageDraw.Draw(fine).polygon([tuple(p) for p in (outline * _FINER).tolist()], fill=255)
    return fine.resize(size, Image.Resampling.BOX)


def _paint(look: Look, outline: NDArray[np.float64], size: tuple[int, int]) -> Image.Image:
    """A picture filled with the pattern, which is rotated and scaled with the shape."""
    middle = outline.mean(0)
    radius = np.linalg.norm(outline - middle, axis=1).max()
    across, down = np.meshgrid(np.arange(size[0]) - middle[0], np.arange(size[1]) - middle[1])
    cos, sin = np.cos(look.turn), np.sin(look.turn)
    along, aside = (across * cos + down * sin) / radius, (down * cos - across * sin) / radius
    second = {
        "plain": np.zeros_like(along, bool),
        "stripes": np.floor(along * 3) % 2 == 0,
        "checks": (np.floor(along * 2) + np.floor(aside * 2)) % 2 == 0,
        "rings": np.floor(np.hypot(along, aside) * 4) % 2 == 0,
    }[look.pattern]
    pixels = np.where(second[..., None], look.colours[1], look.colours[0]).astype(np.uint8)
    return Image.fromarray(pixels)


def _ground(random: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """Blurred blotches of a few colours, with some thin lines."""
    cells = random.integers(0, 256, (random.integers(1, 5), random.integers(1, 5), 3))
    calm = random.uniform(0.1, 0.6)
    cells = cells * calm + cells.mean((0, 1)) * (1 - calm)
    image = Image.fromarray(cells.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)
    image = image.filter(ImageFilter.GaussianBlur(2))
    pen = ImageDraw.Draw(image)
    for _ in range(random.integers(0, 8)):
        ends = [(random.uniform(0, size[0]), random.uniform(0, size[1])) for _ in range(2)]
        pen.line(ends, fill=_colour(random.integers(0, 256, 3)), width=int(random.integers(1, 3)))
    return image
