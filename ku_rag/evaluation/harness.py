"""Evaluation of a method, batches of questions, and methods side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Unpack

import orjson

import ku_rag
from ku_rag import arguments
from ku_rag.answering.report import Section, render
from ku_rag.errors import BadInput, Refused
from ku_rag.evaluation import page, run
from ku_rag.evaluation.datasets import load
from ku_rag.evaluation.measures import measure
from ku_rag.evaluation.measures.base import Measure
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
from ku_rag.knowledge_base import KnowledgeBase, QueryOptions
from ku_rag.mllm import load_mllm
from ku_rag.mllm.base import MeteredMLLM
from ku_rag.store.layout import write_durably
from ku_rag.store.lock import WriterLock
from ku_rag.types import Answer, Quarantined, Serializable

_SETTINGS = (
    *("encoder", "segmenter", "mllm", "mllm_judge", "k_units", "k_chunks", "expand"),
    *("reranker", "reranker_pool"),
)
"""Settings of the base that belong to those of a run."""


def evaluate(
    kb: KnowledgeBase,
    questions: str | Path | Dataset,
    *,
    method: str = "ku",
    options: MethodOptions | None = None,
    measures: Sequence[str] = (),
    every: int = 1,
    limit: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Answer the questions of a dataset, and measure the answers.

    A run belongs to one state of the base, by the number of its last commit.

    Args:
        kb: The knowledge base.
        questions: A file of JSON lines, {"question", "image"?, "answers"?, "units"?, "id"?}; or a
            `Dataset`, see `ku_rag.evaluation.datasets.load`.
        method: What answers, one of `ku_rag.evaluation.methods.METHODS`.
        options: How it answers.
        measures: Names of measures, beside those that are official for the dataset; where one needs
            a judge, the model of the setting `mllm_judge`, or else the base's.
        every: 1 asks every question, N every Nth, beginning with the first.
        limit: Maximum number of questions.
        out: Folder for records, summary and a page.
        resume: Continue the run in `out`.
        progress: Called with the number of questions done, and the scores so far by measure.

    Raises:
        BadInput: There is no question, method or measure of that name, or the run in `out` has
            other settings.
        Refused: `out` holds a run, and `resume` was not given.
        Locked: Another process writes a run in `out`.
        ModelFailed, BudgetSpent: The model does not answer any more; the run can be resumed.
        MissingExtra: A measure needs a package that is not installed.
    """
    dataset, options = _select(questions, every, limit), options or MethodOptions()
    check_method(method, kb.mllm, options)
    judge = load_mllm(kb.settings, "mllm_judge") or kb.mllm
    judging = MeteredMLLM(judge) if judge else None
    # Official measures that need a judge are left out if there is none.
    official = [name for name in dataset.measures if judging or name not in JUDGED]
    official += plan_measures(dataset.questions) if method == "plan" else []
    names = dict.fromkeys((*official, *arguments.texts(measures, "measures")))
    chosen = [measure(name, judging, kb.prompts) for name in names]
    settings = _settings(
        kb, dataset, chosen, method=method, every=every, limit=limit, **asdict(options)
    )
    folder = None if out is None else arguments.path(out, "the folder of the run")

    def ask(question: EvaluationQuestion) -> Record:
        return run.scored(question, lambda: answer(kb, method, question, options), chosen, judging)

    return _run(ask, dataset, chosen, settings, folder, resume=resume, progress=progress)


def _select(questions: str | Path | Dataset, every: int, limit: int | None) -> Dataset:
    """Return a dataset with every Nth of its questions, up to a limit."""
    arguments.count(every, "every", least=1)
    arguments.count(limit or 1, "limit", least=1)
    dataset = _load_questions(questions)
    selected = dataset.questions[::every][:limit]
    if not selected:
        raise BadInput(f"{dataset.name} has no questions: expected at least one")
    return replace(dataset, questions=selected)


def _load_questions(questions: str | Path | Dataset) -> Dataset:
    """Return a dataset, or the questions of a file, which has the name of the file."""
    if isinstance(questions, Dataset):
        return questions
    file = arguments.path(questions, "the file of questions")
    return replace(load("jsonl", file), name=file.name)


def _settings(
    kb: KnowledgeBase,
    dataset: Dataset,
    measures: Sequence[Measure],
    **options: Any,  # noqa: ANN401 - arguments of `evaluate` and fields of `MethodOptions`
) -> dict[str, Any]:
    """Return the settings of a run. A run is resumed only with equal settings."""
    return {
        "dataset": dataset.name,
        "questions": sha256(repr(dataset.questions).encode()).hexdigest()[:16],
        "measures": [measure.name for measure in measures],
        **options,
        **{name: getattr(kb.settings, name) for name in _SETTINGS},
        "base": str(kb.path),
        "commits": kb.commits,
        "version": ku_rag.__version__,
    }


