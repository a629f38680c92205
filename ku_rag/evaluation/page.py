"""The page of a run: its figures with intervals, calibration, and the questions that it got wrong.

All texts come from data and are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from statistics import fmean

from ku_rag.answering.report import fact_list, image_tag, page
from ku_rag.errors import KuError
from ku_rag.evaluation.measures import is_lower_better
from ku_rag.evaluation.run import Evaluation, Record, with_confidence
from ku_rag.pictures import load_picture

_WORST = 20
_PICTURE_SIDE = 480
_BINS = 5
_NOT_SHOWN = ("questions", "measures")


def render(evaluation: Evaluation) -> str:
    """Write a run as one HTML page without scripts and addresses.

    Args:
        evaluation: The run with its records.

    Returns:
        The page, to be written as UTF-8.
    """
    settings, main = evaluation.settings, next(iter(evaluation.figures), "")
    shown = {k: v for k, v in settings.items() if k not in _NOT_SHOWN and v not in (None, "")}
    counts = (
        f"{evaluation.questions} questions, {evaluation.answered} answered, "
        f"{evaluation.failed} failed, {len(evaluation.left_out) - evaluation.failed} not read"
    )
    ranked = sorted(evaluation.records, key=lambda one: _loss(one, main), reverse=True)
    worst = [one for one in ranked[:_WORST] if _loss(one, main)]
    left_out = (f"<li>{escape(f'{one.item}: {one.reason}')}</li>" for one in evaluation.left_out)
    spent = {f"judge: {name}": count for name, count in evaluation.judge_usage.items()}
    parts = [
        f'<p class="quiet">{counts}</p>',
        _table("Figures", _figures(evaluation)),
        _table(f"{main} by confidence of the match", _calibration(evaluation, main)),
        ""
        if evaluation.calibration is None
        else f'<p class="quiet">Expected calibration error: '
        f"{evaluation.calibration:.3f}. Lower is better.</p>",
        f"<h3>The {len(worst)} worst questions</h3>" * bool(worst),
        *(_case(one, main) for one in worst),
        "<h3>All questions, the worst first</h3>",
        _fold(f"{len(ranked)} questions", _questions(ranked, main)),
        f"<h3>Failed or not read</h3><ul>{''.join(left_out)}</ul>" * bool(evaluation.left_out),
        '<div class="how">',
        fact_list("Settings", shown),
        fact_list("Seconds and tokens", {**evaluation.seconds, **evaluation.usage, **spent}),
        "</div>",
    ]
    return page(f"ku-rag: {settings['method']} on {settings['dataset']}", "\n".join(parts))


def _table(title: str, rows: Iterable[str]) -> str:
    head = "".join(f'<th class="number">{name}</th>' for name in ("value", "95 %", "questions"))
    body = "".join(rows)
    table = f'<table><tr><th></th><th class="plot"></th>{head}</tr>{body}</table>'
    return f"<h3>{escape(title)}</h3>{table}" if body else ""


def _figures(evaluation: Evaluation) -> Iterator[str]:
    """Show each figure with its interval, and those of the groups below it."""
    for name, figure in evaluation.figures.items():
        label = f"{name}, lower is better" if is_lower_better(name) else name
        yield _row(label, figure.value, figure.questions, figure.interval)
        yield from (_row(f"— {group}", value) for group, value in figure.groups.items())


def _row(
    name: str, value: float, count: int | str = "", interval: tuple[float, float] | None = None
) -> str:
    """Show a value as a number and as a bar from 0 to 1, its interval as a line on the bar."""
    shown = f"[{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
    width, start, stop = (min(max(end, 0.0), 1.0) for end in (value, *(interval or (0.0, 0.0))))
    line = f'<i style="left:{start:.1%};width:{stop - start:.1%}"></i>' if interval else ""
    bar = f'<div class="bar"><b style="width:{width:.1%}"></b>{line}</div>'
    numbers = "".join(f'<td class="number">{one}</td>' for one in (f"{value:.3f}", shown, count))
    return f'<tr><td>{escape(name)}</td><td class="plot">{bar}</td>{numbers}</tr>'


def _calibration(evaluation: Evaluation, measure: str) -> Iterator[str]:
    """Show the mean score of questions by the confidence of their best match."""
    bins: dict[int, list[float]] = {}
    for sure, score in with_confidence(evaluation.records, measure):
        bins.setdefault(min(int(sure * _BINS), _BINS - 1), []).append(score)
    for number, scores in sorted(bins.items()):
        name = f"confidence {number / _BINS:.1f} to {(number + 1) / _BINS:.1f}"
        yield _row(name, fmean(scores), len(scores))


def _loss(record: Record, measure: str) -> float:
    """Return what a question lacks to a full score; infinity if it failed."""
    score = record["scores"].get(measure)
    if record["error"] or score is None:
        return math.inf if record["error"] else 0.0
    return float(score if is_lower_better(measure) else 1 - score)


def _questions(records: Iterable[Record], measure: str) -> str:
    """Show each question with its gold answer, its answer, and its score or error, as a table."""
    heads = ("question", "expected", "answer", measure)
    rows = (
        (one["question"], _expected(one), one["prediction"]["answer"], _score(one, measure))
        for one in records
    )
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>{body}</table>"


def _case(record: Record, measure: str) -> str:
    """Show a question with its picture, gold answer, answer and evidence."""
    picture, found = "", record["prediction"]
    facts = {
        "expected": _expected(record),
        "answer": found["answer"] or "—",
        "draft": found["draft"],
        "why": record["why"],
        "error" if record["error"] else measure: _score(record, measure),
    }
    if record["image"]:
        try:
            image = load_picture(Path(record["image"]))
            picture = f'<div class="picture">{image_tag(image, _PICTURE_SIDE, "")}</div>'
        except (KuError, OSError) as error:
            picture = f'<p class="quiet">{escape(str(error))}</p>'
    pieces = (f"{one['evidence']}: {one['text']}" for one in record["evidence"])
    evidence = "".join(f"<blockquote>{escape(piece)}</blockquote>" for piece in pieces)
    folded = _fold("Evidence", evidence) if evidence else ""
    return (
        f'<article class="evidence"><h2>{escape(record["question"])}</h2>'
        f'<div class="top{"" if picture else " bare"}">{picture}'
        f"<div>{fact_list('', {k: v for k, v in facts.items() if v})}{folded}</div></div></article>"
    )


def _expected(record: Record) -> str:
    return " | ".join(one or "no answer" for one in record["answers"]) or ", ".join(record["units"])


def _score(record: Record, measure: str) -> str:
    """Return the score of a question, or why it failed."""
    score = record["scores"].get(measure)
    return str(record["error"]) or ("" if score is None else f"{score:.3f}")


def _fold(summary: str, html: str) -> str:
    return f"<details><summary>{summary}</summary>{html}</details>"
