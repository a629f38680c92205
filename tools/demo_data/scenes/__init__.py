"""Generated photographs of flags: scenes with a known flag at a known place.

`make_scene(rng, country)` makes one from a generator; `benchmark_scene(seed)` makes the one that
belongs to a seed by the rules of benchmarks/flags.py. Seeds 0 to 599 are for reporting only; tune
on seeds from `TUNING_SEEDS` (10,000) on.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from ku_rag.types import Box
from tools.demo_data.flags import COUNTRIES, difference, draw, proportions
from tools.demo_data.scenes.backdrops import BACKDROPS, HEIGHT, WIDTH, make_backdrop
from tools.demo_data.scenes.camera import Shot, draw_shot, jpeg
from tools.demo_data.scenes.cloth import Floats, Pose, Wave, hang, polygon_area, turned_quad
from tools.demo_data.scenes.occluders import FAR_OCCLUDERS, OCCLUDERS, hide

__all__ = ["TUNING_SEEDS", "Scene", "benchmark_scene", "make_scene"]

TUNING_SEEDS = 10_000
"""First seed that may be used for tuning; lower ones are for the report."""

_CLEARLY_DIFFERENT = 60.0
_MARGIN = 6


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture with a flag in it, and the truth about it.

    Args:
        image: RGB, 640 by 480, decoded from the file.
        file: JPEG.
        country: whose flag it is.
        box: smallest rectangle around the flag.
        share: part of the picture that the flag covers, hidden parts included, 0 to 1.
        hidden: part of the flag that an occluder covers, 0 to 1, measured.
        distractor: country of a second flag, or None.
        distractor_box: smallest rectangle around that one.
        backdrop: kind of place.
        pose: where the flag is and how it waves.
        shot: how it was photographed.
    """

    image: Image.Image
    file: bytes
    country: str
    box: Box
    share: float
    hidden: float
    distractor: str | None
    distractor_box: Box | None
    backdrop: str
    pose: Pose
    shot: Shot


def benchmark_scene(seed: int) -> Scene:
    """Make the scene of a seed by the benchmark's rules.

    A third of any 600 seeds in a row that start at a multiple of 600 have the flag at 1 to 10 % of
    the picture, uniformly; 30 % are hidden by 10 to 40 %, 30 % have a distractor, independently of
    each other and of the size. Every scene varies perspective, waving, tilt (within 20 degrees),
    exposure and JPEG quality.
    """
    rng = np.random.default_rng([seed, 2024])
    block, turn = seed // 3, seed // 30
    country, other = str(rng.choice(COUNTRIES)), None
    if (block + turn) % 10 in (1, 4, 7):
        clear = [name for name in COUNTRIES if difference(name, country) > _CLEARLY_DIFFERENT]
        other = str(rng.choice(clear))
    small, large = (0.0103, 0.0995), (0.105, 0.22 if other else 0.42)
    return make_scene(
        rng,
        country,
        share=rng.uniform(*(large if seed % 3 else small)),
        hidden=rng.uniform(0.11, 0.39) if block % 10 < 3 else 0.0,
        distractor=other,
    )


