"""Pictures matched to units, by each encoder of pictures that is installed.

    python -m benchmarks.pictures [--tune] [--write]

Each set is matched as `ku query` does, with a unit for each thing: "clean" are photographs of
groceries in shops, with one clean picture of each product in the base, "packs" all of packaged
ones; "shop" has four other shop photographs of it; "flags" are flags in scenes, "icons" icons on
places, see `benchmarks.picture_sets`. The even photographs and other seeds are for tuning
("--tune"), the rest for reports. Where the extra "ocr" is installed, encoders are measured without
and with the words printed in the pictures. Words are kept in benchmarks/.cache: "ms a query" leaves
out their recognition, "ms a picture read" is its time. "known" is the area under the ROC curve of
right matches against things that the base does not have, by confidence. Intervals are of 95 %.
Times are processor times of one picture on one thread, in this run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain

import numpy as np
from PIL.Image import Image

from benchmarks import picture_sets
from benchmarks.confidence import auroc
from benchmarks.picture_sets import Things, load
from benchmarks.record import mean, write_result
from benchmarks.words import KeptWords
from ku_rag.encoders import default_spec
from ku_rag.recognisers import CachedRecogniser
from ku_rag.retrieval.image_matching import THRESHOLD

_ASKED = 120
"""Pictures of groceries."""


def groceries(folder: str, *, tuning: bool) -> Things:
    """The pictures of products in a folder, and shop photographs of them."""
    stored: dict[str, list[Image]] = {}
    for picture, product, _ in zip(*load(folder), strict=True):
        stored.setdefault(str(product), []).append(picture)
    photos = [
        (picture, frozenset([str(product)]))
        for picture, product, place in zip(*load("query_photos"), strict=True)
        if place % 2 != tuning
    ]
    step = max(1, len(photos) // _ASKED)
    return Things(stored, {name: name for name in stored}, photos[::step][:_ASKED])


def match(things: Things, encoder: str, recogniser: CachedRecogniser | None) -> dict[str, object]:
    """The shares of pictures whose thing is the first match, and among the first five; times."""
    if recogniser:  # before times are measured
        for image in chain(*things.stored.values(), (image for image, _ in things.asked)):
            recogniser.read(image)
    begin = time.process_time()
    with picture_sets.base_of(things.stored, encoder, recogniser) as kb:
        ingest = (time.process_time() - begin) / sum(map(len, things.stored.values()))
        first, among, seconds = [], [], []
        for image, truth in things.asked:
            begin = time.process_time()
            found = [unit.id for unit in kb.search(image=image, k=5).units]
            seconds.append(time.process_time() - begin)
            first.append(not truth.isdisjoint(found[:1]))
            among.append(not truth.isdisjoint(found))
    return {
        "pictures": len(things.asked),
        "R@1": mean(first),
        "R@5": mean(among),
        "ms a query": round(float(np.median(seconds)) * 1e3),
        "ms a stored picture": round(ingest * 1e3, 1),
    }


def known(things: Things, encoder: str, recogniser: CachedRecogniser | None) -> dict[str, object]:
    """How well confidence tells right matches from unknown things."""
    rows = picture_sets.match_halves(things, encoder, recogniser)
    sure = rows[:, 4] >= THRESHOLD
    right, is_known = rows[:, 1] == 1, rows[:, 0] == 1
    return {
        "known": round(auroc(rows, rows[:, 4]), 3),
        "sure of right": round(float(sure[right].mean()), 3),
        "sure of wrong": round(float(sure[is_known & ~right].mean()), 3),
        "sure of unknown": round(float(sure[~is_known].mean()), 3),
    }


def measure(
    encoder: str, recogniser: CachedRecogniser | None, *, tuning: bool
) -> dict[str, dict[str, object]]:
    """All figures of an encoder, with or without a recogniser, by set."""
    figures: dict[str, dict[str, object]] = {}
    for name, things in (
        ("clean", groceries("units", tuning=tuning)),
        ("packs", picture_sets.packs(tuning)),
        ("shop", groceries("kb_photos", tuning=tuning)),
        ("flags", picture_sets.flags(tuning)),
        ("icons", picture_sets.icons(tuning)),
    ):
        halves = picture_sets.groceries(tuning) if name == "shop" else things
        figures[name] = match(things, encoder, recogniser)
        if name != "clean":
            figures[name] |= known(halves, encoder, recogniser)
        print(encoder, "with words" * bool(recogniser), name, json.dumps(figures[name]), flush=True)
    return figures


def reading_time() -> int:
    """Processor time of the words in one shop photograph."""
    recogniser, photos = CachedRecogniser("rapidocr"), load("query_photos")[0][::20]
    recogniser.read(photos[1])
    begin = time.process_time()
    for photo in photos:
        recogniser.read(photo)
    return round((time.process_time() - begin) / len(photos) * 1e3)


def main(arguments: Sequence[str]) -> None:
    """Measure all encoders; `--tune` takes the other half of the pictures."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    recognisers: dict[str, CachedRecogniser | None] = {"": None}
    figures: dict[str, object] = {}
    if find_spec("rapidocr"):
        recognisers[", words"] = KeptWords()
        figures["ms a picture read"] = reading_time()
    for encoder in dict.fromkeys(("embedded", default_spec())):
        for name, recogniser in recognisers.items():
            figures[encoder + name] = measure(encoder, recogniser, tuning="--tune" in arguments)
    if "--write" in arguments:
        write_result("pictures", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
