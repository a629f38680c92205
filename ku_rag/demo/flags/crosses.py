"""Flags with a cross, a saltire or a canton, the Union Flag and its children among them."""

from __future__ import annotations

import math

from ku_rag.demo.flags.canvas import Canvas
from ku_rag.demo.flags.stripes import Design


def _nordic(
    width: tuple[float, float, float],
    height: tuple[float, float, float],
    field: str,
    cross: str,
    inner: tuple[float, str] | None = None,
) -> Design:
    """An off-centre cross; `inner` is the width of the fimbriation and the colour inside it."""

    def paint(c: Canvas) -> None:
        left, bar, _ = width
        top, beam, _ = height
        c.fill(field)
        c.box(left, 0, left + bar, c.height, cross)
        c.box(0, top, c.width, top + beam, cross)
        if inner:
            edge, colour = inner
            c.box(left + edge, 0, left + bar - edge, c.height, colour)
            c.box(0, top + edge, c.width, top + beam - edge, colour)

    return Design(sum(width), sum(height), paint)


def _switzerland(c: Canvas) -> None:
    c.fill("#da291c")
    c.box(13, 6, 19, 26, "#ffffff")
    c.box(6, 13, 26, 19, "#ffffff")


def _greece(c: Canvas) -> None:
    c.rows(["#0d5eaf", "#ffffff"] * 4 + ["#0d5eaf"])
    c.box(0, 0, 10, 10, "#0d5eaf")
    c.box(4, 0, 6, 10, "#ffffff")
    c.box(0, 4, 10, 6, "#ffffff")


def _georgia(c: Canvas) -> None:
    c.fill("#ffffff")
    c.box(65, 0, 85, 100, "#ff0000")
    c.box(0, 40, 150, 60, "#ff0000")
    for x in (32.5, 117.5):
        for y in (20, 80):
            # Each arm of a small cross is slightly waisted towards the middle.
            for angle in (0, 90, 180, 270):
                turn = math.radians(angle)
                ux, uy = math.cos(turn), math.sin(turn)
                corners = [(0, 1.9), (10, 3.4), (10, -3.4), (0, -1.9)]
                c.polygon([(x + a * ux - b * uy, y + a * uy + b * ux) for a, b in corners], "#f00")


def _jamaica(c: Canvas) -> None:
    c.fill("#009b3a")
    c.polygon([(0, 0), (6, 3), (0, 6)], "#000000")
    c.polygon([(12, 0), (6, 3), (12, 6)], "#000000")
    c.stroke((-12, -6), (24, 12), 1.2, "#fed100")
    c.stroke((-12, 12), (24, -6), 1.2, "#fed100")


def _tonga(c: Canvas) -> None:
    c.fill("#c10000")
    c.box(0, 0, 20, 12, "#ffffff")
    c.box(8.25, 1.5, 11.75, 10.5, "#c10000")
    c.box(5.5, 4.25, 14.5, 7.75, "#c10000")


def union(c: Canvas, scale: float = 1.0) -> None:
    """The Union Flag, 60 by 30 times `scale`, in the top left corner."""
    s = scale
    blue, red, white = "#012169", "#c8102e", "#ffffff"
    # It is clipped to its own canton by drawing it on a canvas of its own.
    ratio_x, ratio_y = c.image.width / c.width, c.image.height / c.height
    part = Canvas(60, 30, round(60 * s * ratio_x), round(30 * s * ratio_y))
    part.fill(blue)
    part.stroke((-30, -15), (90, 45), 6, white)
    part.stroke((-30, 45), (90, -15), 6, white)
    # The red saltire is counterchanged: in each quarter it lies clockwise of the diagonal.
    run, rise = 2 / math.sin(math.atan(0.5)), 2 / math.cos(math.atan(0.5))
    part.polygon([(0, 0), (30, 15), (30 - run, 15), (0, rise)], red)
    part.polygon([(60, 0), (60 - run, 0), (30 - run, 15), (30, 15)], red)
    part.polygon([(60, 30), (30, 15), (30 + run, 15), (60, 30 - rise)], red)
    part.polygon([(0, 30), (run, 30), (30 + run, 15), (30, 15)], red)
    part.box(25, 0, 35, 30, white)
    part.box(0, 10, 60, 20, white)
    part.box(27, 0, 33, 30, red)
    part.box(0, 12, 60, 18, red)
    c.image.paste(part.image, (0, 0))


def _australia(c: Canvas) -> None:
    c.fill("#012169")
    union(c, 0.8)
    c.star(24, 36, 7.2, "#ffffff", points=7, inner=4 / 9)
    for x, y in ((72, 8), (62, 21), (80.7, 18.6), (72, 40)):
        c.star(x, y, 48 / 14, "#ffffff", points=7, inner=4 / 9)
    c.star(76.8, 26, 2, "#ffffff", inner=4 / 9)


def _new_zealand(c: Canvas) -> None:
    c.fill("#012169")
    union(c, 0.5)
    for x, y, radius in ((45, 6, 2.3), (38.6, 13.6, 2.3), (51, 11.8, 2.0), (45, 24.4, 2.6)):
        c.star(x, y, radius + 0.9, "#ffffff")
        c.star(x, y, radius, "#c8102e")


CROSSES: dict[str, Design] = {
    "australia": Design(96, 48, _australia),
    "denmark": _nordic((12, 4, 21), (12, 4, 12), "#c8102e", "#ffffff"),
    "finland": _nordic((5, 3, 10), (4, 3, 4), "#ffffff", "#002f6c"),
    "georgia": Design(150, 100, _georgia),
    "greece": Design(27, 18, _greece),
    "iceland": _nordic((7, 4, 14), (7, 4, 7), "#02529c", "#ffffff", (1, "#dc1e35")),
    "jamaica": Design(12, 6, _jamaica),
    "new-zealand": Design(60, 30, _new_zealand),
    "norway": _nordic((6, 4, 12), (6, 4, 6), "#ba0c2f", "#ffffff", (1, "#00205b")),
    "sweden": _nordic((5, 2, 9), (4, 2, 4), "#006aa7", "#fecc02"),
    "switzerland": Design(32, 32, _switzerland),
    "tonga": Design(48, 24, _tonga),
    "united-kingdom": Design(60, 30, union),
}
"""Country id → design."""
