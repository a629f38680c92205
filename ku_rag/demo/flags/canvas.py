"""A drawing surface measured in the units of a flag law, not in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

Point = tuple[float, float]


class Canvas:
    """A flag in the making; coordinates are units of the design, the origin is top left (hoist).

    Args:
        width: of the flag, in units.
        height: of the flag, in units.
        width_px: of the picture.
        height_px: of the picture.
    """

    def __init__(self, width: float, height: float, width_px: int, height_px: int) -> None:
        self.width = width
        self.height = height
        self.image = Image.new("RGB", (width_px, height_px), "white")
        self._x = width_px / width
        self._y = height_px / height
        self._draw = ImageDraw.Draw(self.image)

    def fill(self, colour: str) -> None:
        """Cover the whole flag."""
        self.box(0, 0, self.width, self.height, colour)

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: str) -> None:
        """A rectangle from one corner to the other."""
        left, top = round(x0 * self._x), round(y0 * self._y)
        right, bottom = round(x1 * self._x) - 1, round(y1 * self._y) - 1
        if right >= left and bottom >= top:
            self._draw.rectangle((left, top, right, bottom), fill=colour)

    def polygon(self, points: Sequence[Point], colour: str) -> None:
        """A filled polygon."""
        self._draw.polygon([(x * self._x, y * self._y) for x, y in points], fill=colour)

    def disc(self, x: float, y: float, radius: float, colour: str) -> None:
        """A filled circle."""
        box = (
            (x - radius) * self._x,
            (y - radius) * self._y,
            (x + radius) * self._x,
            (y + radius) * self._y,
        )
        self._draw.ellipse(box, fill=colour)

    def half_disc(self, x: float, y: float, radius: float, angle: float, colour: str) -> None:
        """The half circle that starts at `angle` degrees and runs on clockwise."""
        box = (
            (x - radius) * self._x,
            (y - radius) * self._y,
            (x + radius) * self._x,
            (y + radius) * self._y,
        )
        self._draw.pieslice(box, angle, angle + 180, fill=colour)

    def star(
        self,
        x: float,
        y: float,
        radius: float,
        colour: str,
        *,
        points: int = 5,
        inner: float | None = None,
        angle: float = -90.0,
    ) -> None:
        """A star.

        Args:
            x: centre.
            y: centre.
            radius: of the outer points.
            colour: of the whole star.
            points: how many.
            inner: radius of the inner corners as a part of `radius`; None gives straight lines
                from point to point but one, as in a pentagram.
            angle: where the first point lies, in degrees clockwise from the right.
        """
        if inner is None:
            inner = math.cos(2 * math.pi / points) / math.cos(math.pi / points)
        corners = []
        for i in range(2 * points):
            turn = math.radians(angle) + math.pi * i / points
            reach = radius * (inner if i % 2 else 1.0)
            corners.append((x + reach * math.cos(turn), y + reach * math.sin(turn)))
        self.polygon(corners, colour)

    def stroke(self, start: Point, end: Point, thickness: float, colour: str) -> None:
        """A straight bar with square ends on the line from `start` to `end`."""
        (x0, y0), (x1, y1) = start, end
        length = math.hypot(x1 - x0, y1 - y0)
        dx, dy = (y1 - y0) / length * thickness / 2, (x0 - x1) / length * thickness / 2
        self.polygon(
            [(x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy)], colour
        )

    def rows(self, colours: Sequence[str], weights: Sequence[float] | None = None) -> None:
        """Horizontal stripes from the top, as high as their weights say."""
        shares = weights or [1.0] * len(colours)
        unit, top = self.height / sum(shares), 0.0
        for colour, share in zip(colours, shares, strict=True):
            self.box(0, top, self.width, top + share * unit, colour)
            top += share * unit

    def columns(self, colours: Sequence[str], weights: Sequence[float] | None = None) -> None:
        """Vertical stripes from the hoist, as wide as their weights say."""
        shares = weights or [1.0] * len(colours)
        unit, left = self.width / sum(shares), 0.0
        for colour, share in zip(colours, shares, strict=True):
            self.box(left, 0, left + share * unit, self.height, colour)
            left += share * unit
