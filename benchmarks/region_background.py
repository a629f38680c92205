"""Regions cut out with their background kept or masked out: which finds the stored picture?

    python -m benchmarks.region_background [--scenes N] [--write]

Shapes are drawn on cluttered grounds; the tests' small YOLO network finds them. The clean drawings
of 400 looks, each alone on white, are what is stored, described by the embedded encoder. Every
region that covers a shape (intersection over union of the boxes from 0.5) looks for its look.
Then whole pictures are matched, without being told which region counts: by `match_regions`, and by
`match_windows`, which is made for windows. Needs the extra yolo.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.record import write_result
from ku_rag.encoders.base import Vectors
from ku_rag.encoders.embedded import EmbeddedEncoder
from ku_rag.regions.crops import BACKGROUNDS
from ku_rag.retrieval.image_matching import match_regions
from ku_rag.retrieval.window_matching import RegionMatch, Search, match_windows
from ku_rag.types import Box, Region
from tests.assets.shapes import Drawn, alone, look, scene

WEIGHTS = Path(__file__).parents[1] / "tests" / "assets" / "shapes-seg.pt"
SEED = 20250228
STORED = 400
SIZE = (320, 240)
FILLS = {
    "black": (0, 0, 0),
    "grey of CLIP's photographs": (123, 117, 104),
    "white": (255, 255, 255),
}


def overlap(first: Box, second: Box) -> float:
    """Intersection over union of two boxes."""
    wide = min(first[2], second[2]) - max(first[0], second[0])
    high = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(wide, 0) * max(high, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (first, second)]
    return shared / (sum(areas) - shared)


def filled(part: Image.Image, mask: NDArray[np.bool_], colour: tuple[int, int, int]) -> Image.Image:
    """The part with what the mask leaves out in one colour."""
    pixels = np.asarray(part).copy()
    pixels[~mask] = colour
    return Image.fromarray(pixels)


def cuts(image: Image.Image, region: Region) -> dict[str, Image.Image]:
    """The region cut out in every way that is compared."""
    assert region.mask is not None
    part = image.crop(region.box)
    found = {"kept": part}
    for name, colour in FILLS.items():
        found[f"masked, {name}"] = filled(part, region.mask, colour)
    red, green, blue = (int(value) for value in np.asarray(image).mean((0, 1)))
    found["masked, the picture's mean"] = filled(part, region.mask, (red, green, blue))
    whole = np.zeros((image.height, image.width), bool)
    x0, y0, x1, y1 = region.box
    whole[y0:y1, x0:x1] = region.mask
    found["masked, black, the whole picture's size"] = filled(image, whole, (0, 0, 0))
    return found


def matched(regions: list[Region], drawn: list[Drawn]) -> list[tuple[Region, int]]:
    """Each region that covers a shape, with that shape's place."""
    pairs = []
    for region in regions:
        shares = [overlap(region.box, shape.box) for shape in drawn]
        if shares and max(shares) >= 0.5:
            pairs.append((region, int(np.argmax(shares))))
    return pairs


def searching(stored: Vectors) -> Search:
    """A search of the stored vectors."""

    def search(queries: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
        cosines = queries @ stored.T
        rows = np.argsort(-cosines, axis=1)[:, :k].astype(np.int64)
        return rows, np.take_along_axis(cosines, rows, axis=1)

    return search


class Seen:
    """How often what is seen first is there, and which share of what is there is seen."""

    def __init__(self) -> None:
        self.first, self.found, self.scenes, self.there = 0, 0, 0, 0

    def count(self, matches: list[RegionMatch], truth: set[int]) -> None:
        """Take in what was seen in one scene."""
        rows = [one.image_row for one in matches]
        self.first += rows[0] in truth
        self.found += len(truth & set(rows[: len(truth)]))
        self.scenes += 1
        self.there += len(truth)

    def shares(self) -> dict[str, float]:
        """For the record."""
        return {
            "first_is_there": round(self.first / self.scenes, 3),
            "there_is_seen": round(self.found / self.there, 3),
        }


def main() -> None:
    """Measure, print, and write the result if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scenes", type=int, default=300)
    parser.add_argument("--looks", type=int, default=100, help="scenes for `match_windows`")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if not importlib.util.find_spec("ultralytics"):
        print('ultralytics is not installed: pip install "ku-rag[yolo]"')
        return
    from ku_rag.regions.yolo import YoloSegmenter

    random = np.random.default_rng(SEED)
    looks = [look(random) for _ in range(STORED)]
    encoder = EmbeddedEncoder()
    stored = encoder.encode_images([alone(one) for one in looks])
    segmenter = YoloSegmenter(str(WEIGHTS), device="cpu", min_side=20)
    crops: dict[str, list[Image.Image]] = {}
    wanted = []
    shapes = 0
    search, ways = (
        searching(stored),
        {name: Seen() for name in ("match_regions, mask", "match_regions, keep", "match_windows")},
    )
    for number in range(arguments.scenes):
        chosen = [looks[n] for n in random.choice(STORED, random.integers(1, 5), replace=False)]
        image, drawn = scene(random, SIZE, chosen, (0.25, 0.5))
        shapes += len(drawn)
        regions = segmenter.propose(image)
        truth = {looks.index(shape.look) for shape in drawn}
        for background in BACKGROUNDS:
            matches = match_regions(
                image,
                regions=[Region((0, 0, *SIZE), "whole"), *regions],
                encoder=encoder,
                search=search,
                owner=lambda row: frozenset([row]),
                background=background,
            )
            ways[f"match_regions, {background}"].count(matches, truth)
        if number < arguments.looks:
            matches = match_windows(
                image,
                encoder=encoder,
                segmenter=segmenter,
                search=search,
                owner=lambda row: frozenset([row]),
            )
            ways["match_windows"].count(matches, truth)
        for region, at in matched(regions, drawn):
            wanted.append(looks.index(drawn[at].look))
            x0, y0, x1, y1 = region.box
            true = replace(region, mask=drawn[at].mask[y0:y1, x0:x1])
            found = cuts(image, region)
            if true.mask is not None and true.mask.any():
                found["masked by the true mask, black"] = cuts(image, true)["masked, black"]
            for name, part in found.items():
                crops.setdefault(name, []).append(part)
    recalls = {}
    for name, parts in crops.items():
        cosines = encoder.encode_images(parts) @ stored.T
        of_wanted = cosines[np.arange(len(wanted)), wanted]
        rank = (cosines > of_wanted[:, None]).sum(1)
        recalls[name] = {
            "recall_at_1": round(float((rank < 1).mean()), 3),
            "recall_at_3": round(float((rank < 3).mean()), 3),
            "cosine": round(float(of_wanted.mean()), 3),
        }
        print(f"{name:42} {recalls[name]}")
    for name, seen in ways.items():
        print(f"{name:42} {seen.shares()}")
    print(f"{len(wanted)} regions over {shapes} shapes in {arguments.scenes} scenes")
    if arguments.write:
        write_result(
            "region_background",
            {
                "segmenter": segmenter.fingerprint,
                "ultralytics": importlib.metadata.version("ultralytics"),
                "stored": STORED,
                "scenes": arguments.scenes,
                "shapes": shapes,
                "regions": len(wanted),
                "recalls": recalls,
                "whole_pictures": {name: seen.shares() for name, seen in ways.items()},
            },
        )


if __name__ == "__main__":
    main()
