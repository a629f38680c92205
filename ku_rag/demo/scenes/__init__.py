"""Photographs of flags that nobody took: scenes with a known flag at a known place.

`make_scene(rng, ...)` makes one from a generator; `benchmark_scene(seed)` makes the one that
belongs to a seed by the rules of benchmarks/flags.py. Seeds 0 to 599 are for reporting only; tune
on seeds from `TUNING_SEEDS` (10,000) on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from ku_rag.demo.flags import COUNTRIES, difference, draw, proportions
from ku_rag.demo.scenes.backdrops import BACKDROPS, make_backdrop
from ku_rag.demo.scenes.camera import Shot, draw_shot, photograph
from ku_rag.demo.scenes.cloth import Floats, Quad, Wave, hang, polygon_area, turned_quad
from ku_rag.demo.scenes.occluders import FAR_OCCLUDERS, OCCLUDERS, hide
from ku_rag.types import Box

__all__ = ["TUNING_SEEDS", "Scene", "benchmark_scene", "make_scene"]

TUNING_SEEDS = 10_000
"""First seed that may be used for tuning; lower ones are for the report."""

_CLEARLY_DIFFERENT = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture with a flag in it, and the truth about it.

    Args:
        image: RGB, 640 by 480 unless told otherwise, already through JPEG.
        country: whose flag it is.
        quad: corners of the flag before waving: top hoist, top fly, bottom fly, bottom hoist.
        box: smallest rectangle around the flag.
        share: part of the picture that the flag covers, hidden parts included, 0 to 1.
        hidden: part of the flag that something stands in front of, 0 to 1, measured.
        distractor: country of a second flag, or None.
        distractor_box: smallest rectangle around that one.
        backdrop: kind of place.
        mount: "pole" or "wall".
        occluder: what hides it, or None.
        yaw: turn of the flag about its upright axis, degrees.
        pitch: turn about its level axis, degrees.
        tilt: turn in the picture's plane, degrees.
        wave: how it waves.
        shot: how it was photographed.
    """

    image: Image.Image
    country: str
    quad: Quad
    box: Box
    share: float
    hidden: float
    distractor: str | None
    distractor_box: Box | None
    backdrop: str
    mount: str
    occluder: str | None
    yaw: float
    pitch: float
    tilt: float
    wave: Wave
    shot: Shot


def benchmark_scene(seed: int, size: tuple[int, int] = (640, 480)) -> Scene:
    """Make the scene of a seed by the benchmark's rules.

    A third of any 600 seeds in a row that start at a multiple of 600 have the flag at 1 to 10 % of
    the picture, uniformly; 30 % are hidden by 10 to 40 %, 30 % have a distractor, independently of
    each other and of the size. Every scene varies perspective, waving, tilt (within 20 degrees),
    exposure and JPEG quality.
    """
    rng = np.random.default_rng([seed, 2024])
    block, turn = seed // 3, seed // 30
    small = seed % 3 == 0
    hidden = block % 10 < 3
    pair = (block + turn) % 10 in (1, 4, 7)
    share = rng.uniform(0.0103, 0.0995) if small else rng.uniform(0.105, 0.22 if pair else 0.42)
    return make_scene(
        rng,
        share=float(share),
        hidden=float(rng.uniform(0.11, 0.39)) if hidden else 0.0,
        pair=pair,
        size=size,
    )


def make_scene(
    rng: np.random.Generator,
    *,
    country: str | None = None,
    share: float | None = None,
    hidden: float = 0.0,
    pair: bool = False,
    distractor: str | None = None,
    backdrop: str | None = None,
    mount: str | None = None,
    tilt: float | None = None,
    wave: Wave | None = None,
    shot: Shot | None = None,
    size: tuple[int, int] = (640, 480),
) -> Scene:
    """Draw a place, hang a flag in it and photograph it.

    Args:
        rng: decides everything that is not given.
        country: whose flag, an id of `flags.COUNTRIES`.
        share: part of the picture that the flag shall cover, 0.005 to 0.45 (to 0.25 in a pair).
        hidden: part of the flag that something shall hide, 0 or 0.1 to 0.4.
        pair: whether a second, clearly different flag of comparable size is in the picture.
        distractor: whose that is; implies `pair`.
        backdrop: one of `backdrops.BACKDROPS`.
        mount: "pole" or "wall".
        tilt: degrees, -20 to 20.
        wave: how the flag waves.
        shot: camera settings.
        size: of the picture in pixels.
    """
    width, height = size
    country = country or str(rng.choice(COUNTRIES))
    backdrop = backdrop or str(rng.choice(BACKDROPS))
    indoors = backdrop in ("room", "facade")
    mount = mount or ("wall" if indoors and rng.random() < 0.6 else "pole")
    share = float(rng.uniform(0.05, 0.3)) if share is None else share
    if pair and distractor is None:
        distractor = _other(rng, country)
    picture = make_backdrop(rng, backdrop, width, height)
    light = float(rng.uniform(0.82, 1.02))
    lanes: list[tuple[float, float]] = [(0.0, 1.0)]
    if distractor:
        middle = 0.5 + rng.uniform(-0.02, 0.02)
        lanes = [(0.0, middle), (middle, 1.0)]
        if rng.random() < 0.5:
            lanes.reverse()
    distractor_box = None
    if distractor:
        other = _place(rng, distractor, share * rng.uniform(0.6, 1.2), lanes[1], size)
        distractor_box = _raise(picture, rng, distractor, other, mount, light)[1]
    placed = _place(rng, country, share, lanes[0], size, tilt=tilt, wave=wave)
    cover, box = _raise(picture, rng, country, placed, mount, light)
    occluder, covered = None, 0.0
    if hidden > 0:
        # Nobody stands or holds a hand before a flag that is far away.
        occluder = str(rng.choice(OCCLUDERS if share >= 0.1 else FAR_OCCLUDERS))
        covered = hide(picture, cover, rng, occluder, hidden)
    shot = shot or draw_shot(rng)
    quad = [(float(x), float(y)) for x, y in placed.quad]
    return Scene(
        image=photograph(picture, shot, rng),
        country=country,
        quad=(quad[0], quad[1], quad[2], quad[3]),
        box=box,
        share=float(cover.mean()),
        hidden=covered,
        distractor=distractor,
        distractor_box=distractor_box,
        backdrop=backdrop,
        mount=mount,
        occluder=occluder,
        yaw=placed.yaw,
        pitch=placed.pitch,
        tilt=placed.tilt,
        wave=placed.wave,
        shot=shot,
    )