def make_scene(
    rng: np.random.Generator,
    country: str,
    *,
    share: float,
    hidden: float = 0.0,
    distractor: str | None = None,
    backdrop: str | None = None,
    tilt: float | None = None,
    wave: Wave | None = None,
    shot: Shot | None = None,
) -> Scene:
    """Draw a place, hang a flag in it and photograph it.

    Args:
        rng: decides everything that is not given.
        country: whose flag, an id of `flags.COUNTRIES`.
        share: part of the picture that the flag shall cover, 0.005 to 0.45 (to 0.25 in a pair).
        hidden: part of the flag that something shall hide, 0 or 0.1 to 0.4.
        distractor: country of a second flag of comparable size.
        backdrop: one of `backdrops.BACKDROPS`.
        tilt: degrees, -20 to 20.
        wave: how the flag waves.
        shot: camera settings.
    """
    often = np.array(list(BACKDROPS.values())) / sum(BACKDROPS.values())
    backdrop = backdrop or str(rng.choice(list(BACKDROPS), p=often))
    picture = make_backdrop(rng, backdrop)
    on_pole = backdrop not in ("room", "facade") or rng.random() < 0.4
    light = float(rng.uniform(0.82, 1.02))
    lane, other_lane, other_box = (0.0, 1.0), (0.0, 1.0), None
    if distractor:
        lane, other_lane = ((0.0, 0.5), (0.5, 1.0))[:: int(rng.choice([-1, 1]))]
        pose = _pose(rng, distractor, share * rng.uniform(0.6, 1.2), other_lane, None, None)
        other_box = _raise(picture, rng, distractor, pose, on_pole, light)[1]
    pose = _pose(rng, country, share, lane, tilt, wave)
    cover, box = _raise(picture, rng, country, pose, on_pole, light)
    covered = 0.0
    if hidden > 0:
        # Large occluders do not fit before a small flag.
        occluder = str(rng.choice(OCCLUDERS if share >= 0.1 else FAR_OCCLUDERS))
        covered = hide(picture, cover, rng, occluder, hidden)
    shot = shot or draw_shot(rng)
    file = jpeg(picture, shot, rng)
    with Image.open(io.BytesIO(file)) as stored:
        image = stored.convert("RGB")
    return Scene(
        image=image,
        file=file,
        country=country,
        box=box,
        share=float(cover.mean()),
        hidden=covered,
        distractor=distractor,
        distractor_box=other_box,
        backdrop=backdrop,
        pose=pose,
        shot=shot,
    )


def _pose(
    rng: np.random.Generator,
    country: str,
    share: float,
    lane: tuple[float, float],
    tilt: float | None,
    wave: Wave | None,
) -> Pose:
    """Turn a flag and find it a place between the left and right end of its lane (0 to 1)."""
    yaw, pitch = rng.uniform(-38, 38), rng.uniform(-16, 16)
    tilt = rng.uniform(-20, 20) if tilt is None else tilt
    wave = wave or Wave(
        height=rng.uniform(0.012, 0.075),
        count=rng.uniform(0.7, 2.0),
        phase=rng.random(),
        slant=rng.uniform(-0.15, 0.15),
        shading=rng.uniform(0.06, 0.3),
    )
    quad = turned_quad(proportions(country), yaw, pitch, tilt)
    quad *= np.sqrt(share * WIDTH * HEIGHT / polygon_area(quad))
    room = np.array([(lane[1] - lane[0]) * WIDTH, HEIGHT]) - 2 * _MARGIN
    span = np.ptp(quad, axis=0) + 2 * wave.height * np.linalg.norm(quad[3] - quad[0])
    fit = min(1.0, float((room / span).min()))
    quad, span = quad * fit, span * fit
    # A flag hangs in the upper part of a picture.
    free = np.minimum(room - span, [WIDTH, max(0.62 * HEIGHT - span[1] / 2, 2)])
    start = np.array([lane[0] * WIDTH, 0]) + _MARGIN + span / 2
    middle = start + rng.random(2) * np.maximum(free, 0)
    return Pose(quad - (quad.max(axis=0) + quad.min(axis=0)) / 2 + middle, wave)


def _raise(
    picture: Image.Image,
    rng: np.random.Generator,
    country: str,
    pose: Pose,
    on_pole: bool,
    light: float,
) -> tuple[Floats, Box]:
    """Draw the pole, then the cloth; returns its cover and its box."""
    fly_top, hoist_top, hoist_bottom = pose.quad[1], pose.quad[0], pose.quad[3]
    if on_pole:
        side = float(np.linalg.norm(hoist_bottom - hoist_top))
        down = (hoist_bottom - hoist_top) / side
        thick = max(2.0, 0.035 * side)
        beside = np.array([-down[1], down[0]]) * thick / 2
        head = hoist_top - 0.12 * side * down + beside
        foot = hoist_bottom + rng.uniform(0.8, 6.0) * side * down + beside
        grey = int(rng.integers(60, 210))
        pen = ImageDraw.Draw(picture)
        pen.line((*head, *foot), fill=(grey, grey, grey), width=round(thick))
        pen.circle((float(head[0]), float(head[1])), thick, fill=(205, 175, 80))
    width = round(1.1 * float(np.linalg.norm(fly_top - hoist_top)))
    cover = hang(picture, draw(country, max(24, width)), pose, light)
    rows, columns = np.nonzero(cover > 0.5)
    return cover, (
        int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1
    )  # fmt: skip
