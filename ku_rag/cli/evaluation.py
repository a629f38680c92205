"""Commands that measure answers, and compare methods and runs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from ku_rag import evaluation
from ku_rag.cli.options import (
    GRAPH_SETTINGS,
    PATH,
    Command,
    common,
    evidence_options,
    evidence_settings,
    judge_option,
    mllm_option,
    number_option,
    open_base,
    output_option,
    plan_setting_options,
    plan_settings,
)
from ku_rag.cli.output import one_line, print_left_out, print_result, progress, remark, remark_usage
from ku_rag.evaluation.methods import METHODS, MethodOptions
from ku_rag.papers import STRICT
from ku_rag.papers.cogplanner.plan import MODELLINGS, PlanSettings

_METHOD = click.Choice(METHODS)
_STEPS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "kcc": ("Ask the model once, with the evidence, without correction.", {}),
    "units": ("Search only texts, by a caption of the picture.", {}),
    "graph": ("Use no graph paths.", {}),
    "expand": ("Do not follow links between chunks.", {"expand": False}),
    "rerank": ("Do not rerank the evidence.", {"reranker": ""}),
    "region": ("Match the whole picture.", {"segmenter": "whole"}),
}
"""Steps that --no-STEP leaves out: help, and the settings of a base without it."""
_OUTCOMES = ("right", "wrong", "declined", "failed")


def _method_options(command: Command) -> Command:
    """The options that change how methods answer; see `MethodOptions`."""
    order = click.Choice(["breadth", "depth"])
    settings = click.Choice([*GRAPH_SETTINGS, "knowledgeable"])
    modelling = click.Choice(MODELLINGS)
    options: list[Callable[[Command], Command]] = [
        click.option("--order", type=order, default="breadth", help="Order of the graph search."),
        number_option("--paths", "Paths after which the graph search ends.", 5, 1, 100),
        number_option("--frames", "Maximum video frames in a graph search.", 8, 1, 100),
        click.option("--setting", type=settings, help="Setting of the graph search."),
        evidence_options,
        click.option("--plan", type=modelling, default="sequential", help="Order of decisions."),
        plan_setting_options,
        click.option("--strict", type=click.Choice(list(STRICT)), help="Only a published method."),
        *(
            click.option(f"--no-{step}", step, flag_value=False, default=True, help=help)
            for step, (help, _) in _STEPS.items()
        ),
        click.option("-k", type=click.IntRange(1, 1000), help="Maximum units and chunks."),
    ]
    for option in options:
        command = option(command)
    return command


def _take_options(options: dict[str, Any]) -> tuple[MethodOptions, dict[str, Any]]:
    """Take the options of the methods, and return them and those that the base is opened with."""
    opened: dict[str, Any] = {"read_only": True}
    for step, (_, without) in _STEPS.items():
        if without and not options.pop(step):
            opened |= without
    options["depth_first"] = options.pop("order") == "depth"
    options["construction"] = evidence_settings(options)
    if limits := plan_settings(options):
        options["plan"] = PlanSettings(options["plan"], **limits)
    values = {field.name: options.pop(field.name) for field in fields(MethodOptions)}
    return MethodOptions(**{k: v for k, v in values.items() if v is not None}), opened


class _WithDefault(click.Group):
    """A group that calls `run` if the first argument is not a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name, or `run` with all of them."""
        named = not args or args[0] in self.commands
        return super().resolve_command(ctx, args if named else ["run", *args])


@click.group("eval", cls=_WithDefault, context_settings={"ignore_unknown_options": True})
def evaluate() -> None:
    """Measure a method on a dataset.

    `ku eval QUESTIONS.jsonl --out DIR` reads questions of your own,
    `ku eval DATASET --path FILE` reads a published dataset. `ku eval run --help` lists the options.
    """


@evaluate.command()
@click.argument("dataset")
@click.option("--path", type=PATH, help="File of a published dataset.")
@click.option("--images", type=PATH, help="Folder of its pictures.")
@click.option("--method", type=_METHOD, default="ku", show_default=True, help="What to evaluate.")
@click.option("--measure", "measures", multiple=True, help="Further measure; may be repeated.")
@number_option("--every", "Ask every Nth question.", 1, 1)
@number_option("--limit", "Maximum number of questions.", None, 1)
@click.option("--out", type=PATH, help="Folder for records, summary and report.")
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@_method_options
@judge_option
@mllm_option("answers; '' for none")
@common
def run(dataset: str, path: Path | None, images: Path | None, **values: Any) -> None:  # noqa: ANN401
    """Answer the questions of DATASET with a method and measure the answers.

    DATASET is a file of questions, one JSON object a line: {"question", "image"?, "answers"?,
    "units"?, "id"?}; or the name of a published dataset, with --path.
    """
    from ku_rag.evaluation.datasets import load

    options, opened = _take_options(values)
    if values["resume"] and not values["out"]:
        raise click.UsageError("--resume continues a run: name its folder with --out")
    questions = load(dataset, path, images=images) if path else dataset
    if path and not images:
        remark("questions are asked without pictures: name their folder with --images")
    title = f"{values['method']} on {dataset}"
    with open_base(**opened) as base, progress(title, "questions") as bar:
        moved = bar and (lambda count, scores: bar(count, _means(scores)))
        result = evaluation.evaluate(base, questions, options=options, progress=moved, **values)
        print_result(result, _lines(result.to_dict()))
        if result.note:
            remark(result.note)
        remark_usage(result.usage, base.settings)
        judge = replace(base.settings, mllm="judge", mllm_prompt_price=0, mllm_reply_price=0)
        remark_usage(result.judge_usage, judge)
    if values["out"]:
        remark(f"wrote {values['out'] / 'report.html'}")
    print_left_out(result.left_out)


def _means(scores: Mapping[str, list[float]]) -> str:
    return ", ".join(f"{name} {fmean(every):.3f}" for name, every in scores.items() if every)


def _lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Format the figures of a run as lines."""
    outcomes = ", ".join(f"{summary[name]} {name}" for name in _OUTCOMES)
    yield f"{summary['questions']} questions: {outcomes}; {summary['seconds']['median']:.3f} s each"
    for name, figure in summary["figures"].items():
        between = ", ".join(f"{end:.3f}" for end in figure["interval"] or ())
        interval = f"[{between}]" if between else ""
        yield f"  {name:18} {figure['value']:.3f}  {interval:14}  {figure['questions']:,}"
        yield from (f"    {group:16} {value:.3f}" for group, value in figure["groups"].items())
    unscored = (name for name in summary["settings"]["measures"] if name not in summary["figures"])
    yield from (f"  {name:18} no question has a score" for name in unscored)