@dataclass(frozen=True, slots=True)
class _Placed:
    quad: Floats
    yaw: float
    pitch: float
    tilt: float
    wave: Wave


def _other(rng: np.random.Generator, country: str) -> str:
    choices = [c for c in COUNTRIES if c != country and difference(c, country) > _CLEARLY_DIFFERENT]
    return str(rng.choice(choices))


def _place(
    rng: np.random.Generator,
    country: str,
    share: float,
    lane: tuple[float, float],
    size: tuple[int, int],
    *,
    tilt: float | None = None,
    wave: Wave | None = None,
) -> _Placed:
    """Turn a flag and find it a place inside its part of the picture."""
    width, height = size
    yaw, pitch = float(rng.uniform(-38, 38)), float(rng.uniform(-16, 16))
    lean = float(rng.uniform(-20, 20)) if tilt is None else tilt
    wave = wave or Wave(
        height=float(rng.uniform(0.012, 0.075)),
        count=float(rng.uniform(0.7, 2.0)),
        phase=float(rng.random()),
        slant=float(rng.uniform(-0.15, 0.15)),
        shading=float(rng.uniform(0.06, 0.3)),
    )
    quad = turned_quad(proportions(country), yaw, pitch, lean)
    quad *= np.sqrt(share * width * height / polygon_area(quad))
    left, right = lane[0] * width + 6, lane[1] * width - 6
    span = quad.max(axis=0) - quad.min(axis=0)
    ripple = 2 * wave.height * float(np.linalg.norm(quad[3] - quad[0]))
    fit = min(1.0, (right - left) / (span[0] + ripple), (height - 12) / (span[1] + ripple))
    quad, span = quad * fit, (span + ripple) * fit
    middle = (quad.max(axis=0) + quad.min(axis=0)) / 2
    x = rng.uniform(left + span[0] / 2, right - span[0] / 2 + 1e-6)
    lowest = min(height - 6 - span[1] / 2, max(0.62 * height, 8 + span[1] / 2))
    y = rng.uniform(6 + span[1] / 2, lowest + 1e-6)
    return _Placed(quad - middle + np.array([x, y]), yaw, pitch, lean, wave)


def _raise(
    picture: Image.Image,
    rng: np.random.Generator,
    country: str,
    placed: _Placed,
    mount: str,
    light: float,
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float32]], Box]:
    """Draw the pole, then the cloth; returns its cover and its box."""
    quad = placed.quad
    if mount == "pole":
        top, bottom = quad[0], quad[3]
        down = (bottom - top) / float(np.linalg.norm(bottom - top))
        side = float(np.linalg.norm(bottom - top))
        thick = max(2.0, 0.035 * side)
        head, foot = top - down * 0.12 * side, bottom + down * rng.uniform(0.8, 6.0) * side
        tone = int(rng.integers(70, 225))
        out = np.array([-down[1], down[0]]) * thick * 0.5
        pen = ImageDraw.Draw(picture)
        for shift, shade in ((0.0, 1.0), (0.25, 0.75)):
            a, b = head + out * (1 + shift), foot + out * (1 + shift)
            colour = round(tone * shade)
            pen.line(
                (*a, *b),
                fill=(colour, colour, colour),
                width=max(1, round(thick * (1 - 2 * shift))),
            )
        ball = head + out
        knob = (ball[0] - thick, ball[1] - thick, ball[0] + thick, ball[1] + thick)
        pen.ellipse(knob, fill=(205, 175, 80))
    long = float(np.linalg.norm(quad[1] - quad[0]))
    texture = draw(country, max(24, round(long * 1.1)))
    cover = hang(picture, texture, quad, placed.wave, light)
    rows, columns = np.nonzero(cover > 0.5)
    box = (int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1)
    return cover, box
