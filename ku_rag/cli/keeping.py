"""Commands that keep a base sound."""

from __future__ import annotations

from pathlib import Path

import click

from ku_rag.cli.options import common, open_base
from ku_rag.cli.printing import print_data


@click.command()
@common
def verify(kb: Path, as_json: bool, quiet: bool) -> None:
    """Check every row, picture, list and cache; exit 1 when something is wrong."""
    with open_base(kb, read_only=True) as base:
        found = base.verify()
    print_data(found, as_json, "\n".join(found["problems"]) or "ok")
    if not found["ok"]:
        raise click.exceptions.Exit(1)


@click.command()
@common
def compact(kb: Path, as_json: bool, quiet: bool) -> None:
    """Give back the space of what was deleted, and wipe its traces."""
    with open_base(kb) as base:
        sizes = base.compact()
    print_data(sizes, as_json, f"{sizes['bytes_before']:,} → {sizes['bytes_after']:,} bytes")
