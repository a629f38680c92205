"""Commands that inspect units, the knowledge base and the installation, and the demo."""

from __future__ import annotations

from pathlib import Path

import click

from ku_rag.cli.options import PATH, base_path, common, filter_options, open_base
from ku_rag.cli.output import AS_JSON, QUIET, clean, counts, print_result, say, unit_lines


@click.command("list")
@filter_options
@click.option("--limit", type=click.IntRange(1), help="Maximum number of units.")
@common
def list_units(kind: str | None, where: tuple[str, ...], limit: int | None) -> None:
    """List the units."""
    with open_base(read_only=True) as base:
        units = base.list(kind=kind, where=where, limit=limit)
    lines = [
        f"{unit.id}  {unit.name}  ({unit.kind}; "
        f"{counts(chunks=unit.counts['chunks'], images=unit.counts['images'])})"
        for unit in units
    ]
    print_result(units, lines or "no units")


@click.command()
@click.argument("unit_id", metavar="UNIT")
@common
def show(unit_id: str) -> None:
    """Show UNIT, an id or a name of one unit: names, pictures, texts, relations, sources."""
    with open_base(read_only=True) as base:
        unit = base.show(unit_id)
    print_result(unit, unit_lines(unit.to_dict()))


@click.command()
@common
def stats() -> None:
    """Print the size of the knowledge base, and its encoder, segmenter, recogniser and indexes."""
    with open_base(read_only=True) as base:
        result = base.stats()
    lines = [f"{count:>10,}  {what}" for what, count in result.counts.items()]
    lines += [f"{result.bytes:>10,}  bytes"]
    lines += [f"encoder: {result.encoder}", f"segmenter: {result.segmenter}"]
    read = [
        f"{counts(pictures=count)} read by {name}" for name, count in result.pictures_read.items()
    ]
    lines += [f"recogniser: {'; '.join([result.recogniser, *read])}"]
    lines += [f"schema: {result.schema}"]
    lines += [
        f"{row['name']} index: {row['kind']}, recall {row['recall']:g}, {row['count']:,} vectors "
        f"({row['tail']:,} not in a file, {row['tombstones']:,} deleted)"
        + (f"; {row['problem']}" if row.get("problem") else "")
        for row in result.indexes
    ]
    print_result(result, lines)


@click.command()
@common
def doctor() -> None:
    """Check the installation, the fonts and the knowledge base."""
    from ku_rag.cli.doctor import examine

    findings = list(examine(base_path()))
    lines = [f"{'ok ' if check.ok else 'NO '} {check.what}: {check.seen}" for check in findings]
    print_result(findings, lines, ok=all(check.ok for check in findings))


@click.command()
@click.argument("folder", default="demo", type=PATH)
@common
@click.pass_context
def demo(context: click.Context, folder: Path) -> None:
    """Make a knowledge base of flags in FOLDER and ask it ten questions.

    The flags are drawn and the texts written by code from facts; --kb is not used.
    """
    from ku_rag.demo.tour import run

    to_stderr = context.meta[AS_JSON] or context.meta[QUIET]
    report = run(folder, write_line=say if to_stderr else lambda line: click.echo(clean(line)))
    print_result({"kb": str(folder / "kb"), "report": str(report)}, f"report: {report}")
