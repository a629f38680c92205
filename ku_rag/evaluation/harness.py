"""Evaluation of a method, batches of questions, and methods side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

import ku_rag
from ku_rag import arguments
from ku_rag.answering.report import Section
from ku_rag.answering.report import render as render_answers
from ku_rag.errors import BadInput, Refused
from ku_rag.evaluation import page, run
from ku_rag.evaluation.datasets import load
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.judges import JUDGED
from ku_rag.evaluation.measures.plans import plan_measures
from ku_rag.evaluation.methods import (
    METHODS,
    WITH_MODEL,
    WITH_PICTURE,
    MethodOptions,
    answer,
    check_method,
)
from ku_rag.evaluation.questions import Dataset, EvaluationQuestion
from ku_rag.evaluation.run import Evaluation, Progress, Record
from ku_rag.mllm.base import MLLM, MeteredMLLM
from ku_rag.pictures import load_picture
from ku_rag.store.layout import write_durably
from ku_rag.store.lock import WriterLock
from ku_rag.types import Answer, Quarantined, Serializable

if TYPE_CHECKING:
    from ku_rag.knowledge_base import KnowledgeBase

PAGE = "report.html"
_SETTINGS = (
    *("encoder", "segmenter", "mllm", "mllm_judge", "k_units", "k_chunks", "expand"),
    *("reranker", "reranker_pool"),
)
"""Settings of the base that belong to those of a run."""


def load_questions(questions: str | Path | Dataset) -> Dataset:
    """Return a dataset, or the questions of a file, which has the name of the file."""
    if isinstance(questions, Dataset):
        return questions
    file = arguments.path(questions, "the file of questions")
    return replace(load("jsonl", file), name=file.name)


def evaluate(
    base: KnowledgeBase,
    asked: str | Path | Dataset,
    *,
    method: str,
    options: MethodOptions | None,
    measures: Sequence[str],
    every: int,
    limit: int | None,
    out: Path | None,
    resume: bool,
    mllm: MLLM | None,
    judge: MLLM | None,
    commits: int,
    progress: Progress | None,
) -> Evaluation:
    """Run a method over a dataset, and write the page; see `KnowledgeBase.evaluate`.

    Without a judge, official measures of the dataset that need one are left out. A run belongs to
    one state of the base, by the number of its last commit.
    """
    check_method(method, mllm)
    dataset, options = load_questions(asked), options or MethodOptions()
    questions = dataset.questions[::every][:limit]
    if not questions:
        raise BadInput(f"{dataset.name} has no questions: expected at least one")
    judging = MeteredMLLM(judge) if judge else None
    official = [name for name in dataset.measures if judge or name not in JUDGED]
    official += plan_measures(questions) if method == "plan" else []
    chosen = [measure(name, judging) for name in dict.fromkeys((*official, *measures))]
    settings = {
        "dataset": dataset.name,
        "questions": sha256(repr(questions).encode()).hexdigest()[:16],
        "measures": [one.name for one in chosen],
        "method": method,
        "every": every,
        "limit": limit,
        **asdict(options),
        **{name: getattr(base.settings, name) for name in _SETTINGS},
        "base": str(base.path),
        "commits": commits,
        "version": ku_rag.__version__,
    }

    def ask(question: EvaluationQuestion) -> Record:
        return run.scored(
            question, lambda: answer(base, method, question, options), chosen, judging
        )

    if out:
        out.mkdir(parents=True, exist_ok=True)
    with WriterLock(out / "run.lock", wait_s=0) if out else nullcontext():
        known = run.open_run(out, settings, resume=resume) if out else {}
        records = run.ask_all(questions, ask, out and out / run.RECORDS, known, progress)
        found = run.summarize(settings, dataset, questions, chosen, records)
        if out:
            summary = orjson.dumps(found.to_dict(), option=orjson.OPT_INDENT_2)
            shown = page.render(found).encode("utf-8")
            write_durably([(out / run.SUMMARY, summary), (out / PAGE, shown)])
        return found


@dataclass(frozen=True, slots=True)
class Batch(Serializable):
    """The result of `KnowledgeBase.query_batch`: numbers of questions."""

    questions: int
    answered: int
    failed: int
    left_out: Sequence[Quarantined] = ()


def answer_batch(
    ask: Callable[[EvaluationQuestion], Answer],
    questions: str | Path,
    out: Path,
    *,
    resume: bool,
    progress: Progress | None,
) -> Batch:
    """Answer the questions of a file; see `KnowledgeBase.query_batch`."""
    if out.exists() and not resume:
        raise Refused(f"{out} exists: continue it with --resume, or name another file")
    dataset = load_questions(questions)
    asked = {one.id: one.question for one in dataset.questions}
    known = run.without_failures(out) if out.exists() else {}
    changed = [id for id, one in known.items() if asked.get(id) != one["question"]]
    if changed:
        raise BadInput(f"{out} has another question with the id {changed[0]!r}: name another file")

    def record(question: EvaluationQuestion) -> Record:
        found, seconds, failure = run.attempt(lambda: ask(question))
        shown = found.to_dict() if found else {"question": question.question}
        return {"id": question.id, **shown, "seconds": seconds, **failure}

    records = run.ask_all(dataset.questions, record, out, known, progress)
    answered = sum(bool(one.get("answer")) for one in records)
    failed = run.failures(records)
    return Batch(len(records), answered, len(failed), (*dataset.left_out, *failed))


def compare_methods(
    base: KnowledgeBase,
    image: Path | None,
    question: str,
    methods: Sequence[str],
    options: MethodOptions | None,
    report: Path | None,
    mllm: MLLM | None,
) -> Mapping[str, Answer]:
    """Answer a question by several methods; see `KnowledgeBase.compare`."""
    chosen = methods or [
        name
        for name in METHODS
        if (mllm or name not in WITH_MODEL) and (image or name not in WITH_PICTURE)
    ]
    for name in chosen:
        check_method(name, mllm)
    asked, options = EvaluationQuestion("", question, image), options or MethodOptions()
    found = {name: answer(base, name, asked, options) for name in chosen}
    if report:
        sections = []
        for name, one in found.items():
            picture = load_picture(Path(one.image)) if one.image else None
            units = {unit.id: load_picture(Path(unit.image)) for unit in one.units if unit.image}
            sections.append(Section(one, picture, units, note=f"method {name}"))
        page = render_answers(sections, "ku-rag: methods compared")
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(page, encoding="utf-8")
    return found
