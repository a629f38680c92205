"""Fit the weights of the closer look (ku_rag.retrieval.alignment) on generated scenes.

    python -m benchmarks.fit_alignment [--scenes 600] [--first 60000]

Every scene gives up to twelve sightings with their features; a conditional logit learns which of
them is the right one. With a distractor, sightings of its flag are left out: the question decides
between the two. Only tuning seeds are used. Prints the weights in units of the sighting's own
score, and the recall at 1 before and after, cross-validated over four folds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import ku_rag
from ku_rag.demo.dataset import build
from ku_rag.demo.flags import twins
from ku_rag.demo.scenes import TUNING_SEEDS, Scene, benchmark_scene
from ku_rag.retrieval.alignment import _FEATURES, _LOOKED_AT, look_closer
from ku_rag.retrieval.sighting import Sighting, look

Case = tuple[NDArray[np.float64], NDArray[np.bool_]]
FOLDS = 4


def cases(kb: ku_rag.KnowledgeBase, seeds: range) -> list[Case]:
    """Features float64[n, 10] of the sightings of each scene, and which of them are right."""
    connection = kb._database.connection
    countries = dict(
        connection.execute(
            "SELECT l.image, u.id FROM unit_images l JOIN units u ON u.row = l.unit"
        ).fetchall()
    )
    pictures = {
        row: Image.open(kb._layout.image(file)).convert("RGB")
        for row, file in connection.execute("SELECT row, file FROM images")
    }
    found = []
    for seed in seeds:
        scene = benchmark_scene(seed)
        image = scene.image.convert("RGB")
        sightings = look(
            image,
            encoder=kb.encoder,
            segmenter=kb.segmenter,
            search=kb._session.encoding.images.search,
            owner=lambda row: frozenset((row,)),
            k=_LOOKED_AT,
        )
        features, _ = look_closer(image, sightings, [pictures[s.image_row] for s in sightings])
        found.append(_case(scene, sightings, features, countries))
    return found


def _case(
    scene: Scene,
    sightings: list[Sighting],
    features: NDArray[np.float64],
    countries: dict[int, str],
) -> Case:
    seen = [countries[sighting.image_row] for sighting in sightings]
    other = twins(scene.distractor) | {scene.distractor} if scene.distractor else frozenset()
    right = twins(scene.country) | {scene.country}
    kept = [i for i, country in enumerate(seen) if country not in other]
    return features[kept], np.array([seen[i] in right for i in kept])


def fit(train: list[Case], *, decay: float = 0.005, steps: int = 1500) -> NDArray[np.float64]:
    """Weights of a conditional logit, by Adam on standardised features."""
    spread = np.concatenate([features for features, _ in train]).std(0) + 1e-6
    weights = np.zeros(len(spread))
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    usable = [(features / spread, right) for features, right in train if right.any()]
    for step in range(1, steps):
        slope = decay * weights
        for features, right in usable:
            odds = np.exp(features @ weights - (features @ weights).max())
            guess = odds / odds.sum()
            truth = guess * right / (guess * right).sum()
            slope += (guess - truth) @ features / len(usable)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        weights -= 0.05 * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights / spread


def recall(test: list[Case], weights: NDArray[np.float64]) -> float:
    """Share of scenes whose best sighting is right."""
    return float(np.mean([len(r) > 0 and bool(r[(f @ weights).argmax()]) for f, r in test]))


def main() -> int:
    """Print weights and recall."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=600)
    parser.add_argument("--first", type=int, default=60_000)
    arguments = parser.parse_args()
    if arguments.first < TUNING_SEEDS:
        parser.error(f"seeds below {TUNING_SEEDS} are for reporting")
    with tempfile.TemporaryDirectory() as folder:
        data = build(Path(folder) / "data")
        with ku_rag.KnowledgeBase.open(Path(folder) / "kb", create=True) as kb:
            kb.ingest(data / "countries.jsonl")
            found = cases(kb, range(arguments.first, arguments.first + arguments.scenes))
    alone = np.eye(len(_FEATURES))[0]
    folds = [found[i::FOLDS] for i in range(FOLDS)]
    held_out = [
        recall(fold, fit([case for other in folds if other is not fold for case in other]))
        for fold in folds
    ]
    weights = fit(found)
    for name, weight in zip(_FEATURES, weights / weights[0], strict=True):
        print(f"{name:<16} {weight:.2f}")
    print(f"weight of the score itself {weights[0]:.2f}")
    print(f"recall at 1: sightings {recall(found, alone):.3f}, aligned {np.mean(held_out):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
