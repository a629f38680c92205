"""Flags with discs, stars, crescents, suns and leaves."""

from __future__ import annotations

import math

from ku_rag.demo.flags.canvas import Canvas, Point
from ku_rag.demo.flags.stripes import Design


def _japan(c: Canvas) -> None:
    c.fill("#ffffff")
    c.disc(4.5, 3, 1.8, "#bc002d")


def _bangladesh(c: Canvas) -> None:
    c.fill("#006a4e")
    c.disc(4.5, 3, 2, "#f42a41")


def _palau(c: Canvas) -> None:
    c.fill("#4aadd6")
    c.disc(7, 5, 3, "#ffde00")


def _laos(c: Canvas) -> None:
    c.rows(["#ce1126", "#002868", "#ce1126"], (1, 2, 1))
    c.disc(3, 2, 0.8, "#ffffff")


def _niger(c: Canvas) -> None:
    c.rows(["#e05206", "#ffffff", "#0db02b"])
    c.disc(10.5, 9, 2.55, "#e05206")


def _india(c: Canvas) -> None:
    c.rows(["#ff671f", "#ffffff", "#046a38"])
    c.disc(4.5, 3, 0.925, "#06038d")
    c.disc(4.5, 3, 0.80, "#ffffff")
    for i in range(24):
        turn = math.radians(15 * i)
        c.stroke(
            (4.5, 3), (4.5 + 0.85 * math.cos(turn), 3 + 0.85 * math.sin(turn)), 0.06, "#06038d"
        )
    c.disc(4.5, 3, 0.17, "#06038d")


def _turkey(c: Canvas) -> None:
    c.fill("#e30a17")
    c.disc(0.5, 0.5, 0.25, "#ffffff")
    c.disc(0.5625, 0.5, 0.2, "#e30a17")
    c.star(0.8208, 0.5, 0.125, "#ffffff", angle=180)


def _tunisia(c: Canvas) -> None:
    c.fill("#e70013")
    c.disc(45, 30, 15, "#ffffff")
    c.disc(45, 30, 11.25, "#e70013")
    c.disc(47.5, 30, 9, "#ffffff")
    c.star(47.5, 30, 6.7, "#e70013", angle=180)


def _pakistan(c: Canvas) -> None:
    c.fill("#01411c")
    c.box(0, 0, 0.75, 2, "#ffffff")
    c.disc(1.875, 1, 0.6, "#ffffff")
    c.disc(2.03, 0.862, 0.55, "#01411c")
    c.star(2.21, 0.7, 0.2, "#ffffff", angle=-41.6)


def _azerbaijan(c: Canvas) -> None:
    c.rows(["#00b5e2", "#ef3340", "#509e2f"])
    c.disc(5.88, 3, 0.9, "#ffffff")
    c.disc(6.12, 3, 0.75, "#ef3340")
    c.star(6.75, 3, 0.5, "#ffffff", points=8, inner=0.55, angle=-90)


def _maldives(c: Canvas) -> None:
    c.fill("#d21034")
    c.box(3, 2, 9, 6, "#007e3a")
    c.disc(6, 4, 1.333, "#ffffff")
    c.disc(6.6, 4, 1.333, "#007e3a")


def _singapore(c: Canvas) -> None:
    c.rows(["#ee2536", "#ffffff"])
    c.disc(1.75, 1.5, 1.1, "#ffffff")
    c.disc(2.22, 1.5, 1.1, "#ee2536")
    for i in range(5):
        turn = math.radians(72 * i - 90)
        c.star(2.55 + 0.6 * math.cos(turn), 1.53 + 0.6 * math.sin(turn), 0.26, "#ffffff")


def _china(c: Canvas) -> None:
    c.fill("#ee1c25")
    c.star(5, 5, 3, "#ffff00")
    for x, y in ((10, 2), (12, 4), (12, 7), (10, 9)):
        c.star(x, y, 1, "#ffff00", angle=math.degrees(math.atan2(5 - y, 5 - x)))


def _vietnam(c: Canvas) -> None:
    c.fill("#da251d")
    c.star(4.5, 3, 1.8, "#ffff00")


def _somalia(c: Canvas) -> None:
    c.fill("#4189dd")
    c.star(4.5, 3, 1.65, "#ffffff")


def _cuba(c: Canvas) -> None:
    c.rows(["#002a8f", "#ffffff", "#002a8f", "#ffffff", "#002a8f"])
    c.polygon([(0, 0), (5.196, 3), (0, 6)], "#cb1515")
    c.star(1.732, 3, 1, "#ffffff")


def _chile(c: Canvas) -> None:
    c.rows(["#ffffff", "#da291c"])
    c.box(0, 0, 2, 2, "#0032a0")
    c.star(1, 1, 0.5, "#ffffff")


def _senegal(c: Canvas) -> None:
    c.columns(["#00853f", "#fdef42", "#e31b23"])
    c.star(4.5, 3, 1, "#00853f")


