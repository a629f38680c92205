"""Commands that keep a base sound."""

from __future__ import annotations

from pathlib import Path

import click

from ku_rag.cli.options import common, open_base
from ku_rag.cli.output import print_data, progress

_KINDS = ("flat", "rabitq", "ivf-sq8", "ivf-rabitq")


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


@click.command()
@click.option(
    "--recall",
    default=0.99,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the nearest ten that must be found.",
)
@click.option("--kind", type=click.Choice(_KINDS), help="Only this kind.  [default: the quickest]")
@common
def tune(kb: Path, as_json: bool, quiet: bool, recall: float, kind: str | None) -> None:
    """Choose how pictures and texts are searched, by measuring it on the base's own vectors.

    Every kind of index is built and compared with exact search; the quickest that finds enough is
    kept. A small base is searched exactly: there is nothing to choose then.
    """
    with open_base(kb, as_made=True) as base:
        found = base.tune(recall=recall, kind=kind)
    lines = []
    for name, one in found.items():
        lines.append(f"{name}: {one['kind']}, recall {one['recall']:g}")
        lines += [
            f"    {tried['kind']:<10} recall {tried['recall']:.3f}  {tried['ms']:8.2f} ms a query"
            for tried in one["tried"]
        ]
    print_data(found, as_json, "\n".join(lines))


@click.command()
@click.option("--encoder", required=True, help="What makes vectors from now on.")
@common
def reindex(kb: Path, as_json: bool, quiet: bool, encoder: str) -> None:
    """Bring the knowledge base over to another encoder.

    Everything is encoded anew beside the old vectors, which serve until all is done and the base is
    switched at once. Stopped, the same command goes on from there.
    """
    with open_base(kb, as_made=True) as base, progress(quiet, "encoding", "items") as moved:
        done = base.reindex(encoder, progress=moved)
    print_data(
        done,
        as_json,
        f"{done['chunks']:,} chunks and {done['images']:,} images encoded with {done['encoder']}; "
        f"{done['seconds']:.1f} s",
    )
