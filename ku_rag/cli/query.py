"""Commands that answer questions and search."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ku_rag import evaluation
from ku_rag.cli.options import (
    PATH,
    common,
    evidence_options,
    evidence_settings,
    filter_options,
    mllm_option,
    number_option,
    open_base,
    output_option,
    plan_from,
    plan_options,
    vision_options,
)
from ku_rag.cli.output import (
    counts,
    one_line,
    print_answer,
    print_left_out,
    print_result,
    progress,
    remark,
    remark_usage,
)
from ku_rag.papers import STRICT
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.picture_paths import PICTURE_SUFFIXES

_METHOD = click.Choice(["evidence", "model-only"])


@click.command()
@click.argument("image", required=False)
@click.argument("question", required=False)
@click.option("--batch", type=PATH, help="Answer the questions of a file instead; see `ku eval`.")
@click.option("--out", type=PATH, help="The file of JSON lines that gets the answers of --batch.")
@click.option("--resume", is_flag=True, help="Keep the answers in --out.")
@click.option("-k", type=click.IntRange(1, 100), help="Maximum units and chunks.  [default: 10]")
@output_option("--passage", "FILE.png", "Write the stitched passage; further pages get a number.")
@output_option("--report", "FILE.html", "Write a page that shows how the question was answered.")
@mllm_option("answers; '' for none")
@click.option("--unit", metavar="ID", help="Id or unique name of the unit that QUESTION is about.")
@vision_options
@click.option("--no-kcc", is_flag=True, help="Ask it once, with the evidence; no correction.")
@click.option("--no-units", is_flag=True, help="Search texts alone, by its caption of the picture.")
@click.option("--strict", type=click.Choice(list(STRICT)), help="A published method alone.")
@click.option(
    "--method", type=_METHOD, help="Build an evidence graph first, or ask the model alone."
)
@evidence_options
@plan_options
@click.option("--plan-only", is_flag=True, help="Print the plan without answering.")
@click.option("--no-graph", is_flag=True, help="Leave out paths of the graph.")
@filter_options
@common
def query(
    image: str | None,
    question: str | None,
    batch: Path | None,
    out: Path | None,
    resume: bool,
    passage: Path | None,
    report: Path | None,
    no_kcc: bool,
    no_units: bool,
    no_graph: bool,
    strict: str | None,
    method: str | None,
    plan_only: bool,
    **options: Any,  # noqa: ANN401 - passed on as they are named there
) -> None:
    """Answer QUESTION about the picture IMAGE, or without a picture if IMAGE is left out or "-".

    With --method evidence a graph is first built for the question from texts, tables and pictures,
    by the model or from facts; three options leave out a step of it. With --plan the model or an
    embedded planner reformulates the question and searches in rounds.
    """
    settings, plan = evidence_settings(options), plan_from(options, strict)
    options |= {
        "kcc": not no_kcc,
        "units": not no_units,
        "graph": not no_graph,
        "strict": strict or "",
        "method": method or "",
        "construction": None if settings == EvidenceSettings() else settings,
        "plan": plan,
    }
    if batch:
        if image or passage or report or not out or not out.name:
            raise click.UsageError("--batch FILE needs --out, and no IMAGE, --passage or --report")
        _answer_batch(batch, out, resume, options)
        return
    picture, question = _picture_and_question(image, question)
    if plan_only and (passage or report):
        raise click.UsageError("--plan-only answers nothing: leave out --passage and --report")
    if plan_only:
        _print_plan(picture, question, options)
        return
    with open_base(read_only=True) as base, progress(base.settings.mllm, items=""):
        answer = base.query(picture, question, passage=passage, report=report, **options)
    print_answer(answer)
    if graph := answer.evidence_graph and answer.evidence_graph.to_dict():
        size = f"{len(graph['nodes'])} nodes and {len(graph['edges'])} edges"
        remark(f"evidence graph of {size} by {graph['agents']} agents: {graph['stopped']}")
    for line in _plan_lines(answer.to_dict().get("plan")):
        remark(line)
    if answer.correction:
        remark_usage(answer.correction.usage, base.settings)
    for written in (*answer.passage, *([report] if report else [])):
        remark(f"wrote {written}")


def _picture_and_question(image: str | None, question: str | None) -> tuple[str | None, str]:
    """Return the path of the picture, if there is one, and the question; one may stand alone."""
    if image is None:
        raise click.UsageError("give IMAGE and QUESTION, or QUESTION alone, or --batch")
    if question is None:
        is_path = Path(image).suffix.lower() in PICTURE_SUFFIXES or os.path.exists(image)
        if image == "-" or is_path:
            raise click.UsageError(f"{image!r} is taken for IMAGE: give a QUESTION after it")
        return None, image
    return None if image == "-" else image, question


def _print_plan(image: str | None, question: str, options: dict[str, Any]) -> None:
    """Plan a question without answering it, and print the plan."""
    if not (options["plan"] or options["strict"]):
        raise click.UsageError("--plan-only needs --plan, --plan-file or --strict cogplanner")
    fields = {name: options[name] for name in ("searchers", "kind", "where", "strict")}
    fields["plan"] = options["plan"] or "sequential"
    with open_base(read_only=True) as base, progress(base.settings.mllm, items=""):
        plan = base.plan(image, question, **fields)
    print_result(plan, _plan_lines(plan.to_dict()))


def _plan_lines(plan: Mapping[str, Any] | None) -> Iterator[str]:
    for number, step in enumerate(plan["rounds"] if plan else (), 1):
        names = list(dict.fromkeys(hit["title"] for s in step["searches"] for hit in s["hits"]))
        problems = [*step["notes"], *(s["error"] for s in step["searches"] if s["error"])]
        why = f" ({step['why'][1]})" if step["why"][1] else ""
        yield f"round {number}, {step['action']}{why}: {'; '.join(step['queries'])}"
        titles = [", ".join(names) or "nothing found"] if step["searches"] else []
        yield from (f"  {line}" for line in [*titles, *problems])
    if plan:
        yield f"the plan ended: {plan['stopped']}"


def _answer_batch(questions: Path, out: Path, resume: bool, options: dict[str, Any]) -> None:
    """Answer the questions of a file into another one."""
    with open_base(read_only=True) as base, progress("answering", "questions") as moved:
        done = evaluation.query_batch(
            base, questions, out, resume=resume, progress=moved, **options
        )
    print_result(
        done, f"{counts(questions=done.questions)}, {done.answered} answered, {done.failed} failed"
    )
    print_left_out(done.left_out)


@click.command()
@click.option("--image", help="A picture to find units for.")
@click.option("--text", default="", help="Words to find units and chunks for.")
@number_option("-k", "Maximum units and chunks.", 10, 1, 1000)
@filter_options
@common
def search(image: str | None, text: str, **options: Any) -> None:  # noqa: ANN401 - as named there
    """Find units and chunks for a picture, a text, or both."""
    if image is None and not text.strip():
        raise click.UsageError("give --image, --text, or both")
    with open_base(read_only=True) as base:
        result = base.search(image=image, text=text, **options)
    lines = [
        f"{unit.score:.3f}  {unit.name}  ({unit.id}): {one_line(unit.why)}" for unit in result.units
    ]
    lines += [f"{hit.score:.3f}  {hit.origin}: {one_line(hit.text)}" for hit in result.chunks]
    print_result(result, lines or "nothing found")


@click.group("plan")
def plan_group() -> None:
    """Plans of questions, which `ku query --plan` makes."""


@plan_group.command("export")
@click.argument("plans", nargs=-1, required=True, type=PATH)
@click.option("--out", type=PATH, required=True, metavar="FILE.json", help="The file of records.")
@click.option("--least", multiple=True, metavar="MEASURE=VALUE", help="Minimum score in a run.")
@common
def export_plans(plans: tuple[Path, ...], out: Path, least: tuple[str, ...]) -> None:
    """Write the decisions of accepted PLANS as records to fine-tune a planner.

    PLANS are files of `ku query --plan --json` with "accepted": true; or, with --least, runs of
    the method plan of `ku eval`.
    """
    from ku_rag.papers.cogplanner import export

    try:
        scores = {name: float(value) for name, value in (item.split("=") for item in least)}
        if not all(map(math.isfinite, scores.values())):
            raise ValueError
    except ValueError:
        raise click.UsageError(
            f"--least is {' '.join(least)}: expected MEASURE=VALUE, such as f1=0.5"
        ) from None
    done = export.export_plans(plans, out, scores)
    print_result(done, f"{done.records} records of {done.plans} plans")
    print_left_out(done.left_out)
