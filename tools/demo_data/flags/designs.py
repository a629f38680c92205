"""The designs of all flags: official proportions and colours."""

from __future__ import annotations

import math

from tools.demo_data.flags.shapes import (
    Canvas,
    Design,
    Point,
    Shape,
    around,
    bar,
    box,
    columns,
    cross,
    disc,
    half_disc,
    polygon,
    rows,
    star,
)

# ---- emblems -----------------------------------------------------------------------------------


def _serrated(width: float, height: float, left: float, right: float, teeth: int) -> Shape:
    """A white hoist with points that reach from `left` to `right`."""
    step = height / teeth
    edge = [p for i in range(teeth) for p in ((right, (i + 0.5) * step), (left, (i + 1) * step))]
    return polygon("white", (0, 0), (left, 0), *edge, (0, height))


def _union(scale: float) -> Shape:
    """The Union Flag, 60 by 30 times `scale`, in the top left corner."""
    blue, red, white = "#012169", "#c8102e", "white"
    # The red saltire is counterchanged: in each quarter it lies clockwise of the diagonal.
    run, rise = 2 * math.sqrt(5), math.sqrt(5)
    flag = Design(60, 30, (
        rows(blue), bar(white, 6, (-30, -15), (90, 45)), bar(white, 6, (-30, 45), (90, -15)),
        polygon(red, (0, 0), (30, 15), (30 - run, 15), (0, rise)),
        polygon(red, (60, 0), (60 - run, 0), (30 - run, 15), (30, 15)),
        polygon(red, (60, 30), (30, 15), (30 + run, 15), (60, 30 - rise)),
        polygon(red, (0, 30), (run, 30), (30 + run, 15), (30, 15)),
        cross(white, 25, 10, 35, 20), cross(red, 27, 12, 33, 18),
    ))  # fmt: skip

    def draw(canvas: Canvas) -> None:
        width, height = canvas.pixel(60 * scale, 30 * scale)
        canvas.image.paste(flag.draw((round(width), round(height))), (0, 0))

    return draw


def _small_cross(x: float, y: float) -> list[Shape]:
    """Georgia's: each arm is slightly waisted towards the middle."""
    arms = []
    for ux, uy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        corners = ((0, 1.9), (10, 3.4), (10, -3.4), (0, -1.9))
        arms.append([(x + a * ux - b * uy, y + a * uy + b * ux) for a, b in corners])
    return [polygon("#ff0000", *arm) for arm in arms]


def _arms(colour: str, thickness: float) -> list[Shape]:
    """South Africa's Y; its arms end in the corners at the hoist."""
    return [
        bar(colour, thickness, (-30, -20), (30, 20)),
        bar(colour, thickness, (-30, 60), (30, 20)),
        box(colour, 30, 20 - thickness / 2, 60, 20 + thickness / 2),
        disc(colour, 30, 20, thickness / 2),
    ]


_LEAF: tuple[Point, ...] = (
    (0.0, -1.0), (0.16, -0.68), (0.36, -0.78), (0.27, -0.24), (0.52, -0.50), (0.58, -0.36),
    (0.86, -0.42), (0.76, -0.13), (0.90, -0.05), (0.44, 0.34), (0.49, 0.50), (0.05, 0.43),
    (0.04, 0.95),
)  # fmt: skip
"""Right half of a maple leaf of eleven points, from the tip to the stalk."""


def _maple_leaf() -> Shape:
    half = [(6 + 2.25 * x, 3 + 2.45 * y) for x, y in _LEAF]
    return polygon("#d80621", *half, *((12 - x, y) for x, y in reversed(half)))


def _cedar() -> list[Shape]:
    """A trunk and four tiers of branches with ragged lower edges."""
    tiers = ((2.75, 3.72, 1.35), (2.45, 3.25, 1.08), (2.2, 2.8, 0.78), (1.98, 2.38, 0.45))
    shapes = [polygon("#00a651", (4.35, 4.05), (4.42, 3.4), (4.58, 3.4), (4.65, 4.05))]
    for top, bottom, reach in tiers:
        edge = [(4.5, top)]
        for i in range(13):
            tooth = 0.12 * (i % 2) + 0.1 * reach * (0.2 + abs(1 - i / 6))
            edge.append((4.5 + reach * (1 - i / 6), bottom - tooth))
        shapes.append(polygon("#00a651", *edge))
    return shapes


