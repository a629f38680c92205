"""Load HotpotQA and OTT-QA: questions, gold passages, all passages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Case:
    """A question, its gold answer, and its gold passages by title."""

    question: str
    gold: str
    passages: dict[str, str]


def hotpotqa() -> tuple[list[Case], dict[str, str]]:
    """The questions of HotpotQA with their supporting paragraphs, and all paragraphs by title."""
    cases, every = [], {}
    for one in json.loads((DATA / "hotpotqa" / "dev_distractor_100.json").read_text("utf-8")):
        context = one["context"]
        texts = dict(zip(context["title"], map("".join, context["sentences"]), strict=True))
        titles = dict.fromkeys(one["supporting_facts"]["title"])
        cases.append(Case(one["question"], one["answer"], {t: texts[t] for t in titles}))
        every |= texts
    return cases, every


def ottqa() -> tuple[list[Case], dict[str, str]]:
    """The questions of OTT-QA whose answer stands in a passage, with that passage, and all."""
    with (DATA / "ottqa" / "passages.jsonl").open(encoding="utf-8") as lines:
        tables = {row["table_id"]: row["passages"] for row in map(json.loads, lines)}
    cases = []
    for one in json.loads((DATA / "ottqa" / "questions.json").read_text("utf-8")):
        linked = {
            link: tables.get(one["table_id"], {}).get(link)
            for _, _, link, kind in one["answer-node"]
            if kind == "passage"
        }
        texts = {title_of(link): plain(text) for link, text in linked.items() if text}
        if texts:
            cases.append(Case(plain(one["question"]), plain(one["answer-text"]), texts))
    return cases, {
        title_of(link): plain(text)
        for passages in tables.values()
        for link, text in passages.items()
        if text
    }


@dataclass(frozen=True)
class TableQuestion:
    """A question of OTT-QA, its answer, its table and passages, and whether it asks for a cell."""

    text: str
    gold: str
    table: str
    passages: frozenset[str]
    asks_cell: bool


def table_questions(passages: Mapping[str, str]) -> list[TableQuestion]:
    """Every question of OTT-QA; its gold passages are those that the base has."""
    return [
        TableQuestion(
            plain(one["question"]),
            plain(one["answer-text"]),
            f"table:{one['table_id']}",
            frozenset(title_of(n[2]) for n in one["answer-node"] if n[3] == "passage")
            & passages.keys(),
            any(node[3] == "table" for node in one["answer-node"]),
        )
        for one in json.loads((DATA / "ottqa" / "questions.json").read_text("utf-8"))
    ]


def title_of(link: str) -> str:
    """The title of the article that a link of OTT-QA leads to."""
    return link.removeprefix("/wiki/").replace("_", " ")


def plain(text: str) -> str:
    """A text of separate tokens as people write it: "1966 ) , an" → "1966), an"."""
    joined = re.sub(r" ([,.;:?!)\]%]|'s\b|n't\b)", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", joined)
