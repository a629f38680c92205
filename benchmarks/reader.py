"""The reader on questions whose gold passages are in hand: `python -m benchmarks.reader`.

OTT-QA (every second question; the thresholds were chosen on the others) and HotpotQA, whose
passages are the evidence, each of a unit of its title. An answer is right when its F1 with the gold
answer is at least .5 or the gold answer is in it. "false" counts answers when every passage that
holds the gold answer is taken away, "closest" the sentences that hold it where nothing is stated.
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
    """Read passages, each of the unit of its title; those in the question are the matched units."""
    evidence = [
        Evidence(f"E{n}", n, (title,), title, text, 1.0, (title,), (title,))
        for n, (title, text) in enumerate(passages.items(), 1)
    ]
    asked = f" {name_key(question)} "
    units = [Match(t, t, 1.0) for t in passages if f" {name_key(t)} " in asked]
    return read(question, evidence, units)


def right(answer: str, gold: str) -> bool:
    """Whether an answer has an F1 of .5 with the gold one, or holds it."""
    return token_f1(answer, gold) >= 0.5 or held(gold, answer)


def held(gold: str, text: str) -> bool:
    """Whether a text holds the words of the gold answer in a row."""
    return f" {normalized(gold)} " in f" {normalized(text)} "


def measure(
    cases: Sequence[EvaluationQuestion], texts: Mapping[str, str], *, show: bool = False
) -> dict[str, object]:
    """The figures of a set of questions: shares and their 95 % intervals."""
    good, closest, false = [], [], []
    for case in cases:
        passages, gold = {title: texts[title] for title in case.units}, case.answers[0]
        reading = ask(case.question, passages)
        if reading.answer:
            good.append(right(reading.answer, gold))
            if show:
                print("-+"[good[-1]], case.question, "|", reading.answer, "|", gold)
        elif gold not in ("yes", "no"):
            closest.append(bool(reading.closest and held(gold, reading.closest.text)))
        rest = {title: text for title, text in passages.items() if not held(gold, text)}
        false.append(bool(ask(case.question, rest).answer))
    return {
        "questions": len(cases),
        "answered": round(len(good) / len(cases), 3),
        "right of answered": proportion(good),
        "closest holds the answer": proportion(closest),
        "false without the passage": proportion(false),
    }


def main() -> None:
    """Print the figures and write them; "--tune" shows answers to the other OTT-QA questions."""
    asked, passages = ottqa()
    every = about_passages(asked)
    if "--tune" in sys.argv:
        print(measure(every[::2], passages, show=True))
        return
    figures = {"OTT-QA": measure(every[1::2], passages), "HotpotQA": measure(*hotpotqa())}
    for name, row in figures.items():
        print(name, row)
    write_result("reader", figures, packages=("PyStemmer", "nltk"))


if __name__ == "__main__":
    main()
