"""The embedded reranker, on and off: places of the first gold chunk among 20.

    python -m benchmarks.rerank [--tune] [--write]

A chunk is gold if it is of a gold unit, and for flags and groceries holds the answer. Weights were
chosen on --tune: other scenes, photos and questions of OTT-QA. HotpotQA is only reported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from benchmarks.fact_questions import LINES, labelled_lines
from benchmarks.flag_questions import benchmark_question
from benchmarks.flags import holds
from benchmarks.picture_sets import load
from benchmarks.questions import DATA, about_passages, hotpotqa, ottqa
from benchmarks.record import mean, write_result
from benchmarks.retrieval import fill
from ku_rag import KnowledgeBase
from ku_rag.demo.dataset import build
from ku_rag.evaluation.statistics import paired_p_value
from tools.demo_data.scenes import TUNING_SEEDS, benchmark_scene

_SCENES = 200
Asked = list[tuple[Image.Image | None, str, set[str], Sequence[str]]]  # gold units and answers


def prepare(folder: Path, *, tune: bool) -> Asked:
    """Make a base of the set that the folder is named after, and return its questions."""
    if folder.name in ("OTT-QA", "HotpotQA"):
        cases, texts = ottqa() if folder.name == "OTT-QA" else hotpotqa()
        fill(folder, texts, "embedded").close()
        cases = about_passages(cases)[not tune :: 2] if folder.name == "OTT-QA" else cases
        return [(None, one.question, set(one.units), ()) for one in cases]
    is_flags, asked, units = folder.name == "flags", Asked(), DATA / "grocery" / "units"
    with KnowledgeBase.open(folder, create=True) as kb:
        kb.ingest(build(folder.parent / "data") / "countries.jsonl" if is_flags else units)
    for seed in range(TUNING_SEEDS * tune, TUNING_SEEDS * tune + _SCENES) if is_flags else ():
        scene = benchmark_scene(seed)
        one = benchmark_question(seed, scene.country, scene.distractor)
        if one.answerable:
            asked.append((scene.image, one.text, {scene.country}, one.gold))
    names, said = sorted(path.name for path in units.iterdir()), labelled_lines()
    for picture, product, place in () if is_flags else zip(*load("query_photos"), strict=True):
        stated = said.get(names[product].replace("-", " "), [])
        known = [(LINES[key][0], value) for key, value in stated if key in LINES]
        if place % 2 != tune and known:
            text, value = known[place // 2 % len(known)]
            asked.append((picture, text.format("this product"), {names[product]}, [value]))
    return asked


def places(folder: Path, asked: Asked, reranker: str) -> np.ndarray:
    """Return the place of the first gold chunk of each question, from 1; 10,000 if nowhere."""
    found = np.full(len(asked), 10_000.0)
    with KnowledgeBase.open(folder, reranker=reranker) as kb:
        for row, (picture, text, units, answers) in enumerate(asked):
            for place, one in reversed([*enumerate(kb.query(picture, text, k=20).chunks, 1)]):
                is_stated = not answers or any(holds(one.text, answer) for answer in answers)
                if units & {*one.owners} and is_stated:
                    found[row] = place
    return found


def main() -> None:
    """Measure, print, and with --write keep the result."""
    tune, result = "--tune" in sys.argv, {}
    for name in ("flags", "groceries", "OTT-QA", *(() if tune else ("HotpotQA",))):
        with TemporaryDirectory() as folder:
            asked = prepare(Path(folder, name), tune=tune)
            off, on = (places(Path(folder, name), asked, one) for one in ("", "embedded"))
        result[name] = {"questions": len(asked)}
        for label, *scores in (("recall@5", off <= 5, on <= 5), ("MRR", 1 / off, 1 / on)):
            means = dict(zip(("off", "on"), map(mean, scores), strict=True))
            result[name][label] = means | {"p": paired_p_value(*scores)}
        print(name, json.dumps(result[name]), flush=True)
    if "--write" in sys.argv:
        print(write_result("rerank", result, packages=("scipy",)))


if __name__ == "__main__":
    main()
