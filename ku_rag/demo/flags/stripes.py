"""Flags of stripes, serrated edges and triangles alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ku_rag.demo.flags.canvas import Canvas


@dataclass(frozen=True, slots=True)
class Design:
    """How a flag is drawn: its size in units of its own choice, and the strokes."""

    width: float
    height: float
    paint: Callable[[Canvas], None]


def _rows(
    width: float, height: float, *colours: str, weights: Sequence[float] | None = None
) -> Design:
    return Design(width, height, lambda canvas: canvas.rows(colours, weights))


def _columns(
    width: float, height: float, *colours: str, weights: Sequence[float] | None = None
) -> Design:
    return Design(width, height, lambda canvas: canvas.columns(colours, weights))


def _kuwait(c: Canvas) -> None:
    c.rows(["#007a3d", "#ffffff", "#ce1126"])
    c.polygon([(0, 0), (3, 2), (3, 4), (0, 6)], "#000000")


def _emirates(c: Canvas) -> None:
    c.rows(["#00843d", "#ffffff", "#000000"])
    c.box(0, 0, 3, 6, "#c8102e")


def _benin(c: Canvas) -> None:
    c.rows(["#fcd116", "#e8112d"])
    c.box(0, 0, 1.2, 2, "#008751")


def _madagascar(c: Canvas) -> None:
    c.rows(["#f9423a", "#00843d"])
    c.box(0, 0, 1, 2, "#ffffff")


def _serrated(c: Canvas, colour: str, left: float, right: float, teeth: int) -> None:
    """White hoist with `teeth` points that reach from `left` to `right`."""
    c.fill(colour)
    step = c.height / teeth
    edge = [(0.0, 0.0), (left, 0.0)]
    for i in range(teeth):
        edge += [(right, (i + 0.5) * step), (left, (i + 1) * step)]
    c.polygon([*edge, (0.0, c.height)], "#ffffff")


def _czechia(c: Canvas) -> None:
    c.rows(["#ffffff", "#d7141a"])
    c.polygon([(0, 0), (3, 2), (0, 4)], "#11457e")


def _bahamas(c: Canvas) -> None:
    c.rows(["#00778b", "#ffc72c", "#00778b"])
    c.polygon([(0, 0), (5.196, 3), (0, 6)], "#000000")


def _congo(c: Canvas) -> None:
    c.fill("#fbde4a")
    c.polygon([(0, 0), (4, 0), (0, 4)], "#009543")
    c.polygon([(6, 0), (6, 4), (2, 4)], "#dc241f")


def _tanzania(c: Canvas) -> None:
    c.polygon([(0, 0), (72, 0), (0, 48)], "#1eb53a")
    c.polygon([(72, 0), (72, 48), (0, 48)], "#00a3dd")
    c.stroke((-36, 72), (108, -24), 19, "#fcd116")
    c.stroke((-36, 72), (108, -24), 13, "#000000")


def _trinidad(c: Canvas) -> None:
    c.fill("#da1a35")
    c.polygon([(0, 0), (9.17, 0), (30, 18), (20.83, 18)], "#ffffff")
    c.polygon([(1.53, 0), (7.64, 0), (28.47, 18), (22.36, 18)], "#000000")


def _seychelles(c: Canvas) -> None:
    c.fill("#003d88")
    c.polygon([(0, 3), (2, 0), (4, 0)], "#fcd955")
    c.polygon([(0, 3), (4, 0), (6, 0), (6, 1)], "#d92223")
    c.polygon([(0, 3), (6, 1), (6, 2)], "#ffffff")
    c.polygon([(0, 3), (6, 2), (6, 3)], "#007a39")


def _south_africa(c: Canvas) -> None:
    c.rows(["#e03c31", "#001489"])

    # The green Y: its arms end in the hoist corners, white outside, gold inside.
    def arms(thickness: float, colour: str) -> None:
        c.stroke((-30, -20), (30, 20), thickness, colour)
        c.stroke((-30, 60), (30, 20), thickness, colour)
        c.box(30, 20 - thickness / 2, 60, 20 + thickness / 2, colour)
        c.disc(30, 20, thickness / 2, colour)

    arms(40 / 3, "#ffffff")
    c.polygon([(0, 3.0), (0, 37.0), (25.5, 20)], "#ffb81c")
    c.polygon([(0, 8.01), (0, 31.99), (17.98, 20)], "#000000")
    arms(8, "#007749")
    c.polygon([(0, 4.807), (0, 35.193), (22.79, 20)], "#ffb81c")
    c.polygon([(0, 8.01), (0, 31.99), (17.98, 20)], "#000000")


STRIPES: dict[str, Design] = {
    "armenia": _rows(2, 1, "#d90012", "#0033a0", "#f2a800"),
    "austria": _rows(3, 2, "#c8102e", "#ffffff", "#c8102e"),
    "bahamas": Design(12, 6, _bahamas),
    "bahrain": Design(5, 3, lambda c: _serrated(c, "#ce1126", 1.25, 2.0, 5)),
    "belgium": _columns(15, 13, "#000000", "#fdda24", "#ef3340"),
    "benin": Design(3, 2, _benin),
    "botswana": _rows(
        3, 2, "#6da9d2", "#ffffff", "#000000", "#ffffff", "#6da9d2", weights=(9, 1, 4, 1, 9)
    ),
    "bulgaria": _rows(5, 3, "#ffffff", "#00966e", "#d62612"),
    "chad": _columns(3, 2, "#002664", "#fecb00", "#c60c30"),
    "colombia": _rows(3, 2, "#fcd116", "#003087", "#ce1126", weights=(2, 1, 1)),
    "costa-rica": _rows(
        5, 3, "#002b7f", "#ffffff", "#ce1126", "#ffffff", "#002b7f", weights=(1, 1, 2, 1, 1)
    ),
    "czechia": Design(6, 4, _czechia),
    "estonia": _rows(11, 7, "#0072ce", "#000000", "#ffffff"),
    "france": _columns(3, 2, "#000091", "#ffffff", "#e1000f"),
    "gabon": _rows(4, 3, "#009e60", "#fcd116", "#3a75c4"),
    "gambia": _rows(
        3, 2, "#ce1126", "#ffffff", "#0c1c8c", "#ffffff", "#3a7728", weights=(6, 1, 4, 1, 6)
    ),
    "germany": _rows(5, 3, "#000000", "#dd0000", "#ffcc00"),
    "guinea": _columns(3, 2, "#ce1126", "#fcd116", "#009460"),
    "hungary": _rows(2, 1, "#ce2939", "#ffffff", "#477050"),
    "indonesia": _rows(3, 2, "#ce1126", "#ffffff"),
    "ireland": _columns(2, 1, "#169b62", "#ffffff", "#ff883e"),
    "italy": _columns(3, 2, "#008c45", "#f4f9ff", "#cd212a"),
    "ivory-coast": _columns(3, 2, "#ff8200", "#ffffff", "#009a44"),
    "kuwait": Design(12, 6, _kuwait),
    "latvia": _rows(2, 1, "#9e1b34", "#ffffff", "#9e1b34", weights=(2, 1, 2)),
    "lithuania": _rows(5, 3, "#fdb913", "#006a44", "#c1272d"),
    "luxembourg": _rows(5, 3, "#ef3340", "#ffffff", "#00a3e0"),
    "madagascar": Design(3, 2, _madagascar),
    "mali": _columns(3, 2, "#14b53a", "#fcd116", "#ce1126"),
    "mauritius": _rows(3, 2, "#ea2839", "#1a206d", "#ffd500", "#00a551"),
    "monaco": _rows(5, 4, "#ce1126", "#ffffff"),
    "netherlands": _rows(3, 2, "#ae1c28", "#ffffff", "#21468b"),
    "nigeria": _columns(2, 1, "#008751", "#ffffff", "#008751"),
    "peru": _columns(3, 2, "#d91023", "#ffffff", "#d91023"),
    "poland": _rows(8, 5, "#ffffff", "#dc143c"),
    "qatar": Design(28, 11, lambda c: _serrated(c, "#8a1538", 8.1, 11.9, 9)),
    "republic-of-the-congo": Design(6, 4, _congo),
    "romania": _columns(3, 2, "#002b7f", "#fcd116", "#ce1126"),
    "russia": _rows(3, 2, "#ffffff", "#0039a6", "#d52b1e"),
    "seychelles": Design(6, 3, _seychelles),
    "sierra-leone": _rows(3, 2, "#1eb53a", "#ffffff", "#0072c6"),
    "south-africa": Design(60, 40, _south_africa),
    "tanzania": Design(72, 48, _tanzania),
    "thailand": _rows(
        3, 2, "#a51931", "#f4f5f8", "#2d2a4a", "#f4f5f8", "#a51931", weights=(1, 1, 2, 1, 1)
    ),
    "trinidad-and-tobago": Design(30, 18, _trinidad),
    "ukraine": _rows(3, 2, "#0057b7", "#ffdd00"),
    "united-arab-emirates": Design(12, 6, _emirates),
    "yemen": _rows(3, 2, "#ce1126", "#ffffff", "#000000"),
}
"""Country id → design."""
