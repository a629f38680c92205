"""330 questions about prose, in two sets: `python -m benchmarks.prose`.

Both were written before the code of the reader was read. "wikipedia" asks about 60 passages of
OTT-QA on varied subjects: per passage two questions that it answers and one that it does not, and
for every second one a question whose answer is its title. "town" asks about 30 invented texts on a
small town: three questions that the text answers, and one that it only seems to. The texts of a set
are in one knowledge base. The 1st, 3rd, … text is for tuning ("--tune" shows these), the rest is
for reports. Right is as in `benchmarks.reader`.
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
from benchmarks.reader import right
from benchmarks.record import proportion, write_result
from ku_rag import Unit

HERE = Path(__file__).parent
Case = tuple[str, str, list[str], str]
"""Title, question, gold answers (none where the passage has none), given answer."""


def _lines(name: str) -> list[dict[str, Any]]:
    """The objects of a file of lines beside this one."""
    return [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]


def ask(questions: str, passages: Mapping[str, str]) -> list[Case]:
    """Ask all questions of a file of a knowledge base of their passages, by title."""
    rows = _lines(questions)
    units = [Unit(t, id=t, texts=(passages[t],)) for t in dict.fromkeys(r["title"] for r in rows)]
    with tempfile.TemporaryDirectory() as at, ku_rag.KnowledgeBase.open(at, create=True) as kb:
        kb.add_many(units)
        return [(*row.values(), kb.query(None, row["question"]).answer) for row in rows]


def measure(cases: Sequence[Case], *, show: bool = False) -> dict[str, object]:
    """The figures of a set of cases: shares and their 95 % intervals."""
    about: dict[str, list[tuple[bool, bool]]] = {"forward": [], "reverse": [], "not answerable": []}
    for title, question, gold, answer in cases:
        hit = any(right(answer, one) for one in gold) if gold else not answer
        if show:
            print("-+"[hit], question, "|", answer or "–", "|", " / ".join(gold) or "–")
        kind = "not answerable" if not gold else "reverse" if title in gold else "forward"
        about[kind].append((bool(answer), hit))
    false = [answered for answered, _ in about.pop("not answerable")]
    figures: dict[str, object] = {"not answerable": len(false), "false": proportion(false)}
    for kind, hits in filter(lambda one: one[1], about.items()):
        given = [hit for answered, hit in hits if answered]
        answered = round(len(given) / len(hits), 3)
        figures[kind] = {"questions": len(hits), "answered": answered, "right": proportion(given)}
    return figures


def main() -> None:
    """Print the figures of both halves of both sets and write them; "--tune" shows the first."""
    town = {one["title"]: one["text"] for one in _lines("town_texts.jsonl")}
    figures: dict[str, dict[str, object]] = {}
    for name, file, passages in (
        ("wikipedia", "prose_questions.jsonl", ottqa()[1]),
        ("town", "town_questions.jsonl", town),
    ):
        cases = ask(file, passages)
        titles = list(dict.fromkeys(title for title, *_ in cases))
        tune, report = ([one for one in cases if one[0] in titles[half::2]] for half in (0, 1))
        figures[name] = {"tune": measure(tune, show="--tune" in sys.argv)}
        if "--tune" not in sys.argv:
            figures[name]["report"] = measure(report)
        for half, row in figures[name].items():
            print(name, half, row)
    if "--tune" not in sys.argv:
        write_result("prose", figures)


if __name__ == "__main__":
    main()
