"""The records of a run, which are streamed to a file and read back to resume it.

A run is a folder: `records.jsonl` has a record for each question, `summary.json` the settings of
the run and, when it has ended, its figures.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args
from zlib import crc32

import orjson

from ku_rag import arguments
from ku_rag.errors import BadInput, BudgetSpent, Closed, KuError, MissingExtra, ModelFailed, Refused
from ku_rag.evaluation.measures.base import RIGHT, Measure, Prediction
from ku_rag.evaluation.measures.plans import RATIOS
from ku_rag.evaluation.questions import Dataset, EvaluationQuestion
from ku_rag.evaluation.statistics import bootstrap_interval, calibration_error
from ku_rag.mllm.base import MeteredMLLM, usage
from ku_rag.papers.cogplanner.plan import Plan
from ku_rag.papers.graphrag.construction import EvidenceSearch
from ku_rag.store.layout import write_durably
from ku_rag.types import (
    INTERNAL,
    Answer,
    Evidence,
    Outcome,
    PathEvidence,
    Quarantined,
    Serializable,
)

RECORDS, SUMMARY, PAGE = "records.jsonl", "summary.json", "report.html"
_MOST_FAILURES = 5
"""Consecutive failures, of the model or for one reason, after which a run ends."""
_LONGEST_TEXT = 1_000

_CHECKSUM = b',"checksum":'
_BEGINNING = b'{"id":'
"""First bytes of a record; an incomplete last line that begins so was cut off."""
T = TypeVar("T")
Record = Mapping[str, Any]
Progress = Callable[[int, Mapping[str, Sequence[float]]], None]
"""Called with the number of questions done, and the scores so far by measure."""


@dataclass(frozen=True, slots=True)
class Figure(Serializable):
    """The result of a measure over a run.

    Args:
        value: Mean over the questions with a score, unless the measure aggregates differently.
        interval: Of the mean, at 95 %, by bootstrap; None for fewer than two questions or a ratio.
    """

    value: float
    interval: tuple[float, float] | None
    questions: int
    groups: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation(Serializable):
    """The result of a run.

    Args:
        settings: Of the run.
        questions: Number of questions.
        answered: How many have an answer.
        outcomes: How many questions had each outcome; one that failed has none.
        right: Scores of at least .5 by the main measure, among them questions without an answer in
            the base that got none.
        wrong: Answers with a lower score.
        declined: Questions with a gold answer that got none.
        failed: How many could not be asked, for example because their picture is missing.
        figures: Figure of each measure, the main one first.
        calibration: Expected calibration error of the confidence of the best match, with the main
            measure as outcome, 0 to 1; None where no question has both.
        usage: Replies and tokens of the model that answers.
        judge_usage: Replies and tokens of the model that judges.
        seconds: Median and greatest time of a question.
        left_out: Records of the dataset that could not be read, and questions that failed.
        note: What the dataset lacks of its published number of questions, or "".
        records: One for each question, in the order of the dataset; not in `to_dict`.
    """

    settings: Mapping[str, Any]
    questions: int
    answered: int
    outcomes: Mapping[str, int]
    right: int
    wrong: int
    declined: int
    failed: int
    figures: Mapping[str, Figure]
    calibration: float | None
    usage: Mapping[str, int]
    judge_usage: Mapping[str, int]
    seconds: Mapping[str, float]
    left_out: Sequence[Quarantined] = ()
    note: str = ""
    records: Sequence[Record] = field(default=(), metadata=INTERNAL)


# ---- questions ---------------------------------------------------------------------------------


def ask_all(
    questions: Sequence[EvaluationQuestion],
    ask: Callable[[EvaluationQuestion], Record],
    file: Path | None,
    earlier: Mapping[str, Record],
    progress: Progress | None,
) -> list[Record]:
    """Return a record for each question, an earlier one if there is, and store new ones."""
    records: list[Record] = []
    scores = dict[str, list[float]]()
    failed, reason = 0, ""
    try:
        with file.open("ab") if file else nullcontext() as out:
            for question in questions:
                record = earlier.get(question.id)
                if record is None:
                    record = ask(question)
                    if out:
                        out.write(to_line(record))
                        out.flush()
                records.append(record)
                for name, score in record.get("scores", {}).items():
                    scores.setdefault(name, []).extend([] if score is None else [score])
                if progress:
                    progress(len(records), scores)
                alike = record["model_failed"] or record["error"] == reason
                failed = (failed if alike else 0) + 1 if record["error"] else 0
                reason = record["error"]
                if failed >= _MOST_FAILURES or record["model_failed"] == "budget":
                    raise (ModelFailed if record["model_failed"] else Refused)(
                        f"{reason}. The run ended after {len(records)} questions, the last "
                        f"{failed} of which failed: continue it with --resume"
                    )
    except OSError as error:
        raise Refused(
            f"{file} cannot be written ({error.strerror}): make room, and continue with --resume"
        ) from error
    return records


def attempt(call: Callable[[], T]) -> tuple[T | None, float, dict[str, str]]:
    """Return the result of a call, its seconds, and fields of a record that describe a failure."""
    started, result, failure = time.perf_counter(), None, {"error": "", "model_failed": ""}
    try:
        result = call()
    except (Closed, MissingExtra):
        raise
    except Exception as error:  # one question that fails in any way does not end a run
        name, by = type(error).__name__, "call" * isinstance(error, ModelFailed)
        message = str(error) if isinstance(error, KuError) else f"{name}: {error}"
        by = "budget" if isinstance(error, BudgetSpent) else by
        failure = {"error": message or name, "model_failed": by}
    return result, round(time.perf_counter() - started, 4), failure


def scored(
    question: EvaluationQuestion,
    ask: Callable[[], Answer],
    measures: Sequence[Measure],
    judge: MeteredMLLM | None,
) -> Record:
    """Return the record of a question; one that failed is scored as no answer."""
    answer, seconds, failure = attempt(ask)
    predicted = prediction(answer) if answer else Prediction()
    fields = question.to_dict() | {"image": question.image and str(question.image)}
    del fields["fields"]
    scores = dict[str, float | None]()
    for measure in measures:
        score, _, problem = attempt(partial(measure.score, question, predicted))
        if problem["error"]:  # a judge fails, or a field of the question is something else
            failure = problem
        else:
            scores[measure.name] = score
    spent = answer.correction.usage if answer and answer.correction else {}
    judged = usage(judge.replies) if judge else {}
    if judge:
        judge.replies.clear()
    pieces: list[Evidence | PathEvidence] = [*answer.chunks, *answer.paths] if answer else []
    evidence = [
        {"evidence": piece.label}
        | ({"owners": [*piece.owners]} if isinstance(piece, Evidence) else {})
        | {"text": piece.text[:_LONGEST_TEXT]}
        for piece in pieces
    ]
    return {
        **fields,
        "prediction": predicted.to_dict(),
        "outcome": answer.outcome if answer else "",
        "why": answer.reading.why if answer else "",
        "evidence": evidence,
        "scores": scores,
        "usage": dict(spent),
        "judge_usage": judged,
        "models": dict(answer.models) if answer else {},
        "seconds": seconds,
        **failure,
    }


def prediction(answer: Answer) -> Prediction:
    """Return the parts of an answer that are measured; units that match a picture rank first."""
    matched = [unit.id for unit in answer.units]
    owners = [owner for chunk in answer.chunks for owner in chunk.owners or chunk.unit_ids]
    built = answer.evidence_graph
    size = built.sizes["retrieval"] if isinstance(built, EvidenceSearch) else None
    plan = answer.plan if isinstance(answer.plan, Plan) else None
    spent = answer.correction.usage.get("completion_tokens", 0) if answer.correction else 0
    spent -= plan.usage.get("completion_tokens", 0) if plan else 0
    return Prediction(
        answer=answer.answer,
        items=answer.reading.items,
        units=tuple(dict.fromkeys([*matched, *owners] if answer.image else [*owners, *matched])),
        routes=tuple(path.entities for path in answer.paths),
        confidence=answer.units[0].confidence if answer.units else None,
        draft=answer.draft,
        graph_size=(size["nodes"], size["edges"]) if size else None,
        plan=plan,
        tokens=spent or None,
    )


# ---- figures -----------------------------------------------------------------------------------


def summarize(
    settings: Mapping[str, Any],
    dataset: Dataset,
    measures: Sequence[Measure],
    records: Sequence[Record],
) -> Evaluation:
    """Return the figures of a run from the records of its questions, in the same order."""
    figures = {}
    for measure in measures:
        scores = [record["scores"].get(measure.name) for record in records]
        if applying := [score for score in scores if score is not None]:
            value, groups = measure.summarize(dataset.questions, scores)
            interval = bootstrap_interval(applying) if len(applying) > 1 else None
            figures[measure.name] = Figure(value, interval, len(applying), groups)
    for name, divisor in RATIOS.items():
        part, whole = figures.pop(name, None), figures.get(divisor)
        if part and whole and whole.value:
            means = ((group, mean, whole.groups.get(group)) for group, mean in part.groups.items())
            groups = {group: mean / base for group, mean, base in means if base}
            figures[name] = Figure(part.value / whole.value, None, part.questions, groups)
    spent, judged = Counter[str](), Counter[str]()
    for record in records:
        spent.update(record["usage"])
        judged.update(record["judge_usage"])
    seconds = sorted(record["seconds"] for record in records)
    main = next(iter(figures), "")
    confident = with_confidence(records, main)
    failed = failures(records)
    outcomes = Counter(record.get("outcome") for record in records)
    verdicts = Counter(verdict(record, main) for record in records)
    return Evaluation(
        settings,
        questions=len(records),
        answered=outcomes["answered"],
        outcomes={name: outcomes[name] for name in get_args(Outcome)},
        right=verdicts["right"],
        wrong=verdicts["wrong"],
        declined=verdicts["declined"],
        failed=len(failed),
        figures=figures,
        calibration=calibration_error(*zip(*confident, strict=True)) if confident else None,
        usage=spent,
        judge_usage=judged,
        seconds={"median": seconds[len(seconds) // 2], "most": seconds[-1]},
        left_out=(*dataset.left_out, *failed),
        note=dataset.note,
        records=records,
    )


def verdict(record: Record, measure: str) -> str:
    """Return "right", "wrong" or "declined"; "" for a question that failed or has no score."""
    score = record["scores"].get(measure)
    if record["error"] or score is None:
        return ""
    if score >= RIGHT:
        return "right"
    return "wrong" if record["prediction"].get("answer") else "declined"


def with_confidence(records: Sequence[Record], measure: str) -> list[tuple[float, float]]:
    """Return the confidence and the score of each record that has both."""
    pairs = ((row["prediction"].get("confidence"), row["scores"].get(measure)) for row in records)
    return [pair for pair in pairs if None not in pair]


def failures(records: Sequence[Record]) -> list[Quarantined]:
    """Return the questions that failed, by their ids, and why."""
    return [Quarantined(record["id"], record["error"]) for record in records if record["error"]]


# ---- files -------------------------------------------------------------------------------------


def open_run(out: Path, settings: Mapping[str, Any], *, resume: bool) -> dict[str, Record]:
    """Begin a run in a folder, or return the records of the run in it that did not fail."""
    records = out / RECORDS
    if records.exists() and not resume:
        raise Refused(f"{out} holds a run: continue it with --resume, or name another folder")
    if not records.exists():
        write_durably([(out / SUMMARY, orjson.dumps({"settings": settings}))])
        return {}
    try:
        before = dict(orjson.loads((out / SUMMARY).read_bytes())["settings"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(
            f"{out} holds no run ({error}): name a folder that `ku eval --out` made"
        ) from error
    changed = [
        f"{name}: {before.get(name)!r} before, {settings.get(name)!r} now"
        for name in sorted({*before, *settings})
        if before.get(name) != settings.get(name)
    ]
    if changed:
        listed = "; ".join(changed)
        raise BadInput(f"{out} was made with other settings ({listed}): name another folder")
    return without_failures(records)


def without_failures(file: Path) -> dict[str, Record]:
    """Remove records of failed questions, and a last line that was cut off, from a file."""
    kept = [record for record in read_records(file) if not record["error"]]
    write_durably([(file, b"".join(map(to_line, kept)))])
    return {record["id"]: record for record in kept}


def to_line(record: Record) -> bytes:
    """Return the line of a record, with its checksum."""
    body = orjson.dumps(record)
    return b"%b%b%d}\n" % (body[:-1], _CHECKSUM, crc32(body))


def read_records(file: Path) -> Iterator[Record]:
    """Yield the records of a run or a batch; a last line that was cut off is left out."""
    arguments.regular_file(file, "the file of records")
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n") and line.startswith(_BEGINNING[: len(line)]):
                return
            body, _, checksum = line.rpartition(_CHECKSUM)
            if checksum != b"%d}\n" % crc32(body + b"}"):
                raise BadInput(
                    f"{file}:{number} is not a record of a run, or was changed: name another file"
                )
            yield orjson.loads(body + b"}")
