"""Commands that move whole bases: out, in, and as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ku_rag.cli.options import common, open_base
from ku_rag.cli.output import print_data, print_left_out, print_report, progress
from ku_rag.errors import NotFound


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--salvage", is_flag=True, help="From a damaged base: whatever is sound.")
@common
def export(kb: Path, as_json: bool, quiet: bool, folder: Path, salvage: bool) -> None:
    """Write the knowledge base to DIR as Parquet files and pictures, for `ku import` and others.

    DIR holds one state of the base, whatever is written meanwhile; an earlier export there is
    replaced when all is written. With --salvage the base is not opened but read page by page, and
    nothing of it is changed.
    """
    if salvage:
        from ku_rag.knowledge_base import KnowledgeBase

        done = KnowledgeBase.salvage(kb, folder)
    else:
        with open_base(kb, read_only=True, as_made=True) as base:
            done = base.export(folder)
    counts = ", ".join(f"{number:,} {table}" for table, number in done["counts"].items())
    lines = [f"exported: {counts}; {done['pictures']:,} picture files; {done['seconds']:.1f} s"]
    lines += [
        f"{table}: {one['saved']:,} saved, {len(one['lost']):,} lost"
        for table, one in done.get("salvaged", {}).items()
    ]
    print_data(done, as_json, "\n".join(lines))
    print_left_out(done["left_out"], as_json)


@click.command("import")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--encoder", help="What makes vectors of a new base.  [default: as exported]")
@common
def import_(kb: Path, as_json: bool, quiet: bool, folder: Path, encoder: str | None) -> None:
    """Take in DIR, an export or Parquet files that others wrote (docs/transfer.md).

    The knowledge base is made if it is not there, as the exported one was. Vectors are taken over
    when its encoder made them, and made anew otherwise. Doing it again changes nothing.
    """
    from ku_rag.transfer import parquet_reader

    if not folder.is_dir():
        raise NotFound(f"{folder} is no folder: name one that `ku export` made")
    options: dict[str, Any] = {}
    if not (kb / "ku.sqlite").exists():
        options = {"create": True, **parquet_reader.find(folder).made_with(encoder)}
    elif encoder is not None:
        options = {"encoder": encoder}
    with open_base(kb, **options) as base, progress(quiet, "importing", "units") as moved:
        report = base.import_(folder, progress=moved)
    print_report(report, as_json, quiet)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--link", is_flag=True, help="Link the pictures instead of copying them.")
@common
def snapshot(kb: Path, as_json: bool, quiet: bool, folder: Path, link: bool) -> None:
    """Copy the whole knowledge base to DIR, a new or empty folder, while others use it.

    The copy opens as a knowledge base: `ku list --kb DIR`.
    """
    with open_base(kb, read_only=True, as_made=True) as base:
        done = base.snapshot(folder, link=link)
    print_data(
        done,
        as_json,
        f"copied: {done['pictures']:,} pictures, {done['bytes']:,} bytes; {done['seconds']:.1f} s",
    )
    print_left_out(done["left_out"], as_json)
