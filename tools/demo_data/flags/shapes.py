"""Shapes that flags are composed of, measured in the units of a flag law, not in pixels.

The origin is the top left corner (at the hoist). A shape is a function that draws itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from PIL import Image, ImageDraw

Point = tuple[float, float]


class Canvas:
    """A picture of a flag.

    Args:
        width: of the flag, in units.
        height: of the flag, in units.
        size: of the picture, in pixels.
    """

    def __init__(self, width: float, height: float, size: tuple[int, int]) -> None:
        self.width, self.height = width, height
        self.image = Image.new("RGB", size, "white")
        self.pen = ImageDraw.Draw(self.image)

    def pixel(self, x: float, y: float) -> Point:
        """Turn units into pixels."""
        return x * self.image.width / self.width, y * self.image.height / self.height

    def square(self, x: float, y: float, half: float) -> tuple[float, float, float, float]:
        """Turn a square around (x, y) into pixels: left, top, right, bottom."""
        return *self.pixel(x - half, y - half), *self.pixel(x + half, y + half)


Shape = Callable[[Canvas], None]


@dataclass(frozen=True, slots=True)
class Design:
    """A flag: its size in units of its own choice, and its shapes, the lowest first."""

    width: float
    height: float
    shapes: tuple[Shape, ...]

    def draw(self, size: tuple[int, int]) -> Image.Image:
        """Draw it without anti-aliasing, `size` in pixels."""
        canvas = Canvas(self.width, self.height, size)
        for shape in self.shapes:
            shape(canvas)
        return canvas.image


def polygon(colour: str, *points: Point) -> Shape:
    """A filled polygon."""
    return lambda canvas: canvas.pen.polygon([canvas.pixel(*p) for p in points], fill=colour)


def box(colour: str, x0: float, y0: float, x1: float, y1: float) -> Shape:
    """A rectangle from its top left to its bottom right corner."""

    def draw(canvas: Canvas) -> None:
        left, top, right, bottom = map(round, (*canvas.pixel(x0, y0), *canvas.pixel(x1, y1)))
        if right > left and bottom > top:
            canvas.pen.rectangle((left, top, right - 1, bottom - 1), fill=colour)

    return draw


def rows(colours: str, *weights: float) -> Shape:
    """Horizontal stripes from the top, in colours separated by spaces, as high as the weights."""

    def draw(canvas: Canvas) -> None:
        for colour, start, end in _stripes(colours, weights):
            box(colour, 0, start * canvas.height, canvas.width, end * canvas.height)(canvas)

    return draw


def columns(colours: str, *weights: float) -> Shape:
    """Vertical stripes from the hoist, as wide as the weights."""

    def draw(canvas: Canvas) -> None:
        for colour, start, end in _stripes(colours, weights):
            box(colour, start * canvas.width, 0, end * canvas.width, canvas.height)(canvas)

    return draw


def _stripes(colours: str, weights: Sequence[float]) -> Iterator[tuple[str, float, float]]:
    """Colour, start and end (0 to 1) of each stripe."""
    names = colours.split()
    ends = [0.0, *accumulate(weights or [1.0] * len(names))]
    for colour, (start, end) in zip(names, pairwise(ends), strict=True):
        yield colour, start / ends[-1], end / ends[-1]


def cross(colour: str, x0: float, y0: float, x1: float, y1: float) -> Shape:
    """A cross from edge to edge: its bar lies between `x0` and `x1`, its beam between the y."""

    def draw(canvas: Canvas) -> None:
        box(colour, x0, 0, x1, canvas.height)(canvas)
        box(colour, 0, y0, canvas.width, y1)(canvas)

    return draw


def bar(colour: str, thickness: float, start: Point, end: Point) -> Shape:
    """A straight bar with square ends on the line from `start` to `end`."""
    (x0, y0), (x1, y1) = start, end
    half = thickness / 2 / math.dist(start, end)
    dx, dy = (y1 - y0) * half, (x0 - x1) * half
    return polygon(
        colour, (x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy)
    )


def disc(colour: str, x: float, y: float, radius: float) -> Shape:
    """A filled circle."""
    return lambda canvas: canvas.pen.ellipse(canvas.square(x, y, radius), fill=colour)


def half_disc(colour: str, x: float, y: float, radius: float, angle: float) -> Shape:
    """The half of a circle that starts at `angle` degrees and runs on clockwise."""
    return lambda canvas: canvas.pen.pieslice(
        canvas.square(x, y, radius), angle, angle + 180, fill=colour
    )


def around(x: float, y: float, radius: float, degrees: float) -> Point:
    """The point of a circle at an angle, clockwise from the right."""
    turn = math.radians(degrees)
    return x + radius * math.cos(turn), y + radius * math.sin(turn)


def star(
    colour: str,
    x: float,
    y: float,
    radius: float,
    points: int = 5,
    inner: float = 0.381966,
    angle: float = -90.0,
) -> Shape:
    """A star.

    Args:
        colour: of the whole star.
        x: centre.
        y: centre.
        radius: of the outer points.
        points: how many.
        inner: radius of the inner corners as a part of `radius`; by default that of a pentagram.
        angle: where the first point lies, in degrees clockwise from the right.
    """
    corners = (
        around(x, y, radius * (inner if i % 2 else 1), angle + 180 * i / points)
        for i in range(2 * points)
    )
    return polygon(colour, *corners)
