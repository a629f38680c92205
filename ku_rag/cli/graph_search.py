"""Commands that search the graph, and that have a model caption it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ku_rag.cli.options import common, open_base
from ku_rag.cli.output import print_data, print_report, progress, say

_SETTINGS = (
    "embedded", "vanilla", "vanilla+", "perceptive", "unaided-offline", "unaided-online",
)  # fmt: skip


@click.command()
@click.argument("question")
@click.option(
    "--image", "images", multiple=True, type=click.Path(path_type=Path), help="A picture file."
)
@click.option("--topic", metavar="NAME", help="The entity to start from; looked for by default.")
@click.option("--hints", default="", help="What pictures do not show, such as a state.")
@click.option("--perception", default="", help="What the pictures show, in words of your own.")
@click.option("--setting", type=click.Choice(_SETTINGS), help="What a model is given.")
@click.option("--mllm", metavar="MODEL", help="The multimodal model that searches; '' for none.")
@click.option("--most", type=click.IntRange(1, 100), default=5, show_default=True, help="Paths.")
@click.option(
    "--rounds", type=click.IntRange(0, 20), default=6, show_default=True, help="Longest path."
)
@click.option("--depth-first", is_flag=True, help="Follow each path to its end first.")
@common
def search(
    kb: Path,
    as_json: bool,
    quiet: bool,
    question: str,
    mllm: str | None,
    **asked: Any,  # noqa: ANN401 - passed on as it is named there
) -> None:
    """Find the paths that answer QUESTION, with agents that a model plays or with embedded ones.

    The settings are those of MH-MMKG: what of the question and of the graph a model is shown.
    """
    with open_base(kb, read_only=True, mllm=mllm) as base:
        found = base.graph_search(question, **asked)
    lines = [found["answer"]] if found["answer"] else []
    lines += found["paths"] or ["no path was found"]
    print_data(found, as_json, "\n".join(lines))
    if not (quiet or as_json) and found["found"]:
        say(f"searched by {found['setting']} agents: {found['found']['stopped']}")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--mllm", metavar="MODEL", help="The multimodal model that captions.")
@common
def caption(kb: Path, as_json: bool, quiet: bool, names: tuple[str, ...], mllm: str | None) -> None:
    """Have a model caption the pictures of entities, of all or of those that are NAMEd.

    Each is captioned once; its captions are kept apart from what people wrote.
    """
    with open_base(kb, mllm=mllm) as base, progress(quiet, "captioning") as moved:
        report = base.graph_caption(names, progress=moved)
    print_report(report, as_json, quiet)
