"""Commands that put knowledge in and take it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import ku_rag
from ku_rag import arguments
from ku_rag.cli.options import common, open_base, unit_options
from ku_rag.cli.output import print_added, print_data, print_report, progress
from ku_rag.errors import BadInput, NotFound


@click.command()
@click.option("--encoder", help="What makes vectors.  [default: embedded]")
@click.option("--segmenter", help="What proposes regions.  [default: as suits the encoder]")
@click.option(
    "--profile",
    type=click.Choice(["paper", "fast"]),
    help="Models and thresholds that go together; see `ku models list`.",
)
@common
def init(
    kb: Path,
    as_json: bool,
    quiet: bool,
    encoder: str | None,
    segmenter: str | None,
    profile: str | None,
) -> None:
    """Make an empty knowledge base."""
    existed = (kb / "ku.sqlite").exists()
    chosen: dict[str, Any] = {}
    if profile:
        from ku_rag import weights

        chosen = weights.profile(profile)
    chosen |= {"encoder": encoder} if encoder else {}
    chosen |= {"segmenter": segmenter} if segmenter else {}
    with open_base(kb, create=True, **chosen) as base:
        made = {"kb": str(base.path), "created": not existed, "encoder": base.encoder.fingerprint}
    print_data(made, as_json, f"there already: {base.path}" if existed else str(base.path))


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--max-memory",
    type=click.IntRange(64, 1_000_000),
    metavar="MB",
    help="What may be held at once, beside models and index.  [default: 1024]",
)
@common
def ingest(kb: Path, as_json: bool, quiet: bool, path: Path, max_memory: int | None) -> None:
    """Take in a folder, JSONL, CSV, TSV, Markdown or text file.

    Each sub-folder is a unit: its name, its pictures, its .txt and .md files. The knowledge base
    is made if it is not there. Doing it again changes nothing.
    """
    if not path.exists():
        raise NotFound(f"{path} does not exist: name a folder or file to take in")
    held = {} if max_memory is None else {"max_memory": max_memory}
    with open_base(kb, create=True, **held) as base, progress(quiet, "ingesting") as moved:
        report = base.ingest(path, progress=moved)
    print_report(report, as_json, quiet)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("--yes", is_flag=True, help="Delete even when much or all of it is gone.")
@common
def sync(kb: Path, as_json: bool, quiet: bool, folder: Path, dry_run: bool, yes: bool) -> None:
    """Add what is new in FOLDER, replace what changed, delete what is gone."""
    create = folder.is_dir() and not dry_run
    with open_base(kb, create=create) as base, progress(quiet, "syncing") as moved:
        report = base.sync(folder, dry_run=dry_run, yes=yes, progress=moved)
    print_report(report, as_json, quiet, "would be " if dry_run else "")


@click.command()
@click.option("--name", required=True, help="What it is called.")
@click.option("--id", "unit_id", help="Its identity; without one it may join a unit like it.")
@unit_options
@common
def add(
    kb: Path,
    as_json: bool,
    quiet: bool,
    name: str,
    unit_id: str | None,
    kind: str | None,
    aliases: tuple[str, ...],
    images: tuple[Path, ...],
    texts: tuple[str, ...],
    text_files: tuple[Path, ...],
    metadata: dict[str, Any] | None,
) -> None:
    """Add a unit, or join it to the one that it matches when no --id is given."""
    unit = ku_rag.Unit(
        name=name,
        id=unit_id,
        kind=kind,
        aliases=aliases,
        images=images,
        texts=(*texts, *_read_texts(text_files)),
        metadata=metadata or {},
    )
    with open_base(kb, create=True) as base:
        print_added(base.add(unit), as_json)


@click.command()
@click.argument("unit_id", metavar="ID")
@click.option("--name", help="What it is called from now on.")
@unit_options
@common
def update(
    kb: Path,
    as_json: bool,
    quiet: bool,
    unit_id: str,
    name: str | None,
    kind: str | None,
    aliases: tuple[str, ...],
    images: tuple[Path, ...],
    texts: tuple[str, ...],
    text_files: tuple[Path, ...],
    metadata: dict[str, Any] | None,
) -> None:
    """Replace what is named of a unit; the rest stays."""
    with open_base(kb) as base:
        updated = base.update(
            unit_id,
            name=name,
            kind=kind,
            aliases=aliases or None,
            images=images or None,
            texts=(*texts, *_read_texts(text_files)) or None,
            metadata=metadata,
        )
        print_added(updated, as_json)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@common
def delete(kb: Path, as_json: bool, quiet: bool, ids: tuple[str, ...]) -> None:
    """Delete units, or single sources, with all that only they brought.

    Space and traces in the files go with `ku compact`.
    """
    with open_base(kb) as base:
        deleted = base.delete(ids)
    print_data(
        deleted,
        as_json,
        "deleted: " + ", ".join(f"{len(rows)} {what}" for what, rows in deleted.items()),
    )


def _read_texts(paths: tuple[Path, ...]) -> list[str]:
    from ku_rag.ingest.readers.decoding import read_text

    texts = []
    for path in paths:
        arguments.regular_file(path, "a text file")
        try:
            texts.append(read_text(path))
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from error
    return texts
