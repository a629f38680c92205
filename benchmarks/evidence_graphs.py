"""Evidence graphs without a model beside plain retrieval: `python -m benchmarks.evidence_graphs`.

OTT-QA (every second question is for tuning, the others for the report) and HotpotQA, each in one
base. Given are, with 95 % intervals, the shares of questions with a gold passage (HotpotQA: both)
among the first 5, 10 and 20 passages, with the gold table first, and with the gold answer in the
first 4,000 tokens of the evidence; nodes and edges; the gains of the graph; and for queries of
three chunks the answers, the right ones among them, and milliseconds of processor time.
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
from benchmarks.reader import held, right
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
    kb: KnowledgeBase, one: EvaluationQuestion, settings: EvidenceSettings | None, *, every: bool
) -> dict[str, float]:
    """What is found for a question, by the name of the figure."""
    method = "evidence" if settings else ""
    found = kb.query(None, one.question, k=_CHUNKS, method=method, construction=settings)
    chunks = found.chunks[:_CHUNKS]
    owners = [(chunk.owners or ("",))[0] for chunk in chunks]
    passages = [owner for owner in owners if not owner.startswith("table:")]
    table, *gold = one.units
    places = [passages.index(p) if p in passages else _CHUNKS for p in gold]
    place = (max if every else min)(places, default=None)
    row: dict[str, float] = {}
    if place is not None:
        row |= {f"@{n}": place < n for n in DEPTHS}
    if table:
        row["table"] = table == next((o for o in owners if o.startswith("table:")), "")
    ends = accumulate(EmbeddedEncoder().count_tokens(chunk.text) for chunk in chunks)
    shown = [chunk.text for chunk, end in zip(chunks, ends, strict=True) if end <= _TOKENS]
    row["answer"] = any(held(one.answers[0], text) for text in shown)
    if isinstance(search := found.evidence_graph, EvidenceSearch):
        listed = {chunk for node in search.graph.nodes.values() for chunk in node.chunks}
        is_held = any(held(one.answers[0], c.text) for c in found.chunks if c.chunk in listed)
        row |= {"answer in graph": is_held, "enough": search.enough, **search.sizes["evidence"]}
        row["answer in graph, " + ("" if search.enough else "not ") + "enough"] = is_held
    return row


def measure(
    kb: KnowledgeBase, asked: Sequence[EvaluationQuestion], *, every: bool = False
) -> Figures:
    """The means of all figures with intervals, and the gains of the graph, for each half."""
    rows = {
        name: [ask(kb, one, settings, every=every) for one in asked]
        for name, settings in VARIANTS.items()
    }
    pairs = zip(rows["plain"], rows["graph"], strict=True)
    rows["gain"] = [{key: graph[key] - plain[key] for key in plain} for plain, graph in pairs]
    shown: Figures = {}
    for half, name in product(HALVES, rows):
        values: dict[str, list[float]] = {}
        for key, value in chain.from_iterable(row.items() for row in rows[name][HALVES[half]]):
            values.setdefault(key, []).append(value)
        means = {key: mean(some) for key, some in values.items()}
        shown[f"{half}, {name}"] = means
    return shown


def stated(kb: KnowledgeBase, asked: Sequence[EvaluationQuestion], method: str) -> Figures:
    """Shares of questions that get an answer, and of right ones; processor time of a query."""
    started = time.process_time()
    given = [kb.query(None, one.question, method=method).answer for one in asked]
    shown: dict[str, object] = {"milliseconds": (time.process_time() - started) / len(asked) * 1000}
    for half, part in HALVES.items():
        said = [(text, one.answers[0]) for text, one in zip(given[part], asked[part], strict=True)]
        good = [right(text, gold) for text, gold in said if text]
        shown[half] = [proportion([bool(text) for text, _ in said]), proportion(good)]
    return shown


def main() -> None:
    """Measure, print, and with --write keep the result."""
    asked, passages = ottqa()
    result = dict[str, object]()
    with TemporaryDirectory() as folder:
        for label, known in (("with hyperlinks", passages), ("without hyperlinks", {})):
            with KnowledgeBase.open(Path(folder, label), create=True) as kb:
                kb.add_many(list(units(passages, known)))
                result[f"OTT-QA {label}"] = measure(kb, asked)
                for method in ("", "evidence") if known else ():
                    result[f"stated, {method or 'plain'}"] = stated(kb, asked, method)
        cases, texts = hotpotqa()
        pairs = [replace(one, units=("", *one.units)) for one in cases]
        with fill(Path(folder, "hotpotqa"), texts, "embedded") as kb:
            result["HotpotQA"] = measure(kb, pairs, every=True)
    print(json.dumps(result, indent=1))
    if "--write" in sys.argv:
        print(write_result("evidence_graphs", result, packages=("apsw", "PyStemmer")))


if __name__ == "__main__":
    main()