def _may_sun() -> list[Shape]:
    """Argentina's sun with 32 rays."""
    x, y = 7.2, 4.5
    rays = []
    for i in range(32):
        turn, half = 360 / 32 * i - 90, 180 / 32 * 0.8
        base = around(x, y, 0.65, turn - half), around(x, y, 0.65, turn + half)
        rays.append(polygon("#d99a1c", around(x, y, 1.25, turn), *base))
    return [*rays, disc("#85340a", x, y, 0.72), disc("#ffb81c", x, y, 0.66)]


def _macedonian_sun() -> list[Shape]:
    """Eight rays that widen towards the edge."""
    rays = [
        polygon("#ffe600", (14, 7), *edge)
        for edge in (
            ((12.6, 0), (15.4, 0)), ((12.6, 14), (15.4, 14)),
            ((28, 5.6), (28, 8.4)), ((0, 5.6), (0, 8.4)),
            ((28, 0), (25.9, 0)), ((28, 14), (25.9, 14)), ((0, 0), (2.1, 0)), ((0, 14), (2.1, 14)),
        )
    ]  # fmt: skip
    return [*rays, disc("#d20000", 14, 7, 2.45), disc("#ffe600", 14, 7, 2.0)]


def _chakra() -> list[Shape]:
    blue, middle = "#06038d", (4.5, 3.0)
    spokes = [bar(blue, 0.06, middle, around(*middle, 0.85, 15 * i)) for i in range(24)]
    rim = [disc(blue, *middle, 0.925), disc("white", *middle, 0.8)]
    return [*rim, *spokes, disc(blue, *middle, 0.17)]


def _taegeuk() -> list[Shape]:
    """South Korea's disc and trigrams."""
    turn = math.degrees(math.atan2(48, 72))
    red, blue = "#cd2e3a", "#0047a0"
    shapes = [
        half_disc(blue, 36, 24, 12, turn),
        half_disc(red, 36, 24, 12, turn + 180),
        disc(red, *around(36, 24, -6, turn), 6),
        disc(blue, *around(36, 24, 6, turn), 6),
    ]
    for side, broken in ((180 + turn, ()), (turn, (0, 1, 2)), (-turn, (0, 2)), (180 - turn, (1,))):
        for i in range(3):
            middle = around(36, 24, 20 + 3 * i, side)
            ends = around(*middle, 6, side - 90), around(*middle, 6, side + 90)
            gap = around(*middle, 0.5, side - 90), around(*middle, 0.5, side + 90)
            shapes += [bar("black", 2, *ends)]
            shapes += [bar("white", 2.4, *gap)] if i in broken else []
    return shapes


def _starry_globe() -> list[Shape]:
    """Brazil's disc; its white band is part of a ring around a point below."""
    outer, inner = (
        [p for p in (around(8, 14, reach, 1.9 * i - 125) for i in range(41)) if _on_globe(p)]
        for reach in (8.5, 8.0)
    )
    places = (
        (7.6, 7.4), (8.4, 8.5), (9.3, 7.8), (10.0, 9.3), (10.9, 8.2), (11.6, 9.0), (12.2, 8.3),
        (9.0, 9.4), (10.6, 10.0), (11.0, 5.0),
    )  # fmt: skip
    stars = [star("white", x, y, 0.2) for x, y in places]
    return [disc("#012169", 10, 7, 3.5), polygon("white", *outer, *inner[::-1]), *stars]


def _on_globe(point: Point) -> bool:
    return math.dist(point, (10, 7)) <= 3.5


def _fifty_stars() -> list[Shape]:
    return [
        star("white", 0.76 * (1 + 2 * column + row % 2) / 12, 7 / 130 * (row + 1), 0.0308)
        for row in range(9)
        for column in range(6 - row % 2)
    ]


def _southern_cross() -> list[Shape]:
    """Australia's five stars and the large one below the canton."""
    places = ((24, 36, 7.2), (72, 8, 3.43), (62, 21, 3.43), (80.7, 18.6, 3.43), (72, 40, 3.43))
    large = [star("white", x, y, radius, 7, 4 / 9) for x, y, radius in places]
    return [*large, star("white", 76.8, 26, 2, 5, 4 / 9)]


# ---- flags -------------------------------------------------------------------------------------


def _flag(width: float, height: float, *shapes: Shape) -> Design:
    return Design(width, height, shapes)


