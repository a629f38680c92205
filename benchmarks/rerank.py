"""The embedded reranker, on and off: rank of the first gold chunk among 20.

    python -m benchmarks.rerank [--tune] [--write]

A chunk is gold if it belongs to a gold unit and, for flags and groceries, contains the answer. The
weights were chosen with --tune: other scenes, photos and questions of OTT-QA. HotpotQA is only
reported.
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
Cases = list[tuple[Image.Image | None, str, set[str], Sequence[str]]]  # gold units and answers


def prepare(folder: Path, *, tune: bool) -> Cases:
    """Create a base of the set that the folder is named after; return its questions."""
    if folder.name in ("OTT-QA", "HotpotQA"):
        questions, texts = ottqa() if folder.name == "OTT-QA" else hotpotqa()
        fill(folder, texts, "embedded").close()
        if folder.name == "OTT-QA":
            questions = about_passages(questions)[not tune :: 2]
        return [(None, question.question, set(question.units), ()) for question in questions]
    is_flags, cases, units = folder.name == "flags", Cases(), DATA / "grocery" / "units"
    with KnowledgeBase.open(folder, create=True) as kb:
        kb.ingest(build(folder.parent / "data") / "countries.jsonl" if is_flags else units)
    for seed in range(TUNING_SEEDS * tune, TUNING_SEEDS * tune + _SCENES) if is_flags else ():
        scene = benchmark_scene(seed)
        flag_question = benchmark_question(seed, scene.country, scene.distractor)
        if flag_question.answerable:
            text, gold = flag_question.text, flag_question.gold
            cases.append((scene.image, text, {scene.country}, gold))
    names, products = sorted(path.name for path in units.iterdir()), labelled_lines()
    for picture, product, place in () if is_flags else zip(*load("query_photos"), strict=True):
        lines = products.get(names[product].replace("-", " "), [])
        pairs = [(LINES[key][0], value) for key, value in lines if key in LINES]
        if place % 2 != tune and pairs:
            text, value = pairs[place // 2 % len(pairs)]
            cases.append((picture, text.format("this product"), {names[product]}, [value]))
    return cases


def places(folder: Path, cases: Cases, reranker: str) -> np.ndarray:
    """Return the rank of the first gold chunk of each question, from 1; 10,000 if there is none."""
    ranks = np.full(len(cases), 10_000.0)
    with KnowledgeBase.open(folder, reranker=reranker) as kb:
        for row, (picture, text, units, answers) in enumerate(cases):
            for place, chunk in reversed([*enumerate(kb.query(picture, text, k=20).chunks, 1)]):
                is_stated = not answers or any(holds(chunk.text, answer) for answer in answers)
                if units & {*chunk.owners} and is_stated:
                    ranks[row] = place
    return ranks


def main() -> None:
    """Measure, print, and with --write write the result."""
    tune, result = "--tune" in sys.argv, {}
    for name in ("flags", "groceries", "OTT-QA", *(() if tune else ("HotpotQA",))):
        with TemporaryDirectory() as folder:
            cases = prepare(Path(folder, name), tune=tune)
            off, on = (places(Path(folder, name), cases, reranker) for reranker in ("", "embedded"))
        result[name] = {"questions": len(cases)}
        for label, *scores in (("recall@5", off <= 5, on <= 5), ("MRR", 1 / off, 1 / on)):
            means = dict(zip(("off", "on"), map(mean, scores), strict=True))
            result[name][label] = means | {"p": paired_p_value(*scores)}
        print(name, json.dumps(result[name]), flush=True)
    if "--write" in sys.argv:
        print(write_result("rerank", result, packages=("scipy",)))


if __name__ == "__main__":
    main()
