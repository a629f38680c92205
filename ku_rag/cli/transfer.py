"""Commands that export, import and copy whole knowledge bases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ku_rag.cli.options import PATH, base_exists, base_path, common, open_base
from ku_rag.cli.output import print_left_out, print_report, print_result, progress
from ku_rag.errors import NotFound
from ku_rag.types import Quarantined


@click.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--salvage", is_flag=True, help="Export what is readable of a damaged base.")
@common
def export(folder: Path, salvage: bool) -> None:
    """Write the knowledge base to DIR as Parquet files and pictures, for `ku import` and others.

    DIR holds one state of the base, whatever is written meanwhile; an earlier export there is
    replaced when all is written. --salvage reads a damaged base without changing it.
    """
    if salvage:
        from ku_rag.knowledge_base import KnowledgeBase

        done = KnowledgeBase.salvage(base_path(), folder).to_dict()
    else:
        with open_base(read_only=True, as_made=True) as base:
            done = base.export(folder).to_dict()
    counts = ", ".join(f"{number:,} {table}" for table, number in done["counts"].items())
    lines = [f"exported: {counts}; {done['pictures']:,} picture files; {done['seconds']:.1f} s"]
    lines += [
        f"{table}: {one['saved']:,} saved, {len(one['lost']):,} lost"
        for table, one in (done["salvaged"] or {}).items()
    ]
    print_result(done, lines)
    print_left_out([Quarantined(**one) for one in done["left_out"]])


@click.command("import")
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--encoder", help="The encoder of a new base.  [default: as exported]")
@common
def import_(folder: Path, encoder: str | None) -> None:
    """Import DIR, an export or Parquet files that others wrote (docs/transfer.md).

    The knowledge base is made with the exported settings if it does not exist. Vectors of its
    encoder are kept; others are computed again. Importing the same thing twice changes nothing.
    """
    from ku_rag.transfer.parquet_reader import Export

    if not folder.is_dir():
        raise NotFound(f"{folder} is not a folder: name one that `ku export` made")
    options: dict[str, Any] = {}
    if not base_exists():
        options = {"create": True, **Export(folder).made_with(encoder)}
    elif encoder is not None:
        options = {"encoder": encoder}
    with open_base(**options) as base, progress("importing", "units") as moved:
        report = base.import_(folder, progress=moved)
    print_report(report)


@click.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--link", is_flag=True, help="Link the pictures instead of copying them.")
@common
def snapshot(folder: Path, link: bool) -> None:
    """Copy the whole knowledge base to DIR, a new or empty folder, while others use it.

    The copy opens as a knowledge base: `ku list --kb DIR`.
    """
    with open_base(read_only=True, as_made=True) as base:
        done = base.snapshot(folder, link=link)
    text = f"copied: {done.pictures:,} pictures, {done.bytes:,} bytes; {done.seconds:.1f} s"
    print_result(done, text)
    print_left_out(done.left_out)
