"""The command that encodes sources to shards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ku_rag.cli.options import common, model_settings, number_option
from ku_rag.cli.output import print_left_out, print_result, progress


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("--out", required=True, metavar="SHARDS", help="Folder of the shards.")
@click.option("--encoder", help="The encoder.  [default: as for a new base]")
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Threads of this process, or actors of Ray.",
)
@click.option("--address", metavar="ADDR", help="A Ray cluster.  [default: one on this machine]")
@number_option("--workers", "Threads or actors.  [default: 1; with Ray all]", 0, 0, 100_000)
@number_option("--block", "Records of a shard.", 1024, 1, 1_000_000)
@common
def encode(
    sources: tuple[str, ...],
    out: str,
    encoder: str | None,
    **options: Any,  # noqa: ANN401 - passed on as they are named there
) -> None:
    """Encode SOURCES, as `ku ingest` takes them, to SHARDS for `ku import`.

    SOURCES and SHARDS are paths, or addresses such as s3://bucket/folder.

    No knowledge base is opened; one that --kb names gives its settings. An interrupted run
    continues with the same command. With Ray, sources and SHARDS have the same names on all
    machines.
    """
    from ku_rag.scale.encoding_run import encode

    settings = model_settings()
    settings = replace(settings, encoder=encoder or settings.encoder)
    with progress("encoding", "units") as moved:
        done = encode(sources, out, settings=settings, progress=moved, **options)
    print_result(
        done,
        f"{done.counts['units']:,} units, {done.counts['chunks']:,} chunks and "
        f"{done.counts['images']:,} images in {done.shards:,} shards, {done.reused:,} of them of "
        f"an earlier run; {done.seconds:.1f} s",
    )
    print_left_out(done.left_out)