def _ghana(c: Canvas) -> None:
    c.rows(["#ce1126", "#fcd116", "#006b3f"])
    c.star(4.5, 3.09, 1.05, "#000000")


def _cameroon(c: Canvas) -> None:
    c.columns(["#007a5e", "#ce1126", "#fcd116"])
    c.star(4.5, 3.05, 0.95, "#fcd116")


def _burkina_faso(c: Canvas) -> None:
    c.rows(["#ef2b2d", "#009e49"])
    c.star(4.5, 3.05, 1.0, "#fcd116")


def _togo(c: Canvas) -> None:
    c.rows(["#006a4e", "#ffce00", "#006a4e", "#ffce00", "#006a4e"])
    c.box(0, 0, 3, 3, "#d21034")
    c.star(1.5, 1.55, 0.95, "#ffffff")


def _panama(c: Canvas) -> None:
    c.fill("#ffffff")
    c.box(4.5, 0, 9, 3, "#da121a")
    c.box(0, 3, 4.5, 6, "#072357")
    c.star(2.25, 1.55, 0.85, "#072357")
    c.star(6.75, 4.55, 0.85, "#da121a")


def _dr_congo(c: Canvas) -> None:
    c.fill("#007fff")
    c.stroke((-8, 12), (16, -6), 2.0, "#f7d618")
    c.stroke((-8, 12), (16, -6), 1.5, "#ce1021")
    c.star(1.6, 1.25, 0.95, "#f7d618")


def _nauru(c: Canvas) -> None:
    c.fill("#002b7f")
    c.box(0, 11.5, 48, 12.5, "#ffc61e")
    c.star(12, 18, 4, "#ffffff", points=12, inner=0.55)


def _united_states(c: Canvas) -> None:
    height, canton = 1.0, 0.76
    c.rows(["#b22234", "#ffffff"] * 6 + ["#b22234"])
    c.box(0, 0, canton, height * 7 / 13, "#3c3b6e")
    for row in range(9):
        for column in range(6 - row % 2):
            x = canton * (1 + 2 * column + row % 2) / 12
            c.star(x, height * 7 / 13 * (row + 1) / 10, 0.0308, "#ffffff")


_LEAF: tuple[Point, ...] = (
    (0.0, -1.0), (0.16, -0.68), (0.36, -0.78), (0.27, -0.24), (0.52, -0.50), (0.58, -0.36),
    (0.86, -0.42), (0.76, -0.13), (0.90, -0.05), (0.44, 0.34), (0.49, 0.50), (0.05, 0.43),
    (0.04, 0.95),
)  # fmt: skip
"""Right half of a maple leaf of eleven points, from the tip to the stalk."""


def _canada(c: Canvas) -> None:
    c.columns(["#d80621", "#ffffff", "#d80621"], (1, 2, 1))
    half = [(6 + 2.25 * x, 3 + 2.45 * y) for x, y in _LEAF]
    c.polygon(half + [(12 - x, y) for x, y in reversed(half)], "#d80621")


def _lebanon(c: Canvas) -> None:
    c.rows(["#ed1c24", "#ffffff", "#ed1c24"], (1, 2, 1))
    green = "#00a651"
    c.polygon([(4.35, 4.05), (4.42, 3.4), (4.58, 3.4), (4.65, 4.05)], green)
    # Four tiers of branches, each with a ragged lower edge, narrow towards the top.
    for top, bottom, reach in (
        (2.75, 3.72, 1.35), (2.45, 3.25, 1.08), (2.2, 2.8, 0.78), (1.98, 2.38, 0.45),
    ):  # fmt: skip
        edge = [(4.5, top)]
        teeth = 6
        for i in range(2 * teeth + 1):
            x = 4.5 + reach * (1 - i / teeth)
            sag = 0.10 * reach * (1 - abs(1 - i / teeth))
            edge.append((x, bottom - 0.12 * (i % 2) - 0.12 * reach + sag))
        c.polygon(edge, green)


def _sun(c: Canvas, x: float, y: float, disc: float, reach: float, rays: int, colour: str) -> None:
    for i in range(rays):
        turn = 2 * math.pi * i / rays - math.pi / 2
        wide = math.pi / rays * 0.8
        tip = (x + reach * math.cos(turn), y + reach * math.sin(turn))
        base = [
            (x + disc * math.cos(turn + side * wide), y + disc * math.sin(turn + side * wide))
            for side in (-1, 1)
        ]
        c.polygon([tip, *base], colour)


def _argentina(c: Canvas) -> None:
    c.rows(["#6cace4", "#ffffff", "#6cace4"])
    _sun(c, 7.2, 4.5, 0.65, 1.25, 32, "#d99a1c")
    c.disc(7.2, 4.5, 0.72, "#85340a")
    c.disc(7.2, 4.5, 0.66, "#ffb81c")