# fmt: off
DESIGNS: dict[str, Design] = {
    "argentina": _flag(14.4, 9, rows("#6cace4 white #6cace4"), *_may_sun()),
    "armenia": _flag(2, 1, rows("#d90012 #0033a0 #f2a800")),
    "australia": _flag(96, 48, rows("#012169"), _union(0.8), *_southern_cross()),
    "austria": _flag(3, 2, rows("#c8102e white #c8102e")),
    "azerbaijan": _flag(
        12, 6, rows("#00b5e2 #ef3340 #509e2f"), disc("white", 5.88, 3, 0.9),
        disc("#ef3340", 6.12, 3, 0.75), star("white", 6.75, 3, 0.5, 8, 0.55)),
    "bahamas": _flag(
        12, 6, rows("#00778b #ffc72c #00778b"), polygon("black", (0, 0), (5.196, 3), (0, 6))),
    "bahrain": _flag(5, 3, rows("#ce1126"), _serrated(5, 3, 1.25, 2.0, 5)),
    "bangladesh": _flag(10, 6, rows("#006a4e"), disc("#f42a41", 4.5, 3, 2)),
    "belgium": _flag(15, 13, columns("black #fdda24 #ef3340")),
    "benin": _flag(3, 2, rows("#fcd116 #e8112d"), box("#008751", 0, 0, 1.2, 2)),
    "botswana": _flag(3, 2, rows("#6da9d2 white black white #6da9d2", 9, 1, 4, 1, 9)),
    "brazil": _flag(
        20, 14, rows("#009739"), polygon("#fedd00", (1.7, 7), (10, 1.7), (18.3, 7), (10, 12.3)),
        *_starry_globe()),
    "bulgaria": _flag(5, 3, rows("white #00966e #d62612")),
    "burkina-faso": _flag(9, 6, rows("#ef2b2d #009e49"), star("#fcd116", 4.5, 3.05, 1.0)),
    "cameroon": _flag(9, 6, columns("#007a5e #ce1126 #fcd116"), star("#fcd116", 4.5, 3.05, 0.95)),
    "canada": _flag(12, 6, columns("#d80621 white #d80621", 1, 2, 1), _maple_leaf()),
    "chad": _flag(3, 2, columns("#002664 #fecb00 #c60c30")),
    "chile": _flag(
        6, 4, rows("white #da291c"), box("#0032a0", 0, 0, 2, 2), star("white", 1, 1, 0.5)),
    "china": _flag(
        30, 20, rows("#ee1c25"), star("#ffff00", 5, 5, 3),
        *(star("#ffff00", x, y, 1, angle=math.degrees(math.atan2(5 - y, 5 - x)))
          for x, y in ((10, 2), (12, 4), (12, 7), (10, 9)))),
    "colombia": _flag(3, 2, rows("#fcd116 #003087 #ce1126", 2, 1, 1)),
    "costa-rica": _flag(5, 3, rows("#002b7f white #ce1126 white #002b7f", 1, 1, 2, 1, 1)),
    "cuba": _flag(
        12, 6, rows("#002a8f white #002a8f white #002a8f"),
        polygon("#cb1515", (0, 0), (5.196, 3), (0, 6)), star("white", 1.732, 3, 1)),
    "czechia": _flag(6, 4, rows("white #d7141a"), polygon("#11457e", (0, 0), (3, 2), (0, 4))),
    "democratic-republic-of-the-congo": _flag(
        8, 6, rows("#007fff"), bar("#f7d618", 2, (-8, 12), (16, -6)),
        bar("#ce1021", 1.5, (-8, 12), (16, -6)), star("#f7d618", 1.6, 1.25, 0.95)),
    "denmark": _flag(37, 28, rows("#c8102e"), cross("white", 12, 12, 16, 16)),
    "estonia": _flag(11, 7, rows("#0072ce black white")),
    "finland": _flag(18, 11, rows("white"), cross("#002f6c", 5, 4, 8, 7)),
    "france": _flag(3, 2, columns("#000091 white #e1000f")),
    "gabon": _flag(4, 3, rows("#009e60 #fcd116 #3a75c4")),
    "gambia": _flag(3, 2, rows("#ce1126 white #0c1c8c white #3a7728", 6, 1, 4, 1, 6)),
    "georgia": _flag(
        150, 100, rows("white"), cross("#ff0000", 65, 40, 85, 60), *_small_cross(32.5, 20),
        *_small_cross(32.5, 80), *_small_cross(117.5, 20), *_small_cross(117.5, 80)),
    "germany": _flag(5, 3, rows("black #dd0000 #ffcc00")),
    "ghana": _flag(9, 6, rows("#ce1126 #fcd116 #006b3f"), star("black", 4.5, 3.09, 1.05)),
    "greece": _flag(
        27, 18, rows("#0d5eaf white " * 4 + "#0d5eaf"), box("#0d5eaf", 0, 0, 10, 10),
        box("white", 4, 0, 6, 10), box("white", 0, 4, 10, 6)),
    "guinea": _flag(3, 2, columns("#ce1126 #fcd116 #009460")),
    "hungary": _flag(2, 1, rows("#ce2939 white #477050")),
    "iceland": _flag(
        25, 18, rows("#02529c"), cross("white", 7, 7, 11, 11), cross("#dc1e35", 8, 8, 10, 10)),
    "india": _flag(9, 6, rows("#ff671f white #046a38"), *_chakra()),
    "indonesia": _flag(3, 2, rows("#ce1126 white")),
    "ireland": _flag(2, 1, columns("#169b62 white #ff883e")),
    "italy": _flag(3, 2, columns("#008c45 #f4f9ff #cd212a")),
    "ivory-coast": _flag(3, 2, columns("#ff8200 white #009a44")),
    "jamaica": _flag(
        12, 6, rows("#009b3a"), polygon("black", (0, 0), (6, 3), (0, 6)),
        polygon("black", (12, 0), (6, 3), (12, 6)), bar("#fed100", 1.2, (-12, -6), (24, 12)),
        bar("#fed100", 1.2, (-12, 12), (24, -6))),
    "japan": _flag(9, 6, rows("white"), disc("#bc002d", 4.5, 3, 1.8)),
    "kuwait": _flag(
        12, 6, rows("#007a3d white #ce1126"), polygon("black", (0, 0), (3, 2), (3, 4), (0, 6))),
    "laos": _flag(6, 4, rows("#ce1126 #002868 #ce1126", 1, 2, 1), disc("white", 3, 2, 0.8)),
    "latvia": _flag(2, 1, rows("#9e1b34 white #9e1b34", 2, 1, 2)),
    "lebanon": _flag(9, 6, rows("#ed1c24 white #ed1c24", 1, 2, 1), *_cedar()),
    "lithuania": _flag(5, 3, rows("#fdb913 #006a44 #c1272d")),
    "luxembourg": _flag(5, 3, rows("#ef3340 white #00a3e0")),
    "madagascar": _flag(3, 2, rows("#f9423a #00843d"), box("white", 0, 0, 1, 2)),
    "maldives": _flag(
        12, 8, rows("#d21034"), box("#007e3a", 3, 2, 9, 6), disc("white", 6, 4, 1.333),
        disc("#007e3a", 6.6, 4, 1.333)),
    "mali": _flag(3, 2, columns("#14b53a #fcd116 #ce1126")),
    "mauritius": _flag(3, 2, rows("#ea2839 #1a206d #ffd500 #00a551")),
    "monaco": _flag(5, 4, rows("#ce1126 white")),
    "nauru": _flag(
        48, 24, rows("#002b7f"), box("#ffc61e", 0, 11.5, 48, 12.5),
        star("white", 12, 18, 4, 12, 0.55)),
    "netherlands": _flag(3, 2, rows("#ae1c28 white #21468b")),
    "new-zealand": _flag(
        60, 30, rows("#012169"), _union(0.5),
        *(star(colour, x, y, radius + edge)
          for x, y, radius in ((45, 6, 2.3), (38.6, 13.6, 2.3), (51, 11.8, 2.0), (45, 24.4, 2.6))
          for colour, edge in (("white", 0.9), ("#c8102e", 0)))),
    "niger": _flag(21, 18, rows("#e05206 white #0db02b"), disc("#e05206", 10.5, 9, 2.55)),
    "nigeria": _flag(2, 1, columns("#008751 white #008751")),
    "north-macedonia": _flag(28, 14, rows("#d20000"), *_macedonian_sun()),
    "norway": _flag(
        22, 16, rows("#ba0c2f"), cross("white", 6, 6, 10, 10), cross("#00205b", 7, 7, 9, 9)),
    "pakistan": _flag(
        3, 2, rows("#01411c"), box("white", 0, 0, 0.75, 2), disc("white", 1.875, 1, 0.6),
        disc("#01411c", 2.03, 0.862, 0.55), star("white", 2.21, 0.7, 0.2, angle=-41.6)),
    "palau": _flag(16, 10, rows("#4aadd6"), disc("#ffde00", 7, 5, 3)),
    "panama": _flag(
        9, 6, rows("white"), box("#da121a", 4.5, 0, 9, 3), box("#072357", 0, 3, 4.5, 6),
        star("#072357", 2.25, 1.55, 0.85), star("#da121a", 6.75, 4.55, 0.85)),
    "peru": _flag(3, 2, columns("#d91023 white #d91023")),
    "poland": _flag(8, 5, rows("white #dc143c")),
    "qatar": _flag(28, 11, rows("#8a1538"), _serrated(28, 11, 8.1, 11.9, 9)),
    "republic-of-the-congo": _flag(
        6, 4, rows("#fbde4a"), polygon("#009543", (0, 0), (4, 0), (0, 4)),
        polygon("#dc241f", (6, 0), (6, 4), (2, 4))),
    "romania": _flag(3, 2, columns("#002b7f #fcd116 #ce1126")),
    "russia": _flag(3, 2, rows("white #0039a6 #d52b1e")),
    "senegal": _flag(9, 6, columns("#00853f #fdef42 #e31b23"), star("#00853f", 4.5, 3, 1)),
    "seychelles": _flag(
        6, 3, rows("#003d88"), polygon("#fcd955", (0, 3), (2, 0), (4, 0)),
        polygon("#d92223", (0, 3), (4, 0), (6, 0), (6, 1)),
        polygon("white", (0, 3), (6, 1), (6, 2)), polygon("#007a39", (0, 3), (6, 2), (6, 3))),
    "sierra-leone": _flag(3, 2, rows("#1eb53a white #0072c6")),
    "singapore": _flag(
        9, 6, rows("#ee2536 white"), disc("white", 1.75, 1.5, 1.1), disc("#ee2536", 2.22, 1.5, 1.1),
        *(star("white", *around(2.55, 1.53, 0.6, 72 * i - 90), 0.26) for i in range(5))),
    "somalia": _flag(9, 6, rows("#4189dd"), star("white", 4.5, 3, 1.65)),
    "south-africa": _flag(
        60, 40, rows("#e03c31 #001489"), *_arms("white", 40 / 3),
        polygon("#ffb81c", (0, 3), (0, 37), (25.5, 20)), *_arms("#007749", 8),
        polygon("#ffb81c", (0, 4.807), (0, 35.193), (22.79, 20)),
        polygon("black", (0, 8.01), (0, 31.99), (17.98, 20))),
    "south-korea": _flag(72, 48, rows("white"), *_taegeuk()),
    "sweden": _flag(16, 10, rows("#006aa7"), cross("#fecc02", 5, 4, 7, 6)),
    "switzerland": _flag(
        32, 32, rows("#da291c"), box("white", 13, 6, 19, 26), box("white", 6, 13, 26, 19)),
    "tanzania": _flag(
        72, 48, polygon("#1eb53a", (0, 0), (72, 0), (0, 48)),
        polygon("#00a3dd", (72, 0), (72, 48), (0, 48)), bar("#fcd116", 19, (-36, 72), (108, -24)),
        bar("black", 13, (-36, 72), (108, -24))),
    "thailand": _flag(3, 2, rows("#a51931 #f4f5f8 #2d2a4a #f4f5f8 #a51931", 1, 1, 2, 1, 1)),
    "togo": _flag(
        8.09, 5, rows("#006a4e #ffce00 #006a4e #ffce00 #006a4e"), box("#d21034", 0, 0, 3, 3),
        star("white", 1.5, 1.55, 0.95)),
    "tonga": _flag(
        48, 24, rows("#c10000"), box("white", 0, 0, 20, 12), box("#c10000", 8.25, 1.5, 11.75, 10.5),
        box("#c10000", 5.5, 4.25, 14.5, 7.75)),
    "trinidad-and-tobago": _flag(
        30, 18, rows("#da1a35"), polygon("white", (0, 0), (9.17, 0), (30, 18), (20.83, 18)),
        polygon("black", (1.53, 0), (7.64, 0), (28.47, 18), (22.36, 18))),
    "tunisia": _flag(
        90, 60, rows("#e70013"), disc("white", 45, 30, 15), disc("#e70013", 45, 30, 11.25),
        disc("white", 47.5, 30, 9), star("#e70013", 47.5, 30, 6.7, angle=180)),
    "turkey": _flag(
        1.5, 1, rows("#e30a17"), disc("white", 0.5, 0.5, 0.25), disc("#e30a17", 0.5625, 0.5, 0.2),
        star("white", 0.8208, 0.5, 0.125, angle=180)),
    "ukraine": _flag(3, 2, rows("#0057b7 #ffdd00")),
    "united-arab-emirates": _flag(
        12, 6, rows("#00843d white black"), box("#c8102e", 0, 0, 3, 6)),
    "united-kingdom": _flag(60, 30, _union(1)),
    "united-states": _flag(
        1.9, 1, rows("#b22234 white " * 6 + "#b22234"), box("#3c3b6e", 0, 0, 0.76, 7 / 13),
        *_fifty_stars()),
    "vietnam": _flag(9, 6, rows("#da251d"), star("#ffff00", 4.5, 3, 1.8)),
    "yemen": _flag(3, 2, rows("#ce1126 white black")),
}
"""Country id → design, in alphabetical order."""