@evaluate.command()
@click.argument("name", required=False)
@click.option("--data", type=PATH, help="Folder with the authors' files.")
@click.option("--out", type=PATH, default="runs", show_default=True, help="Folder for the runs.")
@number_option("--every", "Ask every Nth question.", 1, 1)
@number_option("--limit", "Maximum number of questions.", None, 1)
@judge_option
@mllm_option("answers")
@common
def reproduce(
    name: str | None, data: Path | None, out: Path, every: int, limit: int | None
) -> None:
    """Make the table NAME of a paper from the authors' data, and print it beside the published one.

    Without NAME, list the tables and the files that they need. A run that was interrupted goes on.
    """
    from ku_rag.evaluation.reproduction import find_table, load_tables

    if name is None:
        lines = [f"{t.name}: {t.table}; {t.path}" for t in load_tables().values()]
        print_result([*load_tables().values()], lines)
        return
    if data is None:
        raise click.UsageError("name the folder of the authors' files with --data")
    table, context = find_table(name), click.get_current_context()
    dataset, models = table.arguments(data), deepcopy(context.meta)
    count = ["--every", str(every), *(["--limit", str(limit)] if limit else [])]
    for row, options, _ in table.rows:
        folder = out / table.name / row
        words = [*dataset, *shlex.split(options), "--out", str(folder)]
        words += ["--measure", table.measure, *count]
        words += ["--resume"] if (folder / "records.jsonl").exists() else []
        remark(f"{table.name}, {row}: ku eval {shlex.join(words)}")
        with redirect_stdout(sys.stderr), run.make_context("run", words, parent=context) as inner:
            inner.meta.update(deepcopy(models))
            run.invoke(inner)
    rows = table.compare(out / table.name)
    head = f"{table.table}: {table.measure}"
    lines = [f"  {'':18} {'published':>9} {'measured':>9}  questions"]
    lines += [f"  {r.name:18} {r.published:9.4f} {r.measured:9.4f}  {r.questions:,}" for r in rows]
    print_result(rows, [head, *lines])


