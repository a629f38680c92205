"""Tables and passages in one base: OTT-QA, embedded, without a model.

    python -m benchmarks.ottqa [--tune] [--write]

150 tables and 3,739 passages are units; a cell links to the passages of its hyperlinks, or, in a
second base, only names them. Every second question is kept for the report; settings are chosen on
the others, and --tune measures those alone. "table" is the share of questions whose table is that
of the first row found, "passage" the share with a gold passage among the first 5, 10 and 20
passages. Intervals are of 95 %, by bootstrap over the questions. Times are processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.questions import DATA, ottqa, plain, title_of
from benchmarks.reader import right
from benchmarks.record import interval, proportion, write_result
from ku_rag import KnowledgeBase, Unit
from ku_rag.indexes.keywords import term_scores
from ku_rag.retrieval.coverage import joint_scores
from ku_rag.types import Cell, Table

DEPTHS = (5, 10, 20)
GOALS = {
    "with hyperlinks": {"table": 0.97, "passage": (0.78, None, 0.965)},
    "without hyperlinks": {"passage": (0.60, None, 0.82)},
    "milliseconds": {"question": 100, "rows": 15},
}
_CHUNKS = 100


@dataclass(frozen=True)
class Question:
    """A question, its gold answer, id of its table, titles of its gold passages.

    `asks_cell` tells whether the answer is the text of a cell.
    """

    text: str
    gold: str
    table: str
    passages: frozenset[str]
    asks_cell: bool


def questions(titles: set[str]) -> list[Question]:
    """Every question of the set; passages that the base lacks are no gold passages."""
    return [
        Question(
            plain(one["question"]),
            plain(one["answer-text"]),
            f"table:{one['table_id']}",
            frozenset(title_of(n[2]) for n in one["answer-node"] if n[3] == "passage") & titles,
            any(node[3] == "table" for node in one["answer-node"]),
        )
        for one in json.loads((DATA / "ottqa" / "questions.json").read_text("utf-8"))
    ]


def units(passages: dict[str, str], *, linked: bool) -> Iterator[Unit]:
    """The passages and the tables."""
    for title, text in passages.items():
        yield Unit(title, id=title, texts=(text,))
    for line in (DATA / "ottqa" / "tables.jsonl").read_text("utf-8").splitlines():
        one = json.loads(line)
        rows = [[_cell(*cell, passages if linked else {}) for cell in row] for row in one["data"]]
        header = [plain(column[0]) for column in one["header"]]
        yield Unit(
            one["title"],
            id=f"table:{one['table_id']}",
            texts=(plain(one["intro"]),) if one["intro"] else (),
            tables=(Table(header, rows, one.get("section_title", "")),),
            match=False,
        )


def _cell(text: str, links: Sequence[str], passages: dict[str, str]) -> Cell:
    return Cell(plain(text), next((t for t in map(title_of, links) if t in passages), None))


def places(kb: KnowledgeBase, question: Question) -> tuple[bool, int]:
    """Whether the first row is of the gold table, and the best place of a gold passage."""
    found = kb.search(text=question.text, k=_CHUNKS).chunks
    owners = [chunk.owners[0] for chunk in found if chunk.owners]
    table = next((one for one in owners if one.startswith("table:")), "")
    passages = [one for one in owners if not one.startswith("table:")]
    best = (passages.index(one) for one in question.passages if one in passages)
    return table == question.table, min(best, default=10_000)


def measure(kb: KnowledgeBase, asked: Sequence[Question]) -> dict[str, object]:
    """The share of questions whose table and whose passages are found, and intervals."""
    found = [places(kb, question) for question in asked]
    tables = [hit for hit, _ in found]
    best = [place for (_, place), one in zip(found, asked, strict=True) if one.passages]
    within = [[place < depth for place in best] for depth in DEPTHS]
    return {
        "questions": [len(tables), len(best)],
        "table": [round(sum(tables) / len(tables), 3), interval(tables)],
        "passage": [[round(sum(hits) / len(hits), 3), interval(hits)] for hits in within],
    }


def states(kb: KnowledgeBase, asked: Sequence[Question]) -> dict[str, object]:
    """The share of questions about a cell that get an answer, and of right ones among them."""
    cells = [one for one in asked if one.asks_cell]
    given = [(kb.query(None, one.text).answer, one.gold) for one in cells]
    stated = [right(answer, gold) for answer, gold in given if answer]
    return {
        "questions": len(cells),
        "answered": proportion([bool(answer) for answer, _ in given]),
        "right of answered": proportion(stated),
    }


def milliseconds(kb: KnowledgeBase, asked: Sequence[Question]) -> dict[str, float]:
    """Processor time of a query, and of its joint scores alone; means over the questions."""
    connection = kb._database.connection
    terms = [term_scores(connection, one.text) for one in asked]
    taken = []
    for step in (
        lambda: [kb.query(None, one.text) for one in asked],
        lambda: [joint_scores(connection, found, 500) for found in terms],
    ):
        step()
        started = time.process_time()
        step()
        taken.append(round((time.process_time() - started) * 1000 / len(asked), 1))
    return dict(zip(("question", "rows"), taken, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tune", action="store_true", help="only the tuning half")
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args(arguments)
    passages = ottqa()[1]
    every = questions(set(passages))
    halves = {"tuning": every[::2]} | (
        {} if options.tune else {"report": every[1::2], "all": every}
    )
    result: dict[str, object] = {}
    with TemporaryDirectory() as folder:
        for label, linked in (("with hyperlinks", True), ("without hyperlinks", False)):
            with KnowledgeBase.open(Path(folder, label), create=True) as kb:
                kb.add_many(list(units(passages, linked=linked)))
                result[label] = {half: measure(kb, asked) for half, asked in halves.items()}
                if linked:
                    result["stated"] = {half: states(kb, asked) for half, asked in halves.items()}
                    result["milliseconds"] = milliseconds(kb, every[1::2][:60])
    for label, figures in result.items():
        print(label, json.dumps(figures), "goal", GOALS.get(label, "-"))
    if options.write:
        print(write_result("ottqa", result, packages=("apsw", "PyStemmer")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
