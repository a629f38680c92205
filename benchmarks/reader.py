"""The reader on gold passages: `python -m benchmarks.reader [--tune] [--write]`.

The questions are those of OTT-QA (every second one; the thresholds were chosen on the others) and
HotpotQA. Their gold passages are the evidence, each of a unit of its title. An answer is right if
its F1 with the gold answer is at least .5 or it contains the gold answer. "false" is the share of
answers after each passage that contains the gold answer has been removed. "closest" is the share of
closest sentences that contain the gold answer, of the questions without an answer.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from benchmarks.questions import about_passages, hotpotqa, ottqa
from benchmarks.record import proportion, write_result
from ku_rag.evaluation.measures.answer_text import normalized, token_f1
from ku_rag.evaluation.questions import EvaluationQuestion
from ku_rag.reading.prose import read
from ku_rag.text.tokens import name_key
from ku_rag.types import Evidence, Match, Reading


def ask(question: str, passages: Mapping[str, str]) -> Reading:
    """Read passages, each of the unit of its title; titles in the question are matched units."""
    evidence = [
        Evidence(f"E{n}", n, (title,), title, text, 1.0, (title,), (title,))
        for n, (title, text) in enumerate(passages.items(), 1)
    ]
    key = f" {name_key(question)} "
    units = [Match(t, t, 1.0) for t in passages if f" {name_key(t)} " in key]
    return read(question, evidence, units)


def is_right(answer: str, gold: str) -> bool:
    """Return whether an answer has an F1 of .5 with the gold answer, or contains it."""
    return token_f1(answer, gold) >= 0.5 or is_within(gold, answer)


def is_within(gold: str, text: str) -> bool:
    """Return whether a text contains the words of the gold answer in sequence."""
    return f" {normalized(gold)} " in f" {normalized(text)} "


def measure(
    cases: Sequence[EvaluationQuestion], texts: Mapping[str, str], *, show: bool = False
) -> dict[str, object]:
    """Return the figures of a set of questions: shares and their 95 % intervals."""
    hits, closest, false_answers = [], [], []
    for case in cases:
        passages, gold = {title: texts[title] for title in case.units}, case.answers[0]
        reading = ask(case.question, passages)
        if reading.answer:
            hits.append(is_right(reading.answer, gold))
            if show:
                print("-+"[hits[-1]], case.question, "|", reading.answer, "|", gold)
        elif gold not in ("yes", "no"):
            closest.append(bool(reading.closest and is_within(gold, reading.closest.text)))
        rest = {title: text for title, text in passages.items() if not is_within(gold, text)}
        false_answers.append(bool(ask(case.question, rest).answer))
    return {
        "questions": len(cases),
        "answered": round(len(hits) / len(cases), 3),
        "right of answered": proportion(hits),
        "closest holds the answer": proportion(closest),
        "false without the passage": proportion(false_answers),
    }


def main() -> None:
    """Measure and print; "--tune" shows answers to others, "--write" keeps the result."""
    questions, passages = ottqa()
    cases = about_passages(questions)
    if "--tune" in sys.argv:
        print(measure(cases[::2], passages, show=True))
        return
    figures = {"OTT-QA": measure(cases[1::2], passages), "HotpotQA": measure(*hotpotqa())}
    for name, row in figures.items():
        print(name, row)
    if "--write" in sys.argv:
        write_result("reader", figures, packages=("PyStemmer", "nltk"))


if __name__ == "__main__":
    main()