def _run(
    ask: Callable[[EvaluationQuestion], Record],
    dataset: Dataset,
    measures: Sequence[Measure],
    settings: Mapping[str, Any],
    out: Path | None,
    *,
    resume: bool,
    progress: Progress | None,
) -> Evaluation:
    """Ask the questions of a dataset, and write records, summary and page to a folder."""
    if out is None:
        records = run.ask_all(dataset.questions, ask, None, {}, progress)
        return run.summarize(settings, dataset, measures, records)
    out.mkdir(parents=True, exist_ok=True)
    with WriterLock(out / "run.lock", wait_s=0):
        stored = run.open_run(out, settings, resume=resume)
        records = run.ask_all(dataset.questions, ask, out / run.RECORDS, stored, progress)
        evaluation = run.summarize(settings, dataset, measures, records)
        summary = orjson.dumps(evaluation.to_dict(), option=orjson.OPT_INDENT_2)
        report = page.render(evaluation).encode("utf-8")
        write_durably([(out / run.SUMMARY, summary), (out / run.PAGE, report)])
        return evaluation


@dataclass(frozen=True, slots=True)
class Batch(Serializable):
    """The result of `query_batch`: numbers of questions, and which were left out."""

    questions: int
    answered: int
    failed: int
    left_out: Sequence[Quarantined] = ()


def query_batch(
    kb: KnowledgeBase,
    questions: str | Path,
    out: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    **options: Unpack[QueryOptions],
) -> Batch:
    """Answer the questions of a file, and write the answers to another one.

    Args:
        kb: The knowledge base.
        questions: JSON lines of {"question", "image"?, "id"?}; see `evaluate`.
        out: Gets a JSON line for each question: "id", "error", and the keys of `Answer.to_dict`.
        resume: Keep the answers in `out`; questions that failed are asked again.
        progress: Called with the number of questions done, and no scores.
        **options: See `QueryOptions`.

    Raises:
        Refused: `out` exists, and `resume` was not given.
        BadInput: An answer in `out` is to another question with the same id.
        ModelFailed, BudgetSpent: The model does not answer any more; the batch can be resumed.
    """
    file = arguments.path(out, "the file of answers")
    if file.exists() and not resume:
        raise Refused(f"{file} exists: continue it with --resume, or name another file")
    dataset = _load_questions(questions)
    stored = run.without_failures(file) if file.exists() else {}
    texts = {question.id: question.question for question in dataset.questions}
    changed = [id for id, record in stored.items() if texts.get(id) != record["question"]]
    if changed:
        raise BadInput(f"{file} has another question with the id {changed[0]!r}: name another file")

    def ask(question: EvaluationQuestion) -> Record:
        query = partial(kb.query, question.image, question.question, **options)
        reply, seconds, failure = run.attempt(query)
        fields = reply.to_dict() if reply else {"question": question.question}
        return {"id": question.id, **fields, "seconds": seconds, **failure}

    records = run.ask_all(dataset.questions, ask, file, stored, progress)
    answered = sum(bool(record.get("answer")) for record in records)
    failed = run.failures(records)
    return Batch(len(records), answered, len(failed), (*dataset.left_out, *failed))


def compare(
    kb: KnowledgeBase,
    image: str | Path | None,
    question: str,
    *,
    methods: Sequence[str] = (),
    options: MethodOptions | None = None,
    report: str | Path | None = None,
) -> dict[str, Answer]:
    """Answer a question by several methods.

    Args:
        kb: The knowledge base.
        image: A picture file; None asks without one.
        question: A sentence.
        methods: Some of `ku_rag.evaluation.methods.METHODS`; all that can be asked if empty.
        options: How they answer.
        report: HTML file that shows all answers.

    Returns:
        The answer of each method.

    Raises:
        BadInput: There is no such method, or the question cannot be read.
        ModelFailed, BudgetSpent: The model did not answer.
    """
    picture = None if image is None else arguments.path(image, "the picture")
    query = EvaluationQuestion("", arguments.text(question, "the question"), picture)
    file = None
    if report is not None:
        file = arguments.output_file(report, "the report", spare=image)
    chosen = arguments.texts(methods, "methods") or [
        name
        for name in METHODS
        if (kb.mllm or name not in WITH_MODEL) and (picture or name not in WITH_PICTURE)
    ]
    options = options or MethodOptions()
    for name in chosen:
        check_method(name, kb.mllm, options)
    answers = {name: answer(kb, name, query, options) for name in chosen}
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        sections = [Section.of(reply, note=f"method {name}") for name, reply in answers.items()]
        file.write_text(render(sections, "ku-rag: methods compared"), encoding="utf-8")
    return answers
