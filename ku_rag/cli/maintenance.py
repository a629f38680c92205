"""Commands that check, compact, tune and re-encode a knowledge base."""

from __future__ import annotations

import click

from ku_rag.cli.options import common, open_base
from ku_rag.cli.output import print_result, progress

_KINDS = ("flat", "rabitq", "ivf-sq8", "ivf-rabitq")


@click.command()
@common
def verify() -> None:
    """Check every row, picture, list and index file; exit 1 when something is wrong."""
    with open_base(read_only=True) as base:
        found = base.verify()
    print_result(found, found.problems or "ok")
    if not found.ok:
        raise click.exceptions.Exit(1)


@click.command()
@common
def compact() -> None:
    """Free the space of what was deleted, and erase its content from disk."""
    with open_base() as base:
        sizes = base.compact()
    print_result(sizes, f"{sizes.bytes_before:,} → {sizes.bytes_after:,} bytes")


@click.command()
@click.option(
    "--recall",
    default=0.99,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the nearest ten that must be found.",
)
@click.option("--kind", type=click.Choice(_KINDS), help="Only this kind.  [default: the fastest]")
@click.option(
    "--confidence",
    metavar="FILE.jsonl",
    help="Set the confidence of matches instead, by labelled pictures.",
)
@common
def tune(recall: float, kind: str | None, confidence: str | None) -> None:
    """Choose the index of pictures and of texts by measuring them on the base's own vectors.

    Every kind of index is built and compared with exact search; the fastest that finds enough is
    kept. A small base is searched exactly, without an index.

    With --confidence, a few dozen pictures set how sure a match must be. Each line of the file is
    {"image": path, "units": [ids]}; a picture of an unknown thing has no ids.
    """
    if confidence:
        with open_base() as base:
            tuned = base.tune_confidence(confidence)
        print_result(
            tuned,
            f"{tuned.right} of {tuned.pictures} matches are right. From confidence "
            f"{tuned.threshold:.2f} on a match is sure: {tuned.right_kept:.0%} of the right ones, "
            f"{1 - tuned.wrong_declined:.0%} of the others",
        )
        return
    with open_base(as_made=True) as base:
        found = base.tune(recall=recall, kind=kind)
    lines = []
    for name, one in (("image", found.image), ("chunk", found.chunk)):
        lines.append(f"{name}: {one.kind}, recall {one.recall:g}")
        lines += [
            f"    {tried.kind:<10} recall {tried.recall:.3f}  {tried.ms:8.2f} ms a query"
            for tried in one.tried
        ]
    print_result(found, lines)


@click.command()
@click.option("--encoder", required=True, help="The new encoder.")
@common
def reindex(encoder: str) -> None:
    """Change the encoder of the knowledge base.

    Everything is encoded again; queries use the old vectors until one transaction switches. After
    an interrupt the same command continues where it stopped.
    """
    with open_base(as_made=True) as base, progress("encoding", "items") as moved:
        done = base.reindex(encoder, progress=moved)
    print_result(
        done,
        f"{done.chunks:,} chunks and {done.images:,} images encoded with {done.encoder}; "
        f"{done.seconds:.1f} s",
    )
