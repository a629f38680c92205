"""330 questions about prose in two sets: `python -m benchmarks.prose [--tune] [--write]`.

Both sets were written before their author had read the code of the reader. "wikipedia" asks about
60 passages of OTT-QA on varied subjects: for each passage, two questions that it answers and one
that it does not answer; for every second passage, a question whose answer is its title. "town" asks
about 30 invented texts on a small town: three questions that the text answers, and one that it only
seems to answer. The texts of a set are in one knowledge base. The first, third, … texts are for
tuning ("--tune" shows these), the rest is for reports. An answer is right as in
`benchmarks.reader`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ku_rag
from benchmarks.questions import ottqa
from benchmarks.reader import is_right
from benchmarks.record import proportion, write_result
from ku_rag import Unit

HERE = Path(__file__).parent
Case = tuple[str, str, list[str], str]
"""Title, question, gold answers (none if the passage has no answer), and answer of the base."""


def _lines(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines in this folder."""
    return [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]


def ask(questions: str, passages: Mapping[str, str]) -> list[Case]:
    """Ask a knowledge base of passages, by title, all questions of a file about them."""
    rows = _lines(questions)
    units = [Unit(t, id=t, texts=(passages[t],)) for t in dict.fromkeys(r["title"] for r in rows)]
    with (
        tempfile.TemporaryDirectory() as folder,
        ku_rag.KnowledgeBase.open(folder, create=True) as kb,
    ):
        kb.add_many(units)
        return [(*row.values(), kb.query(None, row["question"]).answer) for row in rows]


def measure(cases: Sequence[Case], *, show: bool = False) -> dict[str, object]:
    """Return the figures of a set of cases: shares and their 95 % intervals."""
    outcomes: dict[str, list[tuple[bool, bool]]] = {
        "forward": [],
        "reverse": [],
        "not answerable": [],
    }
    for title, question, gold, answer in cases:
        hit = any(is_right(answer, text) for text in gold) if gold else not answer
        if show:
            print("-+"[hit], question, "|", answer or "–", "|", " / ".join(gold) or "–")
        kind = "not answerable" if not gold else "reverse" if title in gold else "forward"
        outcomes[kind].append((bool(answer), hit))
    false = [answered for answered, _ in outcomes.pop("not answerable")]
    figures: dict[str, object] = {"not answerable": len(false), "false": proportion(false)}
    for kind, pairs in filter(lambda item: item[1], outcomes.items()):
        hits = [hit for answered, hit in pairs if answered]
        share = round(len(hits) / len(pairs), 3)
        figures[kind] = {"questions": len(pairs), "answered": share, "right": proportion(hits)}
    return figures


def main() -> None:
    """Measure and print; "--tune" shows the half for tuning, "--write" keeps the result."""
    town = {record["title"]: record["text"] for record in _lines("town_texts.jsonl")}
    figures: dict[str, dict[str, object]] = {}
    for name, file, passages in (
        ("wikipedia", "prose_questions.jsonl", ottqa()[1]),
        ("town", "town_questions.jsonl", town),
    ):
        cases = ask(file, passages)
        titles = list(dict.fromkeys(title for title, *_ in cases))
        tune, report = ([case for case in cases if case[0] in titles[half::2]] for half in (0, 1))
        figures[name] = {"tune": measure(tune, show="--tune" in sys.argv)}
        if "--tune" not in sys.argv:
            figures[name]["report"] = measure(report)
        for half, row in figures[name].items():
            print(name, half, row)
    if "--write" in sys.argv and "--tune" not in sys.argv:
        write_result("prose", figures)


if __name__ == "__main__":
    main()
