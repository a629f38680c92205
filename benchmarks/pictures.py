"""Pictures matched to units by each installed encoder of pictures.

    python -m benchmarks.pictures [--tune] [--write]

Each set is matched as by `ku query`, with a unit for each thing: "clean" are photographs of
groceries in shops, with one clean picture of each product in the base; "packs" are all photographs
of packaged groceries; "shop" has four other shop photographs of each product in the base; "flags"
are flags in scenes; "icons" are icons on backgrounds (`benchmarks.picture_sets`). Even photographs
and other seeds are for tuning ("--tune"), the rest is for reports. If the extra "ocr" is installed,
encoders are measured without and with the words in the pictures. Words are cached in
benchmarks/.cache: "ms a query" does not include their recognition, "ms a picture read" is its time.
"known" is the area under the ROC curve of right matches against things missing from the base, by
confidence. Intervals are 95 %. Times are processor times of one picture on one thread in this run.
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
from benchmarks.words import StoredWords
from ku_rag.encoders import default_spec
from ku_rag.recognisers import CachedRecogniser
from ku_rag.retrieval.image_matching import THRESHOLD

_MAX_PICTURES = 120
"""Most query pictures of groceries."""


def groceries(folder: str, *, tuning: bool) -> Things:
    """Return the pictures of products in a folder, with shop photographs of them as queries."""
    stored: dict[str, list[Image]] = {}
    for picture, product, _ in zip(*load(folder), strict=True):
        stored.setdefault(str(product), []).append(picture)
    photos = [
        (picture, frozenset([str(product)]))
        for picture, product, place in zip(*load("query_photos"), strict=True)
        if place % 2 != tuning
    ]
    step = max(1, len(photos) // _MAX_PICTURES)
    return Things(stored, {name: name for name in stored}, photos[::step][:_MAX_PICTURES])


def match(things: Things, encoder: str, recogniser: CachedRecogniser | None) -> dict[str, object]:
    """Return the shares of pictures whose thing is the first match or in the first five; times."""
    if recogniser:  # fills the cache before times are measured
        for image in chain(*things.stored.values(), (image for image, _ in things.queries)):
            recogniser.read(image)
    begin = time.process_time()
    with picture_sets.base_of(things.stored, encoder, recogniser) as kb:
        ingest = (time.process_time() - begin) / sum(map(len, things.stored.values()))
        first, among, seconds = [], [], []
        for image, truth in things.queries:
            begin = time.process_time()
            units = [unit.id for unit in kb.search(image=image, k=5).units]
            seconds.append(time.process_time() - begin)
            first.append(not truth.isdisjoint(units[:1]))
            among.append(not truth.isdisjoint(units))
    return {
        "pictures": len(things.queries),
        "R@1": mean(first),
        "R@5": mean(among),
        "ms a query": round(float(np.median(seconds)) * 1e3),
        "ms a stored picture": round(ingest * 1e3, 1),
    }


def confidence_figures(
    things: Things, encoder: str, recogniser: CachedRecogniser | None
) -> dict[str, object]:
    """Return how well confidence distinguishes right matches from unknown things."""
    rows = picture_sets.match_halves(things, encoder, recogniser)
    sure = rows[:, 4] >= THRESHOLD
    right, in_base = rows[:, 1] == 1, rows[:, 0] == 1
    return {
        "known": round(auroc(rows, rows[:, 4]), 3),
        "sure of right": round(float(sure[right].mean()), 3),
        "sure of wrong": round(float(sure[in_base & ~right].mean()), 3),
        "sure of unknown": round(float(sure[~in_base].mean()), 3),
    }


def measure(
    encoder: str, recogniser: CachedRecogniser | None, *, tuning: bool
) -> dict[str, dict[str, object]]:
    """Return all figures of an encoder, with or without a recogniser, by set."""
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
            figures[name] |= confidence_figures(halves, encoder, recogniser)
        print(encoder, "with words" * bool(recogniser), name, json.dumps(figures[name]), flush=True)
    return figures


def reading_time() -> int:
    """Return milliseconds of processor time to read the words in a shop photograph."""
    recogniser, photos = CachedRecogniser("rapidocr"), load("query_photos")[0][::20]
    recogniser.read(photos[1])
    begin = time.process_time()
    for photo in photos:
        recogniser.read(photo)
    return round((time.process_time() - begin) / len(photos) * 1e3)


def main(arguments: Sequence[str]) -> None:
    """Measure all encoders; `--tune` uses the pictures for tuning, `--write` writes the result."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    recognisers: dict[str, CachedRecogniser | None] = {"": None}
    figures: dict[str, object] = {}
    if find_spec("rapidocr"):
        recognisers[", words"] = StoredWords()
        figures["ms a picture read"] = reading_time()
    for encoder in dict.fromkeys(("embedded", default_spec())):
        for name, recogniser in recognisers.items():
            figures[encoder + name] = measure(encoder, recogniser, tuning="--tune" in arguments)
    if "--write" in arguments:
        write_result("pictures", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
