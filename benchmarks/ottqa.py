"""Tables and passages in one base: OTT-QA with the embedded encoder, without a model.

    python -m benchmarks.ottqa [--write]

150 tables and 3,739 passages are units. A cell links to the passages of its hyperlinks; in a second
base, it only names them. Settings are chosen on every second question (the tuning half); the others
are for the report. The figures, with 95 % intervals, are the shares of questions whose table is
that of the first row found, and of questions with a gold passage among the first 5, 10 and 20
passages. Further figures are the answers to questions about a cell, and milliseconds of processor
time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.questions import ottqa, plain, title_of
from benchmarks.reader import is_right
from benchmarks.record import DATA, mean, proportion, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.indexes.keywords import term_scores
from ku_rag.retrieval.coverage import joint_scores
from ku_rag.types import Cell, Table

DEPTHS = (5, 10, 20)
_CHUNKS = 100


def units(passages: Mapping[str, str], targets: Mapping[str, str]) -> Iterator[Unit]:
    """Yield the units of the passages and tables; cells link to the passages in `targets`."""
    for title, text in passages.items():
        yield Unit(title, id=title, texts=(text,))
    for line in (DATA / "ottqa" / "tables.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        rows = [
            tuple(
                Cell(plain(text), next((t for t in map(title_of, links) if t in targets), None))
                for text, links in row
            )
            for row in record["data"]
        ]
        header = tuple(plain(column[0]) for column in record["header"])
        table = Table(header, tuple(rows), record.get("section_title", ""))
        texts = (plain(record["intro"]),) if record["intro"] else ()
        identity = f"table:{record['table_id']}"
        yield Unit(record["title"], id=identity, texts=texts, tables=(table,), match=False)


def places(kb: KnowledgeBase, question: EvaluationQuestion) -> tuple[bool, int]:
    """Return whether the first row is of the gold table, and the best place of a gold passage."""
    chunks = kb.search(text=question.question, k=_CHUNKS).chunks
    owners = [chunk.owners[0] for chunk in chunks if chunk.owners]
    table = next((owner for owner in owners if owner.startswith("table:")), "")
    passages = [owner for owner in owners if not owner.startswith("table:")]
    best = (passages.index(title) for title in question.units[1:] if title in passages)
    return table == question.units[0], min(best, default=10_000)


def measure(
    results: Sequence[tuple[bool, int]], questions: Sequence[EvaluationQuestion]
) -> dict[str, object]:
    """Return the shares of questions whose table and passages are found, with intervals."""
    tables = [hit for hit, _ in results]
    pairs = zip(results, questions, strict=True)
    best = [place for (_, place), question in pairs if question.units[1:]]
    return {
        "questions": [len(tables), len(best)],
        "table": mean(tables),
        "passage": [mean([place < depth for place in best]) for depth in DEPTHS],
    }


def answer_figures(kb: KnowledgeBase, questions: Sequence[EvaluationQuestion]) -> dict[str, object]:
    """Return the share of questions about a cell answered, and the right share of these."""
    cells = [question for question in questions if question.group == "table"]
    answers = [kb.query(None, question.question).answer for question in cells]
    pairs = zip(answers, cells, strict=True)
    hits = [is_right(text, question.answers[0]) for text, question in pairs if text]
    return {"answered": proportion(list(map(bool, answers))), "right": proportion(hits)}


def milliseconds(kb: KnowledgeBase, questions: Sequence[EvaluationQuestion]) -> dict[str, float]:
    """Return processor time of a query and of its joint scores alone, means over the questions."""
    connection = kb._database.connection
    terms = [term_scores(connection, question.question) for question in questions]
    started = time.process_time()
    for scores in terms:
        joint_scores(connection, scores, 500, pool=100)
    middle = time.process_time()
    for question in questions:
        kb.query(None, question.question)
    each = 1000 / len(questions)
    rows, query = middle - started, time.process_time() - middle
    return {"question": round(query * each, 1), "rows": round(rows * each, 1)}


def main() -> None:
    """Measure, print, and with --write write the result."""
    questions, passages = ottqa()
    halves = {"tuning": slice(0, None, 2), "report": slice(1, None, 2), "all": slice(None)}
    result: dict[str, object] = {}
    with TemporaryDirectory() as folder:
        for label, targets in (("with hyperlinks", passages), ("without hyperlinks", {})):
            with KnowledgeBase.open(Path(folder, label), create=True) as kb:
                kb.add_many(list(units(passages, targets)))
                results = [places(kb, question) for question in questions]
                for half, part in halves.items():
                    result[f"{label}, {half}"] = measure(results[part], questions[part])
                    if targets:
                        result[f"stated, {half}"] = answer_figures(kb, questions[part])
                if targets:
                    result["milliseconds"] = milliseconds(kb, questions[1:120:2])
    for label, figures in result.items():
        print(label, json.dumps(figures))
    if "--write" in sys.argv:
        print(write_result("ottqa", result, packages=("apsw", "PyStemmer")))


if __name__ == "__main__":
    main()
