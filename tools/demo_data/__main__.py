"""Draw the pictures and write the records of `ku demo` that the package holds.

python -m tools.demo_data
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from ku_rag.demo.dataset import FLAGS, RECORDS, SCENES
from tools.demo_data.facts import countries
from tools.demo_data.flags import COUNTRIES, draw
from tools.demo_data.records import unit_record
from tools.demo_data.scenes import Scene, make_scene
from tools.demo_data.scenes.camera import Shot
from tools.demo_data.scenes.cloth import Wave

FLAG_WIDTH = 320
"""Of the flags that are written, in pixels."""

_BAD = Shot(exposure=-0.9, red=1.12, blue=0.88, blur=1.2, noise=9, vignette=0.35, quality=22)
_STORM = Wave(height=0.085, count=1.9, phase=0.2, slant=0.1, shading=0.32)

# fmt: off
_TOUR = (
    (1, {"country": "sweden", "share": 0.16, "backdrop": "sky"}),
    (2, {"country": "germany", "share": 0.2, "backdrop": "landscape", "wave": _STORM}),
    (3, {"country": "south-africa", "share": 0.18, "backdrop": "street", "tilt": -19.0}),
    (16, {"country": "canada", "share": 0.2, "backdrop": "landscape", "hidden": 0.25}),
    (5, {"country": "jamaica", "share": 0.022, "backdrop": "landscape"}),
    (6, {"country": "kuwait", "share": 0.15, "backdrop": "street", "shot": _BAD}),
    (7, {"country": "bangladesh", "distractor": "greece", "share": 0.12, "backdrop": "sky"}),
    (8, {"country": "luxembourg", "share": 0.16, "backdrop": "facade"}),
    (9, {"country": "ghana", "distractor": "japan", "share": 0.1, "backdrop": "room"}),
    (10, {"country": "iceland", "share": 0.15, "backdrop": "sky"}),
)
# fmt: on
"""Seed and arguments of each scene of the tour, in order."""


def tour_scenes() -> Iterator[Scene]:
    """Make the ten scenes of the tour."""
    for seed, scene in _TOUR:
        yield make_scene(np.random.default_rng(seed), **scene)


def records() -> str:
    """Return the unit records as JSON lines."""
    lines = (json.dumps(unit_record(one), ensure_ascii=False) for one in countries().values())
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Write all flags, records and scenes."""
    for country in COUNTRIES:
        draw(country, FLAG_WIDTH).save(FLAGS / f"{country}.png")
    RECORDS.write_text(records(), encoding="utf-8")
    for number, scene in enumerate(tour_scenes(), 1):
        (SCENES / f"{number:02d}.jpg").write_bytes(scene.file)


if __name__ == "__main__":
    main()
