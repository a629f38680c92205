"""Commands that look: at units, at the base, at the installation."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ku_rag.cli.options import common, open_base
from ku_rag.cli.output import print_data, say


@click.command("list")
@click.option("--kind", help="Only units of this kind.")
@click.option("--limit", type=click.IntRange(1), help="Most units.")
@common
def list_units(kb: Path, as_json: bool, quiet: bool, kind: str | None, limit: int | None) -> None:
    """List the units."""
    with open_base(kb, read_only=True) as base:
        units = list(base.list(kind=kind, limit=limit))
    lines = [
        f"{unit['id']}  {unit['name']}  ({unit['kind']}; {unit['counts']['chunks']} chunks, "
        f"{unit['counts']['images']} images)"
        for unit in units
    ]
    print_data(units, as_json, "\n".join(lines) or "no units")


@click.command()
@click.argument("unit_id", metavar="ID")
@common
def show(kb: Path, as_json: bool, quiet: bool, unit_id: str) -> None:
    """Show one unit: names, pictures, texts, relations, sources."""
    with open_base(kb, read_only=True) as base:
        unit = base.show(unit_id)
    print_data(unit, as_json, json.dumps(unit, ensure_ascii=False, indent=2))


@click.command()
@common
def stats(kb: Path, as_json: bool, quiet: bool) -> None:
    """Say how much there is, made with what."""
    with open_base(kb, read_only=True) as base:
        found = base.stats()
    lines = [f"{count:>10,}  {what}" for what, count in found["counts"].items()]
    lines += [f"{found['bytes']:>10,}  bytes"]
    lines += [f"{key}: {found[key]}" for key in ("encoder", "segmenter", "schema")]
    lines += [
        f"{one['name']} index: {one['kind']}, recall {one['recall']:g}, {one['count']:,} vectors "
        f"({one['tail']:,} not in a file, {one['tombstones']:,} deleted)"
        for one in found["indexes"]
    ]
    print_data(found, as_json, "\n".join(lines))


@click.command()
@common
def doctor(kb: Path, as_json: bool, quiet: bool) -> None:
    """Check the installation, the fonts and the knowledge base."""
    from ku_rag.doctor import examine

    findings = list(examine(kb))
    lines = [f"{'ok ' if one.ok else 'NO '} {one.what}: {one.seen}" for one in findings]
    data = [{"what": one.what, "ok": one.ok, "seen": one.seen} for one in findings]
    print_data(data, as_json, "\n".join(lines))
    if not all(one.ok for one in findings):
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("folder", default="demo", type=click.Path(path_type=Path))
@common
def demo(kb: Path, as_json: bool, quiet: bool, folder: Path) -> None:
    """Make a knowledge base of flags in FOLDER and ask it ten questions.

    The flags are drawn and the texts written by code from facts; --kb is not used.
    """
    from ku_rag.demo.tour import run

    report = run(folder, say=say if as_json or quiet else click.echo)
    print_data({"kb": str(folder / "kb"), "report": str(report)}, as_json, f"report: {report}")
