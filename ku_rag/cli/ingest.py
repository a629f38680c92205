"""Commands that make a knowledge base and change its contents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ku_rag
from ku_rag.cli.options import (
    PATH,
    base_exists,
    common,
    existing,
    memory_option,
    mllm_option,
    model_settings,
    open_base,
    read_pages_option,
    unit_options,
    units_option,
)
from ku_rag.cli.output import (
    counts,
    print_added,
    print_deleted,
    print_left_out,
    print_plan,
    print_report,
    print_result,
    progress,
    remark,
    remark_usage,
    summary,
)
from ku_rag.types import IngestReport

if TYPE_CHECKING:
    from ku_rag.ingest.extraction import Extraction


@click.command()
@click.option(
    "--encoder", help="The encoder that makes vectors.  [default: the best one installed]"
)
@click.option(
    "--segmenter", help="The segmenter that proposes regions.  [default: suits the encoder]"
)
@click.option(
    "--profile",
    type=click.Choice(["paper", "fast"]),
    help="Models and thresholds that go together; see `ku models list`.",
)
@common
def init(encoder: str | None, segmenter: str | None, profile: str | None) -> None:
    """Make an empty knowledge base."""
    existed = base_exists()
    chosen: dict[str, Any] = {}
    if profile:
        from ku_rag import weights

        chosen = weights.profile(profile)
    chosen |= {"encoder": encoder} if encoder else {}
    chosen |= {"segmenter": segmenter} if segmenter else {}
    with open_base(create=True, **chosen) as base:
        data = {"kb": str(base.path), "created": not existed, "encoder": base.encoder.fingerprint}
    print_result(data, f"exists already: {base.path}" if existed else str(base.path))


@click.command()
@click.argument("paths", type=PATH, nargs=-1, required=True)
@units_option
@memory_option
@click.option(
    "--extract",
    "extractor",
    metavar="MODEL",
    help="Let this model read facts from texts; see `ku extract`.",
)
@read_pages_option
@click.option("--dry-run", is_flag=True, help="Only print the units that would be created.")
@common
def ingest(
    paths: tuple[Path, ...], extractor: str | None, read_pages: str | None, dry_run: bool
) -> None:
    """Ingest folders and files: records, tables, texts and documents.

    These are JSONL, Parquet, tar, CSV, TSV, Markdown, RST, text, HTML, DOCX, PPTX, EPUB and PDF.

    A sub-folder with pictures is a unit: its name, its pictures, texts and documents. The
    knowledge base is made if it does not exist. Ingesting the same thing twice changes nothing.
    """
    for path in paths:
        existing(path, "a folder or file to ingest")
    if dry_run and read_pages:
        raise click.UsageError("--dry-run asks no model: leave out --read-pages")
    if dry_run:
        from ku_rag.ingest import changes

        with progress("reading") as moved:
            planned = changes.plan(paths, model_settings(), moved)
        print_plan(*planned)
        return
    with open_base(create=True) as base, progress("ingesting") as moved:
        reports = [base.ingest(path, read_pages=read_pages, progress=moved) for path in paths]
    if extractor:
        # The model is not one of the settings of a new base: questions do not ask it.
        with open_base(mllm=extractor) as base, progress("extracting", "chunks") as moved:
            extraction = base.extract(progress=moved)
        remark(f"{counts(facts=extraction.facts)} from {counts(chunks=extraction.chunks)}")
        _remark_extraction(extraction)
        remark_usage(extraction.usage, base.settings)
        reports.append(IngestReport(quarantined=extraction.left_out))
    report = sum(reports, IngestReport())
    remark_usage(report.usage, replace(base.settings, mllm=read_pages or ""))
    print_report(report)


@click.command()
@mllm_option("reads")
@click.option("--dry-run", is_flag=True, help="Only count the chunks, and estimate the tokens.")
@click.option("--remove", is_flag=True, help="Delete the facts that the model has read.")
@common
def extract(dry_run: bool, remove: bool) -> None:
    """Have a model read facts from the texts of units.

    A fact is stored with the sentence that states it, if its words are there. Each chunk is read
    once; after an interrupt the same command continues. Conditions with --where read these facts
    as any:FIELD.
    """
    if remove and dry_run:
        raise click.UsageError("--remove deletes and --dry-run only counts: choose one")
    with open_base() as base, progress("extracting", "chunks") as moved:
        if remove:
            model = base.settings.mllm
            if not model:
                raise click.UsageError("name the model whose facts are to be deleted with --mllm")
            removed = base.remove_extracted(model)
            print_result({"model": model, "removed": removed}, f"removed {counts(facts=removed)}")
            return
        extraction = base.extract(dry_run=dry_run, progress=moved)
    if dry_run:
        prompt, reply = (extraction.usage[part] for part in ("prompt_tokens", "completion_tokens"))
        tokens = f"about {prompt:,} + {reply:,} tokens"
        print_result(extraction, f"{counts(chunks=extraction.chunks)} to read, {tokens}")
        return
    print_result(
        extraction, f"{counts(facts=extraction.facts)} from {counts(chunks=extraction.chunks)}"
    )
    _remark_extraction(extraction)
    remark_usage(extraction.usage, base.settings)
    print_left_out(extraction.left_out)


def _remark_extraction(extraction: Extraction) -> None:
    for reason, count in extraction.dropped.most_common():
        remark(f"{count:,} proposed facts were not stored: {reason}")


@click.command()
@click.argument("folder", type=PATH)
@click.option("--dry-run", is_flag=True, help="Only report what would happen.")
@click.option("--yes", is_flag=True, help="Delete even when most or all of the folder is gone.")
@click.option(
    "--watch", is_flag=True, help="Keep running, and sync after each change, until Ctrl-C."
)
@units_option
@read_pages_option
@common
def sync(folder: Path, dry_run: bool, yes: bool, watch: bool, read_pages: str | None) -> None:
    """Add what is new in FOLDER, replace what changed, delete what is gone."""
    if [watch, dry_run, bool(read_pages)].count(True) > 1:
        raise click.UsageError("--watch, --dry-run and --read-pages exclude each other: choose one")
    create = folder.is_dir() and not dry_run
    if watch:
        with open_base(create=create) as base:
            for change in base.watch(folder, yes=yes):
                for line in (*change.files, change.refused or summary(change.report)):
                    remark(line)
        return
    with open_base(create=create) as base, progress("syncing") as moved:
        report = base.sync(folder, dry_run=dry_run, yes=yes, read_pages=read_pages, progress=moved)
    remark_usage(report.usage, replace(base.settings, mllm=read_pages or ""))
    print_report(report, "would be " if dry_run else "")


@click.command()
@click.option("--name", required=True, help="Its name.")
@click.option("--id", help="Its id; without one the unit may join another that matches.")
@unit_options
@common
def add(
    texts: tuple[str, ...],
    text_files: list[str],
    metadata: dict[str, Any] | None,
    **fields: Any,  # noqa: ANN401 - passed on as they are named there
) -> None:
    """Add a unit; without --id it joins the unit that it matches, if there is one."""
    unit = ku_rag.Unit(texts=(*texts, *text_files), metadata=metadata or {}, **fields)
    with open_base(create=True) as base:
        print_added(base.add(unit))


@click.command()
@click.argument("unit_id", metavar="ID")
@click.option("--name", help="Its new name.")
@unit_options
@common
def update(
    unit_id: str,
    texts: tuple[str, ...],
    text_files: list[str],
    **fields: Any,  # noqa: ANN401 - passed on as they are named there
) -> None:
    """Replace the given fields of a unit; the others stay."""
    fields["texts"] = (*texts, *text_files)
    with open_base() as base:
        stated = {key: value for key, value in fields.items() if value}
        print_added(base.update(unit_id, **stated))


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@common
def delete(ids: tuple[str, ...]) -> None:
    """Delete units, or single sources, with all contents that no other source has.

    `ku compact` then frees the space and erases the content from disk.
    """
    with open_base() as base:
        print_deleted(base.delete(ids))