@evaluate.command("captions")
@judge_option
@mllm_option("judges")
@common
def judge_graph_captions() -> None:
    """Compare captions by models with those of people (MH-MMKG, "Sim.").

    `ku graph caption` writes the former, a graph that was imported has the latter.
    """
    with open_base(read_only=True) as base:
        similarities = evaluation.judge_captions(base)
    print_result(
        similarities,
        [f"{s.model}: {s.similar} of {s.entities} are alike ({s.share:.4f})" for s in similarities],
    )


@evaluate.command("compare")
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@common
def compare_folders(first: Path, second: Path) -> None:
    """Compare the runs in two folders by a paired permutation test."""
    from ku_rag.evaluation.comparison import compare_runs

    differences = compare_runs(first, second)
    head = f"  {'measure':18} {'first':>6} {'second':>6} {'p':>6}  second is better, worse, of"
    lines = [
        f"  {row.measure:18} {row.first:6.3f} {row.second:6.3f} {row.p:6.3f}  "
        f"{row.better:16,} {row.worse:6,} {row.questions:3,}"
        for row in differences
    ]
    print_result(differences, [head, *lines])


@evaluate.command()
@click.argument("folder", default="demo", type=PATH)
@common
def demo(folder: Path) -> None:
    """Create the demo base in FOLDER and evaluate every method that needs no model."""
    from ku_rag.demo.tour import write_questions
    from ku_rag.evaluation.methods import WITH_MODEL
    from ku_rag.knowledge_base import KnowledgeBase

    questions, runs = write_questions(folder), folder / "runs"
    with KnowledgeBase.open(folder / "kb", read_only=True) as base:
        data = {
            name: evaluation.evaluate(
                base, questions, method=name, out=runs / name, resume=True
            ).to_dict()
            for name in METHODS
            if name not in WITH_MODEL
        }
    print_result(data, [line for name, of in data.items() for line in (name, *_lines(of))])
    remark(f"wrote {runs / '*' / 'report.html'}")


@click.command("compare")
@click.argument("image")
@click.argument("question")
@click.option("--method", "methods", type=_METHOD, multiple=True, help="Method; may be repeated.")
@output_option("--report", "FILE.html", "Write a page with all answers.")
@_method_options
@mllm_option("answers; '' for none")
@common
def compare_methods(image: str, question: str, report: Path | None, **values: Any) -> None:  # noqa: ANN401
    """Answer QUESTION about IMAGE with several methods ("-" for no picture)."""
    options, opened = _take_options(values)
    path = None if image == "-" else image
    with open_base(**opened) as base, progress(base.settings.mllm, items=""):
        answers = evaluation.compare(base, path, question, options=options, report=report, **values)
    width = max(map(len, answers))
    lines = (
        f"{name:{width}}  {one_line(answer.answer or f'— ({answer.reading.why})')}"
        for name, answer in answers.items()
    )
    print_result({name: answer.to_dict() for name, answer in answers.items()}, lines)
    if report:
        remark(f"wrote {report}")


@click.command("feedback")
@click.argument("file", type=PATH, metavar="FILE.jsonl")
@common
def export_feedback(file: Path) -> None:
    """Write feedback on stored answers to FILE, as questions for `ku eval` and `ku tune`.

    Pictures are written to a folder beside it.
    """
    with open_base(read_only=True) as base:
        count = base.answers.export(file)
    print_result({"questions": count}, f"questions: {count}")