def _north_macedonia(c: Canvas) -> None:
    c.fill("#d20000")
    yellow = "#ffe600"
    centre_x, centre_y = 14.0, 7.0
    for dx, dy, half in (
        (0, -7, 1.4), (0, 7, 1.4), (14, 0, 1.4), (-14, 0, 1.4),
        (14, -7, 2.1), (14, 7, 2.1), (-14, -7, 2.1), (-14, 7, 2.1),
    ):  # fmt: skip
        end_x, end_y = centre_x + dx, centre_y + dy
        if dx and dy:
            side = math.copysign(half, dx)
            corners = [(end_x, end_y), (end_x - side, end_y)]
        elif dx:
            corners = [(end_x, end_y - half), (end_x, end_y + half)]
        else:
            corners = [(end_x - half, end_y), (end_x + half, end_y)]
        c.polygon([(centre_x, centre_y), *corners], yellow)
    c.disc(centre_x, centre_y, 2.45, "#d20000")
    c.disc(centre_x, centre_y, 2.0, yellow)


def _south_korea(c: Canvas) -> None:
    c.fill("#ffffff")
    x, y = 36.0, 24.0
    turn = math.degrees(math.atan2(48, 72))
    red, blue, black = "#cd2e3a", "#0047a0", "#000000"
    c.half_disc(x, y, 12, turn, blue)
    c.half_disc(x, y, 12, turn + 180, red)
    ux, uy = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    c.disc(x - 6 * ux, y - 6 * uy, 6, red)
    c.disc(x + 6 * ux, y + 6 * uy, 6, blue)
    trigrams = ((-1, -1, (0, 0, 0)), (1, 1, (1, 1, 1)), (1, -1, (1, 0, 1)), (-1, 1, (0, 1, 0)))
    for sx, sy, broken in trigrams:
        vx, vy = sx * ux, sy * uy
        for i, gap in enumerate(broken):
            reach = 18 + 2 + 3 * (i - 0)
            bx, by = x + reach * vx, y + reach * vy
            px, py = -vy, vx
            c.stroke((bx - 6 * px, by - 6 * py), (bx + 6 * px, by + 6 * py), 2, black)
            if gap:
                c.stroke(
                    (bx - 0.5 * px, by - 0.5 * py), (bx + 0.5 * px, by + 0.5 * py), 2.4, "#fff"
                )


def _brazil(c: Canvas) -> None:
    c.fill("#009739")
    c.polygon([(1.7, 7), (10, 1.7), (18.3, 7), (10, 12.3)], "#fedd00")
    c.disc(10, 7, 3.5, "#012169")
    # The white band is a ring around a point below, seen only inside the blue disc.
    x, y = 8.0, 14.0
    upper: list[Point] = []
    lower: list[Point] = []
    for i in range(41):
        turn = math.radians(-125 + i * 1.9)
        for reach, edge in ((8.5, upper), (8.0, lower)):
            px, py = x + reach * math.cos(turn), y + reach * math.sin(turn)
            if math.hypot(px - 10, py - 7) <= 3.5:
                edge.append((px, py))
    c.polygon(upper + lower[::-1], "#ffffff")
    for x, y in (
        (7.6, 7.4), (8.4, 8.5), (9.3, 7.8), (10.0, 9.3), (10.9, 8.2), (11.6, 9.0), (12.2, 8.3),
        (9.0, 9.4), (10.6, 10.0), (11.0, 5.0),
    ):  # fmt: skip
        c.star(x, y, 0.2, "#ffffff")


EMBLEMS: dict[str, Design] = {
    "argentina": Design(14.4, 9, _argentina),
    "azerbaijan": Design(12, 6, _azerbaijan),
    "bangladesh": Design(10, 6, _bangladesh),
    "brazil": Design(20, 14, _brazil),
    "burkina-faso": Design(9, 6, _burkina_faso),
    "cameroon": Design(9, 6, _cameroon),
    "canada": Design(12, 6, _canada),
    "chile": Design(6, 4, _chile),
    "china": Design(30, 20, _china),
    "cuba": Design(12, 6, _cuba),
    "democratic-republic-of-the-congo": Design(8, 6, _dr_congo),
    "ghana": Design(9, 6, _ghana),
    "india": Design(9, 6, _india),
    "japan": Design(9, 6, _japan),
    "laos": Design(6, 4, _laos),
    "lebanon": Design(9, 6, _lebanon),
    "maldives": Design(12, 8, _maldives),
    "nauru": Design(48, 24, _nauru),
    "niger": Design(21, 18, _niger),
    "north-macedonia": Design(28, 14, _north_macedonia),
    "pakistan": Design(3, 2, _pakistan),
    "palau": Design(16, 10, _palau),
    "panama": Design(9, 6, _panama),
    "senegal": Design(9, 6, _senegal),
    "singapore": Design(9, 6, _singapore),
    "somalia": Design(9, 6, _somalia),
    "south-korea": Design(72, 48, _south_korea),
    "togo": Design(8.09, 5, _togo),
    "tunisia": Design(90, 60, _tunisia),
    "turkey": Design(1.5, 1, _turkey),
    "united-states": Design(1.9, 1, _united_states),
    "vietnam": Design(9, 6, _vietnam),
}
"""Country id → design."""
