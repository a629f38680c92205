"""The page of a run: its figures with intervals, calibration, and its questions, worst first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from ku_rag.answering.report import image_tag, page
from ku_rag.errors import KuError
from ku_rag.evaluation.measures import is_lower_better
from ku_rag.evaluation.run import Evaluation, Record, with_confidence
from ku_rag.pictures import load_picture
from ku_rag.plugins import extra

if TYPE_CHECKING:
    from markupsafe import Markup

_WORST = 20
_PICTURE_SIDE = 480
_BINS = 5
_NOT_SHOWN = ("questions", "measures")


def render(evaluation: Evaluation) -> str:
    """Write a run with its records as one HTML page without scripts and addresses."""
    jinja = extra("eval", "jinja2")
    templates = jinja.Environment(loader=jinja.PackageLoader("ku_rag.evaluation"), autoescape=True)
    settings, main = evaluation.settings, next(iter(evaluation.figures), "")
    ranked = sorted(evaluation.records, key=lambda record: _loss(record, main), reverse=True)
    bins: dict[int, list[float]] = {}
    for sure, score in with_confidence(evaluation.records, main):
        bins.setdefault(min(int(sure * _BINS), _BINS - 1), []).append(score)
    judged = {f"judge: {name}": count for name, count in evaluation.judge_usage.items()}
    body = templates.get_template("run.html").render(
        run=evaluation,
        main=main,
        bins={(n / _BINS, (n + 1) / _BINS): scores for n, scores in sorted(bins.items())},
        ranked=ranked,
        worst=[(record, _picture(record)) for record in ranked[:_WORST] if _loss(record, main)],
        settings={name: value for name, value in settings.items() if name not in _NOT_SHOWN},
        spent={**evaluation.seconds, **evaluation.usage, **judged},
        is_lower_better=is_lower_better,
        percent=lambda share: f"{100 * min(max(share, 0.0), 1.0):.1f}",
    )
    return page(f"ku-rag: {settings['method']} on {settings['dataset']}", body)


def _loss(record: Record, measure: str) -> float:
    """Return what a question lacks to a full score; infinity if it failed."""
    score = record["scores"].get(measure)
    if record["error"] or score is None:
        return math.inf if record["error"] else 0.0
    return float(score if is_lower_better(measure) else 1 - score)


def _picture(record: Record) -> Markup | str:
    """Return the picture of a question as HTML, or why it cannot be shown."""
    from markupsafe import Markup

    if not record["image"]:
        return ""
    try:
        image = load_picture(Path(record["image"]))
        return Markup(f'<div class="picture">{image_tag(image, _PICTURE_SIDE, "")}</div>')
    except (KuError, OSError) as error:
        return Markup('<p class="quiet">{}</p>').format(str(error))
