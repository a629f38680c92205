"""The planner without a model: `python -m benchmarks.planning [--write]`.

HotpotQA: both paragraphs are among the first 5 texts. OTT-QA, with and without hyperlinks: a gold
passage is among the first 5 passages. Each question is planned with at most one round, which is the
search for the undivided question, and with at most three; the same number of texts is compared. The
figures are the shares, the mean number of searches, and milliseconds of processor time of the
decisions.

Dyn-VQA, English: token F1 (SQuAD, with straight apostrophes) against the golden query, for the
question unchanged, with the subject added, and reformulated for a picture that certainly shows the
subject. The subject is an oracle: the longest span of the golden query that the question lacks.

Even questions are for tuning, odd ones for the report. Differences have 95 % intervals and the
p-value of a paired permutation test; planning is on by default where it is "better" (p < .05).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from benchmarks.ottqa import units
from benchmarks.questions import hotpotqa, ottqa
from benchmarks.record import DATA, mean, write_result
from benchmarks.retrieval import fill
from ku_rag import KnowledgeBase
from ku_rag.evaluation.measures.answer_text import normalized, token_f1
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.evaluation.statistics import paired_p_value
from ku_rag.papers.cogplanner.plan import Plan, PlanSettings, Round
from ku_rag.papers.cogplanner.planner import Choice, PlanState, Reformulation
from ku_rag.papers.cogplanner.rounds import PlanRun
from ku_rag.papers.cogplanner.rule_planner import decide_by_rule
from ku_rag.papers.cogplanner.searches import Searches
from ku_rag.store.filters import UnitFilter
from ku_rag.types import Match

HALVES = {"tuning": {0}, "report": {1}, "all": {0, 1}}
"""Parities of the positions of questions in their file."""
_PICTURE = Image.new("RGB", (8, 8))
Figures = dict[str, object]


def comparison(
    values: Mapping[str, Sequence[float]], first: str, second: str, places: Sequence[int]
) -> Figures:
    """Return the means of each half, the difference of two of them, and its p-value.

    Args:
        values: Values by name, one for each question.
        first: Name of the baseline.
        second: Name of the values compared with it.
        places: Positions of the questions in their file.
    """
    figures: Figures = {}
    for half, parities in HALVES.items():
        part = {
            name: [
                value for value, place in zip(column, places, strict=True) if place % 2 in parities
            ]
            for name, column in values.items()
        }
        gains = [y - x for x, y in zip(part[first], part[second], strict=True)]
        figures[half] = {
            "questions": len(gains),
            **{name: round(sum(column) / len(gains), 4) for name, column in part.items()},
            "gained, lost": [sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)],
            "difference": mean(gains),
            "p": (p := round(paired_p_value(part[first], part[second]), 4)),
            "better": p < 0.05 and sum(gains) > 0,
        }
    return figures


def run_plan(
    kb: KnowledgeBase, question: str, settings: PlanSettings
) -> tuple[list[str], Plan, float]:
    """Return the owners of the merged evidence, the plan, and the seconds of its decisions."""
    session, chosen = kb._session, UnitFilter.parse(None, ())
    spent = 0.0

    def timed(state: PlanState) -> tuple[Reformulation, Choice]:
        nonlocal spent
        started = time.process_time()
        decisions = decide_by_rule(state)
        spent += time.process_time() - started
        return decisions

    with session.use():
        searches = Searches(lambda: session.retrieval(chosen), None, None, None, settings, {})
        run = PlanRun(question, None, timed, "embedded", searches)
        for _ in run.rounds():
            pass
        evidence = run.planned().evidence
    return [(chunk.owners or ("",))[0] for chunk in evidence], run.plan(), spent


def retrieval(
    kb: KnowledgeBase, questions: Sequence[EvaluationQuestion], k: int, *, every: bool
) -> Figures:
    """Measure plans against the search for the undivided question.

    A search returns k texts. One gold passage, or each if `every`, has to be found.
    """
    pairs = ((n, question) for n, question in enumerate(questions) if question.units)
    places, cases = zip(*pairs, strict=True)
    figures: Figures = {}
    scores: dict[str, list[float]] = {}
    for name, settings in (
        ("undivided", PlanSettings(max_rounds=1, k=k)),
        ("planned", PlanSettings(k=k)),
    ):
        runs = [run_plan(kb, case.question, settings) for case in cases]
        tops = [
            [owner for owner in dict.fromkeys(owners) if not owner.startswith("table:")][:5]
            for owners, *_ in runs
        ]
        hits = [
            [title in top for title in case.units] for top, case in zip(tops, cases, strict=True)
        ]
        scores[name] = [float(all(row) if every else any(row)) for row in hits]
        searches = [sum(len(step.searches) for step in plan.rounds) for _, plan, _ in runs]
        times = [seconds * 1000 for *_, seconds in runs]
        figures[name] = {
            "searches": round(sum(searches) / len(cases), 2),
            "milliseconds": [round(sum(times) / len(cases), 1), round(max(times), 1)],
        }
    return figures | comparison(scores, "undivided", "planned", places)


def subject(question: str, golden: str) -> str:
    """Return the longest span of a golden query whose words are missing from a question."""
    terms = set(normalized(question).split())
    # An article does not end a span.
    words = [(word, form) for word in golden.split() if (form := normalized(word))]
    spans = [
        [word for word, _ in span]
        for is_common, span in groupby(words, lambda pair: terms.issuperset(pair[1].split()))
        if not is_common
    ]
    return " ".join(max(spans, key=len, default=[]))


def reformulate(question: str, name: str) -> str:
    """Return the query of the planner for a picture that certainly shows a unit of a name."""
    unit = Match("subject", name, 1.0)
    rounds = (Round((question,), "image"),)
    about = frozenset({"subject"})
    state = PlanState(question, (question,), _PICTURE, rounds, units=[unit], about=about)
    return decide_by_rule(state)[0].queries[0]


def dynvqa() -> Figures:
    """Measure the reformulation of questions about pictures."""
    lines = (DATA / "dynvqa" / "DynVQA_en.202502.jsonl").read_text("utf-8").splitlines()
    values: dict[str, list[float]] = {"question": [], "subject added": [], "reformulated": []}
    changed, spent = 0, 0.0
    for line in lines:
        record = json.loads(line.replace("’", "'"))
        question, golden = record["question"], record["golden_query"]
        span = subject(question, golden)
        name = span.strip(' ?.,"').removesuffix("'s")
        started = time.process_time()
        query = reformulate(question, name) if name else question
        spent += time.process_time() - started
        changed += query != question
        for text, scores in zip(
            (question, f"{question} {span}", query), values.values(), strict=True
        ):
            scores.append(token_f1(text, golden))
    return {
        "subject": "oracle: the longest span of the golden query that the question lacks",
        "changed": round(changed / len(lines), 3),
        "milliseconds": round(spent / len(lines) * 1000, 2),
        **comparison(values, "subject added", "reformulated", range(len(lines))),
    }


def main() -> None:
    """Measure, print, and with --write write the result."""
    result = {"Dyn-VQA": dynvqa()}
    cases, texts = hotpotqa()
    questions, passages = ottqa()
    about_passages = [replace(question, units=question.units[1:]) for question in questions]
    with TemporaryDirectory() as folder:
        with fill(Path(folder, "hotpotqa"), texts, "embedded") as kb:
            result["HotpotQA"] = retrieval(kb, cases, 5, every=True)
        for label, targets in (("with hyperlinks", passages), ("without hyperlinks", {})):
            with KnowledgeBase.open(Path(folder, label), create=True) as kb:
                kb.add_many(list(units(passages, targets)))
                result[f"OTT-QA {label}"] = retrieval(kb, about_passages, 100, every=False)
    print(json.dumps(result, indent=1))
    if "--write" in sys.argv:
        print(write_result("planning", result, packages=("apsw", "PyStemmer")))


if __name__ == "__main__":
    main()
