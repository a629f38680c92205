"""210 questions about 60 passages of Wikipedia: `python -m benchmarks.prose`.

The questions were written from passages of OTT-QA on varied subjects, before the code of the reader
was read: per passage two that it answers and one that it does not, and for every second one a
question whose answer is its title. All passages are in one knowledge base. The 1st, 3rd, … is for
tuning ("--tune" shows these), the rest is for reports. Right is as in `benchmarks.reader`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import ku_rag
from benchmarks.questions import ottqa
from benchmarks.reader import right
from benchmarks.record import proportion, write_result
from ku_rag import Unit

QUESTIONS = Path(__file__).with_name("prose_questions.jsonl")
Case = tuple[str, str, list[str], str]
"""Title, question, gold answers (none where the passage has none), given answer."""


def ask() -> list[Case]:
    """Ask all questions of a knowledge base of their passages."""
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    _, passages = ottqa()
    titles = dict.fromkeys(row["title"] for row in rows)
    units = [Unit(title, id=title, texts=(passages[title],)) for title in titles]
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
    for kind, hits in about.items():
        given = [hit for answered, hit in hits if answered]
        answered = round(len(given) / len(hits), 3)
        figures[kind] = {"questions": len(hits), "answered": answered, "right": proportion(given)}
    return figures


def main() -> None:
    """Print the figures of both halves and write them; "--tune" shows the first half."""
    cases = ask()
    titles = list(dict.fromkeys(title for title, *_ in cases))
    tune, report = ([one for one in cases if one[0] in titles[half::2]] for half in (0, 1))
    figures = {"tune": measure(tune, show="--tune" in sys.argv), "report": measure(report)}
    for name, row in figures.items():
        print(name, row)
    write_result("prose", figures)


if __name__ == "__main__":
    main()
