"""Commands that ask."""

from __future__ import annotations

from pathlib import Path

import click

from ku_rag.cli.options import common, open_base, page
from ku_rag.cli.output import one_line, print_answer, print_data, say


@click.command()
@click.argument("image")
@click.argument("question")
@click.option("-k", type=click.IntRange(1, 100), help="Most pieces of evidence.  [default: 3]")
@click.option(
    "--passage",
    type=click.Path(path_type=Path),
    callback=page,
    metavar="FILE.png",
    help="Write the stitched passage; further pages get a number.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    callback=page,
    metavar="FILE.html",
    help="Write one page that shows how the question was answered.",
)
@click.option("--mllm", metavar="MODEL", help="The multimodal model that answers; '' for none.")
@click.option("--no-kcc", is_flag=True, help="Ask it once, with the evidence; no correction.")
@click.option("--no-units", is_flag=True, help="Search texts alone, by its caption of the picture.")
@click.option("--no-graph", is_flag=True, help="Leave out what the graph says of the units.")
@common
def query(
    kb: Path,
    as_json: bool,
    quiet: bool,
    image: str,
    question: str,
    k: int | None,
    passage: Path | None,
    report: Path | None,
    mllm: str | None,
    no_kcc: bool,
    no_units: bool,
    no_graph: bool,
) -> None:
    """Answer QUESTION about the picture IMAGE ("-" asks without a picture)."""
    with open_base(kb, read_only=True, mllm=mllm) as base:
        answer = base.query(
            None if image == "-" else image,
            question,
            k=k,
            passage=passage,
            report=report,
            kcc=not no_kcc,
            units=not no_units,
            graph=not no_graph,
        )
    if as_json:
        print_data(answer.to_dict(), as_json, "")
        return
    print_answer(answer)
    if not quiet:
        for written in (*answer.passage, *([str(report)] if report else [])):
            say(f"wrote {written}")


@click.command()
@click.option("--image", help="A picture to find units for.")
@click.option("--text", default="", help="Words to find units and chunks for.")
@click.option("-k", type=click.IntRange(1, 1000), default=10, show_default=True)
@common
def search(kb: Path, as_json: bool, quiet: bool, image: str | None, text: str, k: int) -> None:
    """Find units and chunks for a picture, a text, or both."""
    if image is None and not text.strip():
        raise click.UsageError("give --image, --text, or both")
    with open_base(kb, read_only=True) as base:
        found = base.search(image=image, text=text, k=k)
    lines = [f"{unit['score']:.3f}  {unit['name']}  ({unit['id']})" for unit in found["units"]]
    lines += [f"{chunk['score']:.3f}  {one_line(chunk['text'])}" for chunk in found["chunks"]]
    print_data(found, as_json, "\n".join(lines) or "nothing found")
