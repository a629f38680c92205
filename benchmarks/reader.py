"""The reader on questions whose gold passages are in hand: `python -m benchmarks.reader`.

OTT-QA (every second question; the thresholds were chosen on the others) and HotpotQA, whose
passages are the evidence, each of a unit of its title. An answer is right when its F1 with the gold
answer is at least .5 or the gold answer is in it. "false" counts answers when every passage that
holds the gold answer is taken away, "closest" the sentences that hold it where nothing is stated.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import write_result
from ku_rag.answering.reader import read
from ku_rag.text.tokens import name_key, words
from ku_rag.types import Evidence, Match, Reading

DATA = Path(__file__).parents[2] / "shared" / "data"
_ARTICLES = {"a", "an", "the"}


@dataclass(frozen=True)
class Case:
    """A question, its gold answer, and its gold passages by title."""

    question: str
    gold: str
    passages: dict[str, str]


def hotpotqa() -> Iterator[Case]:
    """The questions of HotpotQA with their supporting paragraphs."""
    for one in json.loads((DATA / "hotpotqa" / "dev_distractor_100.json").read_text("utf-8")):
        context = one["context"]
        texts = dict(zip(context["title"], map("".join, context["sentences"]), strict=True))
        titles = dict.fromkeys(one["supporting_facts"]["title"])
        yield Case(one["question"], one["answer"], {title: texts[title] for title in titles})


def ottqa() -> Iterator[Case]:
    """The questions of OTT-QA whose answer stands in a passage, with that passage."""
    with (DATA / "ottqa" / "passages.jsonl").open(encoding="utf-8") as lines:
        passages = {row["table_id"]: row["passages"] for row in map(json.loads, lines)}
    for one in json.loads((DATA / "ottqa" / "questions.json").read_text("utf-8")):
        linked = {
            link: passages.get(one["table_id"], {}).get(link)
            for _, _, link, kind in one["answer-node"]
            if kind == "passage"
        }
        texts = {_title(link): plain(text) for link, text in linked.items() if text}
        if texts:
            yield Case(plain(one["question"]), plain(one["answer-text"]), texts)


def _title(link: str) -> str:
    return link.removeprefix("/wiki/").replace("_", " ")


def plain(text: str) -> str:
    """A text of separate tokens as people write it: "1966 ) , an" → "1966), an"."""
    joined = re.sub(r" ([,.;:?!)\]%]|'s\b|n't\b)", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", joined)


def ask(case: Case, passages: dict[str, str]) -> Reading:
    """Read passages, each of the unit of its title; those in the question are the matched units."""
    evidence = [
        Evidence(f"E{n}", n, (title,), title, text, 1.0)
        for n, (title, text) in enumerate(passages.items(), 1)
    ]
    asked = f" {name_key(case.question)} "
    units = [Match(t, t, 1.0) for t in passages if f" {name_key(t)} " in asked]
    return read(case.question, evidence, units)


def normal(text: str) -> list[str]:
    """Words without articles."""
    return [word for word in words(text) if word not in _ARTICLES]


def right(answer: str, gold: str) -> bool:
    """Whether an answer has an F1 of .5 with the gold one, or holds it."""
    given, wanted = normal(answer), normal(gold)
    shared = sum(min(given.count(word), wanted.count(word)) for word in set(given))
    return 2 * shared >= 0.5 * (len(given) + len(wanted)) > 0 or held(gold, answer)


def held(gold: str, text: str) -> bool:
    """Whether a text holds the words of the gold answer in a row."""
    return f" {' '.join(normal(gold))} " in f" {' '.join(normal(text))} "


def measure(cases: Sequence[Case], *, show: bool = False) -> dict[str, float]:
    """The figures of a set of questions."""
    stated = good = false = silent = closest = 0
    for case in cases:
        reading = ask(case, case.passages)
        if reading.answer:
            stated += 1
            good += right(reading.answer, case.gold)
            if show:
                mark = "+" if right(reading.answer, case.gold) else "-"
                print(mark, case.question, "|", reading.answer, "|", case.gold)
        elif case.gold not in ("yes", "no"):
            silent += 1
            closest += bool(reading.closest and held(case.gold, reading.closest.text))
        rest = {t: text for t, text in case.passages.items() if not held(case.gold, text)}
        false += bool(ask(case, rest).answer)
    return {
        "questions": len(cases),
        "answered": round(stated / len(cases), 3),
        "right of answered": round(good / max(stated, 1), 3),
        "closest holds the answer": round(closest / max(silent, 1), 3),
        "false without the passage": round(false / len(cases), 3),
    }


def main() -> None:
    """Print the figures and write them; "--tune" shows answers to the other OTT-QA questions."""
    every = list(ottqa())
    if "--tune" in sys.argv:
        print(measure(every[::2], show=True))
        return
    figures = {"OTT-QA": measure(every[1::2]), "HotpotQA": measure(list(hotpotqa()))}
    for name, row in figures.items():
        print(name, row)
    write_result("reader", figures, packages=("PyStemmer", "nltk"))


if __name__ == "__main__":
    main()
