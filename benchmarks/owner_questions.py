"""Questions that owners ask about their records: `python -m benchmarks.owner_questions`.

The fifteen bases in `owner_sets/` describe products of a shop, monsters of a game, objects of a
museum, dishes, plants, machines and more. All are invented, with the inconsistent fields of real
records. The questions were written from the records by people who did not know the code. Those
about the first three bases mostly use the words of the records; the others are worded as by
customers and colleagues. "Seen" questions may be read while the reader is changed, "unseen" ones of
the first nine bases are only counted. If the records contain no answer, the base must state none.
The same holds if a base is asked the questions of the others, unless its own records answer them.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.flag_questions import normalise
from benchmarks.record import write_result
from ku_rag import KnowledgeBase

SETS = Path(__file__).with_name("owner_sets")
NAMES = (
    "products", "monsters", "museum", "recipes", "plants", "machines", "staff", "boats", "birds",
    "library", "town", "minerals", "bikes", "films", "castle"
)  # fmt: skip


def questions(name: str, part: str) -> list[dict[str, Any]]:
    """Return the questions of a set, each with "question" and "answers" or "items"."""
    file = SETS / f"{name}_{part}.jsonl"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def verdict(answer: str, question: dict[str, Any]) -> str:
    """Return "right", "wrong" or "declined", and for questions without an answer "abstained"."""
    items, answers = question.get("items") or [], question.get("answers") or []
    if not (items or answers):
        return "wrong" if answer else "abstained"
    if not answer:
        return "declined"
    listed = {_plain(item) for item in re.split(r", | and ", answer)}
    if items:
        is_right = listed == {*map(_plain, items)}
    elif answer.endswith("."):  # a sentence that contains the answer
        words = f" {_plain(answer)} "
        is_right = any(f" {_plain(accepted)} " in words for accepted in answers)
    else:
        is_right = _plain(answer) in map(_plain, answers)
    return "right" if is_right else "wrong"


def _plain(text: str) -> str:
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower()).replace("€", " eur")
    return normalise(re.sub(r"\beuros?\b", "eur", text))


def ask(name: str, part: str, *, others: bool) -> Counter[str]:
    """Ask the questions of a set, or those of the others; count the verdicts."""
    counts: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase.open(f"{folder}/kb", create=True) as kb,
    ):
        kb.ingest(SETS / f"{name}.jsonl")
        for source in (set_name for set_name in NAMES if (set_name != name) == others):
            for question in questions(source, part):
                expected = question | {"answers": [], "items": []} if others else question
                counts[verdict(kb.query(None, question["question"]).answer, expected)] += 1
    return counts


def main() -> None:
    """Ask, print, and with --write write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the result file")
    options = parser.parse_args()
    result: dict[str, dict[str, int]] = {}
    for others in (False, True):
        for part in ("seen", "unseen"):
            for name in NAMES:
                key = f"{name}, {part}" + ", questions of the others" * others
                result[key] = dict(ask(name, part, others=others))
                print(f"{key}: {result[key]}")
    if options.write:
        print(write_result("owner_questions", {"sets": result}))


if __name__ == "__main__":
    sys.exit(main())
