"""Evidence graphs without a model against plain retrieval: `python -m benchmarks.evidence_graphs`.

OTT-QA (every second question is for tuning, the others are for the report) and HotpotQA, each in
one base. The figures, with 95 % intervals, are the shares of questions with a gold passage
(HotpotQA: both) among the first 5, 10 and 20 passages, with the gold table first, and with the gold
answer in the first 4,000 tokens of the evidence; nodes and edges; and the gains of the graph. For
queries of three chunks, they are the share answered, the right share of these, and milliseconds of
processor time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, product
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.ottqa import DEPTHS, units
from benchmarks.questions import hotpotqa, ottqa
from benchmarks.reader import is_right, is_within
from benchmarks.record import mean, proportion, write_result
from benchmarks.retrieval import fill
from ku_rag import KnowledgeBase
from ku_rag.encoders.embedded.encoder import EmbeddedEncoder
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings

VARIANTS = {"plain": None, "graph": EvidenceSettings()}
HALVES = {"tuning": slice(0, None, 2), "report": slice(1, None, 2), "all": slice(None)}
_CHUNKS, _TOKENS = 100, 4000
Figures = dict[str, object]


def ask(
    kb: KnowledgeBase,
    question: EvaluationQuestion,
    settings: EvidenceSettings | None,
    *,
    every: bool,
) -> dict[str, float]:
    """Return the figures of a question by name."""
    method = "evidence" if settings else ""
    answer = kb.query(None, question.question, k=_CHUNKS, method=method, construction=settings)
    chunks = answer.chunks[:_CHUNKS]
    owners = [(chunk.owners or ("",))[0] for chunk in chunks]
    passages = [owner for owner in owners if not owner.startswith("table:")]
    table, *gold = question.units
    places = [passages.index(passage) if passage in passages else _CHUNKS for passage in gold]
    place = (max if every else min)(places, default=None)
    row: dict[str, float] = {}
    if place is not None:
        row |= {f"@{n}": place < n for n in DEPTHS}
    if table:
        row["table"] = table == next((owner for owner in owners if owner.startswith("table:")), "")
    ends = accumulate(EmbeddedEncoder().count_tokens(chunk.text) for chunk in chunks)
    texts = [chunk.text for chunk, end in zip(chunks, ends, strict=True) if end <= _TOKENS]
    gold_answer = question.answers[0]
    row["answer"] = any(is_within(gold_answer, text) for text in texts)
    if isinstance(search := answer.evidence_graph, EvidenceSearch):
        listed = {chunk for node in search.graph.nodes.values() for chunk in node.chunks}
        in_graph = any(is_within(gold_answer, c.text) for c in answer.chunks if c.chunk in listed)
        row |= {"answer in graph": in_graph, "enough": search.enough, **search.sizes["evidence"]}
        row["answer in graph, " + ("" if search.enough else "not ") + "enough"] = in_graph
    return row


def measure(
    kb: KnowledgeBase, questions: Sequence[EvaluationQuestion], *, every: bool = False
) -> Figures:
    """Return the means of all figures with intervals, and the gains of the graph, by half."""
    rows = {
        name: [ask(kb, question, settings, every=every) for question in questions]
        for name, settings in VARIANTS.items()
    }
    pairs = zip(rows["plain"], rows["graph"], strict=True)
    rows["gain"] = [{key: graph[key] - plain[key] for key in plain} for plain, graph in pairs]
    figures: Figures = {}
    for half, name in product(HALVES, rows):
        values: dict[str, list[float]] = {}
        for key, value in chain.from_iterable(row.items() for row in rows[name][HALVES[half]]):
            values.setdefault(key, []).append(value)
        means = {key: mean(column) for key, column in values.items()}
        figures[f"{half}, {name}"] = means
    return figures


def answer_figures(
    kb: KnowledgeBase, questions: Sequence[EvaluationQuestion], method: str
) -> Figures:
    """Return the share of questions answered, the right share of these, and time a query."""
    started = time.process_time()
    answers = [kb.query(None, question.question, method=method).answer for question in questions]
    seconds = (time.process_time() - started) / len(questions)
    figures: dict[str, object] = {"milliseconds": seconds * 1000}
    for half, part in HALVES.items():
        golds = [question.answers[0] for question in questions[part]]
        pairs = list(zip(answers[part], golds, strict=True))
        hits = [is_right(text, gold) for text, gold in pairs if text]
        figures[half] = [proportion([bool(text) for text, _ in pairs]), proportion(hits)]
    return figures


def main() -> None:
    """Measure, print, and with --write write the result."""
    questions, passages = ottqa()
    result = dict[str, object]()
    with TemporaryDirectory() as folder:
        for label, targets in (("with hyperlinks", passages), ("without hyperlinks", {})):
            with KnowledgeBase.open(Path(folder, label), create=True) as kb:
                kb.add_many(list(units(passages, targets)))
                result[f"OTT-QA {label}"] = measure(kb, questions)
                for method in ("", "evidence") if targets else ():
                    result[f"stated, {method or 'plain'}"] = answer_figures(kb, questions, method)
        cases, texts = hotpotqa()
        cases = [replace(case, units=("", *case.units)) for case in cases]
        with fill(Path(folder, "hotpotqa"), texts, "embedded") as kb:
            result["HotpotQA"] = measure(kb, cases, every=True)
    print(json.dumps(result, indent=1))
    if "--write" in sys.argv:
        print(write_result("evidence_graphs", result, packages=("apsw", "PyStemmer")))


if __name__ == "__main__":
    main()
