"""Flags in generated scenes: recall of countries and evidence, and accuracy of the answers.

    python -m benchmarks.flags [--scenes 600] [--write]

The seeds 0 to 599 determine scenes and questions by the rules of `tools.demo_data.scenes` and
`benchmarks.flag_questions`; nothing was tuned on them. `--first 10000` runs on tuning seeds.
The reader is measured on the questions of the first 300 scenes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ku_rag
from benchmarks.flag_questions import (
    Question,
    benchmark_question,
    exact_match,
    normalise,
    parts,
)
from benchmarks.record import write_result
from ku_rag.demo.dataset import build
from ku_rag.types import Answer
from tools.demo_data.facts import countries
from tools.demo_data.flags import twins
from tools.demo_data.scenes import TUNING_SEEDS, Scene, benchmark_scene

QUESTIONS = 300


@dataclass(frozen=True, slots=True)
class Trial:
    """A scene with its question, and the answer and the ranked units of the knowledge base."""

    seed: int
    scene: Scene
    question: Question
    answer: Answer
    ranked: tuple[str, ...]

    def is_retrieved(self, k: int) -> bool:
        """Return whether the first `k` units contain the country or one with the same flag."""
        return bool((twins(self.scene.country) | {self.scene.country}) & set(self.ranked[:k]))

    @property
    def matched(self) -> bool:
        """Whether the first unit is the right country, and not one with the same flag."""
        return self.ranked[:1] == (self.scene.country,)

    @property
    def exact(self) -> bool:
        """Whether the reader's answer is one of the gold answers."""
        return exact_match(self.answer.answer, self.question.gold)

    @property
    def evidenced(self) -> bool:
        """Whether the evidence has a chunk of the right country that contains a gold answer."""
        return any(
            self.scene.country in chunk.unit_ids and holds(chunk.text, gold)
            for chunk in self.answer.chunks
            for gold in self.question.gold
        )


def holds(text: str, gold: str) -> bool:
    """Return whether a text contains every member of a gold answer as whole words."""
    padded = f" {normalise(text)} "
    return all(f" {part} " in padded for part in parts(gold))


def run_trials(kb: ku_rag.KnowledgeBase, seeds: Sequence[int]) -> list[Trial]:
    """Ask the question of each scene."""
    trials = []
    for number, seed in enumerate(seeds, 1):
        scene = benchmark_scene(seed)
        question = benchmark_question(seed, scene.country, scene.distractor)
        answer = kb.query(scene.image, question.text)
        ranked = tuple(unit.id for unit in answer.units)
        trials.append(Trial(seed, scene, question, answer, ranked))
        if number % 50 == 0:
            print(f"  {number} of {len(seeds)} scenes", file=sys.stderr)
    return trials


def _rate(flags: Sequence[bool]) -> dict[str, float | int]:
    share = sum(flags) / len(flags) if flags else float("nan")
    return {"rate": round(share, 4), "of": len(flags)}


_GROUPS: dict[str, Callable[[Trial], bool]] = {
    "all": lambda t: True,
    "small (under 10 % of the picture)": lambda t: t.scene.share < 0.1,
    "large": lambda t: t.scene.share >= 0.1,
    "hidden by 10-40 %": lambda t: t.scene.hidden > 0,
    "with a distractor": lambda t: t.scene.distractor is not None,
    "neither hidden nor with a distractor": lambda t: not t.scene.hidden and not t.scene.distractor,
    "identical designs": lambda t: bool(twins(t.scene.country)),
    "without identical designs": lambda t: not twins(t.scene.country),
}


def measure(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return recall by group, evidence recall, exact match and abstention."""
    units = {}
    for name, belongs in _GROUPS.items():
        group = [t for t in trials if belongs(t)]
        units[name] = {
            "recall@1": _rate([t.is_retrieved(1) for t in group]),
            "recall@5": _rate([t.is_retrieved(5) for t in group]),
        }
    with_twins = [t for t in trials if twins(t.scene.country)]
    units["identical designs"]["the right one of them @1"] = _rate([t.matched for t in with_twins])
    answerable = [t for t in trials if t.question.answerable]
    reader_trials = [t for t in trials[:QUESTIONS] if t.question.answerable]
    unanswerable = [t for t in trials[:QUESTIONS] if not t.question.answerable]
    matched = [t for t in reader_trials if t.matched]
    topics = sorted({t.question.topic for t in reader_trials})
    return {
        "units": units,
        "evidence recall": {
            "all": _rate([t.evidenced for t in answerable]),
            "right unit matched": _rate([t.evidenced for t in answerable if t.matched]),
        },
        "reader": {
            "exact match": _rate([t.exact for t in reader_trials]),
            "exact match, right unit matched": _rate([t.exact for t in matched]),
            "by topic, right unit matched": {
                topic: _rate([t.exact for t in matched if t.question.topic == topic])
                for topic in topics
            },
            "right abstentions (the base has no answer)": _rate(
                [not t.answer.answer for t in unanswerable]
            ),
            "wrong abstentions (the base has one)": _rate(
                [not t.answer.answer for t in reader_trials]
            ),
            "wrong abstentions, right unit matched": _rate([not t.answer.answer for t in matched]),
        },
        "query_ms_median": round(
            statistics.median(t.answer.timings_ms["total"] for t in trials), 1
        ),
    }


def main() -> None:
    """Build the demo base, ask, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenes", type=int, default=600, help="how many (default 600)")
    parser.add_argument(
        "--first", type=int, default=0, help=f"first seed; tune from {TUNING_SEEDS}"
    )
    parser.add_argument("--write", action="store_true", help="write results/flags.json")
    arguments = parser.parse_args()
    if arguments.write and arguments.first + arguments.scenes > TUNING_SEEDS:
        parser.error(f"only reporting seeds, below {TUNING_SEEDS}, are written")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        data = build(Path(folder) / "data")
        with ku_rag.KnowledgeBase.open(Path(folder) / "kb", create=True) as kb:
            kb.ingest(data / "countries.jsonl")
            models = {"encoder": kb.encoder.fingerprint, "segmenter": kb.segmenter.fingerprint}
            seeds = range(arguments.first, arguments.first + arguments.scenes)
            trials = run_trials(kb, seeds)
    result = {
        "countries": len(countries()),
        "scenes": arguments.scenes,
        "first_seed": arguments.first,
        "models": models,
        **measure(trials),
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result, indent=1))
    if arguments.write:
        write_result("flags", result)


if __name__ == "__main__":
    main()
