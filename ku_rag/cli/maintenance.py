"""Commands that check, tune, re-encode, export, import and copy a knowledge base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ku_rag.cli.options import LOCATION, PATH, base_exists, base_path, common, open_base
from ku_rag.cli.output import Result, counts, print_left_out, print_report, print_result, progress
from ku_rag.errors import KuError, NotFound
from ku_rag.types import Quarantined

_KINDS = ("flat", "rabitq", "ivf-sq8", "ivf-rabitq")


@click.command()
@common
def verify() -> None:
    """Check every row, picture, list and index file; exit 1 when something is wrong."""
    with open_base(read_only=True) as base:
        report = base.verify()
    print_result(report, report.problems or "ok", ok=report.ok)


@click.command()
@click.option("--caches", is_flag=True, help="Also delete all cached replies of models.")
@common
def compact(caches: bool) -> None:
    """Free the space of what was deleted, and erase its content from disk.

    Meanwhile it takes up to twice the size of the base in free space, half of it in the temporary
    folder.

    Replies of models are cached outside knowledge bases, for 30 days. No other cache outside has
    content of a base.
    """
    with open_base() as base:
        sizes = base.compact(caches=caches)
    print_result(sizes, f"{sizes.bytes_before:,} → {sizes.bytes_after:,} bytes")


@click.command()
@common
def upgrade() -> None:
    """Upgrade a knowledge base that an earlier version of ku-rag made.

    All content is kept, and nothing is encoded again. Commands that write do the same first. After
    an interrupt the same command continues.
    """
    from ku_rag.knowledge_base import KnowledgeBase

    with progress("indexing", "chunks") as moved:
        done = KnowledgeBase.upgrade(base_path(), progress=moved)
    text = f"upgraded to schema {done.schema}; {done.seconds:.1f} s"
    print_result(done, text if done.upgraded else "up to date: nothing was changed")


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
    help="Calibrate the confidence of matches on labelled pictures instead.",
)
@click.option(
    "--texts",
    metavar="FILE.jsonl",
    help="Tune the weight of the text encoder on questions instead.",
)
@common
def tune(recall: float, kind: str | None, confidence: str | None, texts: str | None) -> None:
    """Choose the index of pictures and of texts by measuring them on the base's own vectors.

    Every kind of index is built and compared with exact search; the fastest that finds enough is
    kept. A small base is searched exactly, without an index.

    With --confidence, a few dozen pictures set how sure a match must be. Each line of the file is
    {"image": path, "units": [ids]}; a picture of an unknown thing has no ids. A wrong match that
    counts as sure costs as much as four right ones that do not.

    With --texts, 20 or more questions set how much the encoder counts beside keywords when texts
    are searched. Each line of the file is {"question": text, "units": [ids]}, as for `ku eval` and
    by `ku feedback`; questions about pictures are skipped.
    """
    if confidence and texts:
        raise click.UsageError("give either --confidence or --texts")
    source = click.get_current_context().get_parameter_source("recall")
    if (confidence or texts) and (kind or source is ParameterSource.COMMANDLINE):
        raise click.UsageError(
            "--recall and --kind are for the index: leave out --confidence and --texts"
        )
    result: Result
    with open_base(as_made=not (confidence or texts)) as base:
        if texts:
            result = ranks = base.tune_texts(texts)
            lines = [
                f"weight {ranks.weight:g}: mean reciprocal rank {ranks.reciprocal_rank:.3f} of "
                f"{ranks.questions} questions ({ranks.reciprocal_rank_before:.3f} before, "
                f"{ranks.tried[0][1]:.3f} by keywords alone)"
            ]
        elif confidence:
            result = tuned = base.tune_confidence(confidence)
            lines = [
                f"{tuned.right} matches of {tuned.known} known things are right, beside "
                f"{tuned.pictures - tuned.known} of unknown ones. From confidence "
                f"{tuned.threshold:.2f} on a match is sure: {tuned.right_kept:.0%} of the right "
                f"ones ({tuned.right_kept_before:.0%} before), {1 - tuned.wrong_declined:.0%} of "
                f"the others ({1 - tuned.wrong_declined_before:.0%} before)"
            ]
        else:
            result = indexes = base.tune(recall=recall, kind=kind)
            lines = []
            for name, index in (("image", indexes.image), ("chunk", indexes.chunk)):
                lines.append(f"{name}: {index.kind}, recall {index.recall:g}")
                lines += [
                    f"    {tried.kind:<10} recall {tried.recall:.3f}  {tried.ms:8.2f} ms a query"
                    for tried in index.tried
                ]
    print_result(result, lines)


@click.group("index", short_help="Fill the vector index on a Milvus server.")
def index_group() -> None:
    """Fill the vector index on a Milvus server."""


@index_group.command("sync")
@click.option("--rebuild", is_flag=True, help="Drop the collections and create them again.")
@common
def sync_index(rebuild: bool) -> None:
    """Bring the collections on the Milvus server up to date.

    The settings `index_engine` and `index_uri` name the server; see docs/scale.md. If a run is
    interrupted, the next one continues. Searches use the collections meanwhile.
    """
    with open_base(as_made=True) as base, progress("sending", "vectors") as moved:
        done = base.sync_index(rebuild=rebuild, progress=moved)
    lines = [
        f"{index.name}s: {index.upserted:,} sent, {index.deleted:,} deleted; {index.seconds:.1f} s"
        + (" (created)" if index.created else "")
        for index in done
    ]
    print_result(done, lines)


@click.command()
@click.option("--encoder", default="", help="The new encoder.  [default: the present one]")
@common
def reindex(encoder: str) -> None:
    """Change the encoder of the knowledge base, and read the words in pictures not yet read.

    Texts and pictures are encoded again if their encoder changes; queries use the old vectors until
    one transaction switches. After an interrupt the same command continues where it stopped.
    """
    with open_base(as_made=True) as base, progress("encoding", "items") as moved:
        done = base.reindex(encoder, progress=moved)
    print_result(
        done,
        f"{counts(chunks=done.chunks, images=done.images)} encoded with {done.encoder}; "
        f"{done.seconds:.1f} s; words read in {counts(pictures=done.pictures_read)}",
    )


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
        f"{table}: {row['saved']:,} saved, {len(row['lost']):,} lost"
        for table, row in (done["salvaged"] or {}).items()
    ]
    print_result(done, lines)
    print_left_out([Quarantined(**item) for item in done["left_out"]])


@click.command("import")
@click.argument("location", type=LOCATION, metavar="DIR")
@click.option("--encoder", help="The encoder of a new base.  [default: as exported]")
@click.option(
    "--partial", is_flag=True, help="Import the intact shards even if others are damaged."
)
@common
def import_(location: str, encoder: str | None, partial: bool) -> None:
    """Import DIR: an export, shards of `ku encode`, or Parquet files that others wrote.

    DIR is a path, or an address such as s3://bucket/shards, whose files are downloaded first.

    The knowledge base is made with the exported settings if it does not exist. Vectors of its
    encoder are kept; others are computed again, except those of shards, which have to fit.
    Importing the same thing twice changes nothing.
    """
    from ku_rag.transfer.object_storage import local_copy

    with local_copy(location) as folder:
        _import(folder, encoder, partial)


def _import(folder: Path, encoder: str | None, partial: bool) -> None:
    """Import a local folder; a base that was created for it is deleted if that fails."""
    from ku_rag import manifest
    from ku_rag.store.layout import Layout
    from ku_rag.transfer.parquet_reader import settings_of
    from ku_rag.transfer.shard_set import check_shards, is_shard_set

    if not folder.is_dir():
        raise NotFound(f"{folder} is not a folder: name one that `ku export` or `ku encode` made")
    options: dict[str, Any] = {}
    layout = Layout(base_path())
    there = [*layout.root.glob("*")]
    if not base_exists():
        if is_shard_set(folder):
            check_shards(folder, partial=partial)
        options = {"create": True, **settings_of(folder, encoder)}
    elif encoder is not None:
        options = {"encoder": encoder}
    try:
        with open_base(**options) as base, progress("importing", "units") as moved:
            report = base.import_(folder, partial=partial, progress=moved)
    except KuError:
        if "create" in options:
            manifest.discard(layout, there)
        raise
    print_report(report)


@click.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.option("--link", is_flag=True, help="Link the pictures instead of copying them.")
@click.option("--since", type=PATH, metavar="COPY", help="Write only what changed since COPY.")
@click.option("--apply", "applies", is_flag=True, help="Apply DIR to the copy that --kb names.")
@common
def snapshot(folder: Path, link: bool, since: Path | None, applies: bool) -> None:
    """Copy the whole knowledge base to DIR, a new or empty folder, while others use it.

    The copy opens as a knowledge base: `ku list --kb DIR`. With --since, DIR becomes an increment:
    what has changed since an earlier snapshot. --apply brings a copy up to date while others read
    it; DIR is then an increment, or a folder of increments. See docs/scale.md.
    """
    if applies:
        if link or since:
            raise click.UsageError("--apply takes neither --link nor --since")
        with open_base(as_made=True) as base:
            applied = base.apply_increments(folder)
        none = "" if applied.found else f" ({folder} has none)"
        lines = [f"applied: {applied.increments:,} increments{none}; at commit {applied.commit}"]
        if not applied.erased:
            lines.append(
                "deleted content is not erased yet, because others read an older state: apply again"
            )
        print_result(applied, lines)
        return
    with open_base(read_only=True, as_made=True) as base:
        done = base.snapshot(folder, link=link, since=since)
    text = f"copied: {counts(pictures=done.pictures, bytes=done.bytes)}; {done.seconds:.1f} s"
    if done.since == done.commit:
        text = f"nothing has changed since commit {done.commit}: {folder} was not created"
    print_result(done, text)
    print_left_out(done.left_out)
