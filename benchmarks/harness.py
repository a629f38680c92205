"""What the evaluation harness itself costs: `python -m benchmarks.harness [--write]`.

A run asks the demo base 10,000 text questions, 465 different ones once each, and writes records and
page. Given are ms of processor time a question outside of `KnowledgeBase.query`, and s to resume.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.record import target, write_result
from ku_rag import Answer, KnowledgeBase
from ku_rag.demo.dataset import build
from ku_rag.evaluation import evaluate
from tools.demo_data.facts import countries

COUNT = 10_000
WHAT = ("capital", "currency", "area", "flag", "continent")


class TimedBase(KnowledgeBase):
    """A base that remembers answers, and the processor time of those that it did not know."""

    def query(self, image: Any, question: str, **options: Any) -> Answer:  # noqa: ANN401
        """Answer a question; see `KnowledgeBase.query`."""
        if question not in self.known:
            started = time.process_time()
            self.known[question] = super().query(image, question, **options)
            self.seconds += time.process_time() - started
        return self.known[question]


def main() -> None:
    """Measure, print, and with --write keep the result."""
    texts = [f"What is the {what} of {one.name}?" for one in countries().values() for what in WHAT]
    lines = [{"question": texts[n % len(texts)], "answers": ["Paris"]} for n in range(COUNT)]
    with TemporaryDirectory() as name, TimedBase.open(Path(name, "kb"), create=True) as base:
        base.known, base.seconds = {}, 0.0
        base.ingest(build(Path(name, "data")) / "countries.jsonl")
        (file := Path(name, "q.jsonl")).write_text("\n".join(map(json.dumps, lines)), "utf-8")
        started = time.process_time()
        evaluate(base, file, out=Path(name, "run"))
        middle = time.process_time()
        evaluate(base, file, out=Path(name, "run"), resume=True)
        resumed, own = time.process_time() - middle, middle - started - base.seconds
    overhead = target("harness", "ms a question", own / COUNT * 1000, 5)
    resuming = target("harness", "s to resume 10,000 questions", resumed, 2)
    query = round(base.seconds / len(texts) * 1000, 1)
    result = {"targets": [overhead, resuming], "query_ms": query}
    print(json.dumps(result))
    if "--write" in sys.argv:
        print(write_result("harness", result, packages=["scipy"]))


if __name__ == "__main__":
    main()
