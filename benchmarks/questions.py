"""Load HotpotQA and OTT-QA: questions, gold passages and all passages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from benchmarks.record import DATA
from ku_rag.evaluation.datasets import load
from ku_rag.evaluation.datasets.formats import title_of
from ku_rag.evaluation.questions import EvaluationQuestion

QuestionSet = tuple[list[EvaluationQuestion], dict[str, str]]
"""Questions, whose units are their gold passages by title, and the texts of all passages."""


def hotpotqa() -> QuestionSet:
    """Return the questions and all paragraphs of HotpotQA."""
    path = DATA / "hotpotqa" / "dev_distractor_100.json"
    contexts = [record["context"] for record in json.loads(path.read_text("utf-8"))]
    passages = {
        title: "".join(sentences)
        for context in contexts
        for title, sentences in zip(context["title"], context["sentences"], strict=True)
    }
    return list(load("hotpotqa", path).questions), passages


def ottqa() -> QuestionSet:
    """Return questions and all passages of OTT-QA; the first unit of a question is its table."""
    lines = (DATA / "ottqa" / "passages.jsonl").read_text("utf-8").splitlines()
    linked = [item for line in lines for item in json.loads(line)["passages"].items()]
    passages = {title_of(link): plain(text) for link, text in linked if text}
    questions = [
        replace(
            question,
            question=plain(question.question),
            answers=(plain(question.answers[0]),),
            units=(
                question.units[0],
                *(title for title in question.units[1:] if title in passages),
            ),
        )
        for question in load("ottqa", DATA / "ottqa" / "questions.json").questions
    ]
    return questions, passages


def about_passages(questions: Iterable[EvaluationQuestion]) -> list[EvaluationQuestion]:
    """Return the questions of OTT-QA that have a gold passage, without their tables."""
    return [
        replace(question, units=question.units[1:]) for question in questions if question.units[1:]
    ]


def plain(text: str) -> str:
    """Return a text of separate tokens with normal spacing: "1966 ) , an" → "1966), an"."""
    joined = re.sub(r" ([,.;:?!)\]%]|'s\b|n't\b)", r"\1", text)
    return re.sub(r"([(\[$]) ", r"\1", joined)
