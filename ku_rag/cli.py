"""The `ku` command: parse, call, print. Every command is a `KnowledgeBase` method as well.

Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 failed; 2 malformed usage;
3 done, but some items were quarantined; 4 base and encoder or schema do not fit; 5 locked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

import ku_rag
from ku_rag import arguments
from ku_rag.errors import BadInput, KuError, NotFound
from ku_rag.printing import (
    one_line,
    print_added,
    print_answer,
    print_data,
    print_report,
    progress,
    say,
)

if TYPE_CHECKING:
    from ku_rag.knowledge_base import KnowledgeBase

_INTERRUPTED = 130

Command = Callable[..., Any]


class _NobodyReads(Exception):
    """Whoever read the output has gone."""


class _Commands(click.Group):
    """Commands that end quietly when nobody reads on: click itself exits with 1 then."""

    def make_context(self, *how: Any, **more: Any) -> click.Context:  # noqa: ANN401 - passed on
        with _until_nobody_reads():
            return super().make_context(*how, **more)

    def invoke(self, ctx: click.Context) -> object:
        with _until_nobody_reads():
            return super().invoke(ctx)


@contextmanager
def _until_nobody_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _NobodyReads from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(ku_rag.__version__, prog_name="ku")
def cli() -> None:
    r"""Questions about your own pictures, answered from your own knowledge.

    \b
    Begin with:  ku demo
    or:          ku ingest FOLDER
                 ku query picture.jpg "Which country does it come from?"
    """


def main() -> None:
    """Run `ku`, turning what goes wrong into one sentence and an exit code."""
    try:
        code = _run()
        sys.stdout.flush()
    except (BrokenPipeError, _NobodyReads):
        # Whoever read our output has enough; a second write at exit would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run() -> int:
    try:
        for given in sys.argv[1:]:
            arguments.text(given, "the argument")
        arguments.text(os.environ.get("KU_KB", ""), "KU_KB")
        # With standalone_mode off, what a command exits with is returned.
        return int(cli(prog_name="ku", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("stopped: what was committed is kept, and the same command goes on from there")
        return _INTERRUPTED
    except KuError as error:
        say(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"error: {error.strerror}: {error.filename}" if error.filename else f"error: {error}")
        return 1


def _common(command: Command) -> Command:
    """The options that every command has."""
    for option in (
        click.option("--quiet", "-q", is_flag=True, help="No progress and no remarks."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout."),
        click.option(
            "--kb",
            default="kb",
            envvar="KU_KB",
            show_default=True,
            show_envvar=True,
            metavar="DIR",
            type=click.Path(path_type=Path),
            help="The knowledge base.",
        ),
    ):
        command = option(command)
    return command


def _unit_options(command: Command) -> Command:
    """The options that describe a unit, for `add` and `update`."""
    path = click.Path(path_type=Path)
    for option in (
        click.option("--metadata", callback=_json_object, metavar="JSON", help="A JSON object."),
        click.option("--text-file", "text_files", multiple=True, type=path, help="A text file."),
        click.option("--text", "texts", multiple=True, help="A text; may be given again."),
        click.option("--image", "images", multiple=True, type=path, help="A picture file."),
        click.option("--alias", "aliases", multiple=True, help="Another name."),
        click.option("--kind", help="entity, event, rule, topic …"),
    ):
        command = option(command)
    return command


def _json_object(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        found = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.BadParameter(f'is {value}, expected an object such as {{"colour": "red"}}')
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _page(_: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    endings = arguments.OUTPUTS[f"the {option.name}"]
    if value and value.suffix.lower() not in endings and not value.is_dir():
        raise click.BadParameter(f"is {str(value)!r}, expected a name ending in {endings[0]}")
    return value


# ---- making and filling --------------------------------------------------------------------------


@cli.command()
@click.option("--encoder", help="What makes vectors.  [default: embedded]")
@click.option("--segmenter", help="What proposes regions.  [default: windows]")
@_common
def init(kb: Path, as_json: bool, quiet: bool, encoder: str | None, segmenter: str | None) -> None:
    """Make an empty knowledge base."""
    existed = (kb / "ku.sqlite").exists()
    with _open(kb, create=True, encoder=encoder, segmenter=segmenter) as base:
        made = {"kb": str(base.path), "created": not existed, "encoder": base.encoder.fingerprint}
    print_data(made, as_json, f"{'there already' if existed else 'made'}: {made['kb']}")


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@_common
def ingest(kb: Path, as_json: bool, quiet: bool, path: Path) -> None:
    """Take in a folder, JSONL, CSV, TSV, Markdown or text file.

    Each sub-folder is a unit: its name, its pictures, its .txt and .md files. The knowledge base
    is made if it is not there. Doing it again changes nothing.
    """
    if not path.exists():
        raise NotFound(f"{path} does not exist: name a folder or file to take in")
    with _open(kb, create=True) as base, progress(quiet, "ingesting") as moved:
        report = base.ingest(path, progress=moved)
    print_report(report, as_json, quiet)


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@click.option("--yes", is_flag=True, help="Delete even when much or all of it is gone.")
@_common
def sync(kb: Path, as_json: bool, quiet: bool, folder: Path, dry_run: bool, yes: bool) -> None:
    """Add what is new in FOLDER, replace what changed, delete what is gone."""
    with _open(kb, create=not dry_run) as base, progress(quiet, "syncing") as moved:
        report = base.sync(folder, dry_run=dry_run, yes=yes, progress=moved)
    print_report(report, as_json, quiet, "would be " if dry_run else "")


@cli.command()
@click.option("--name", required=True, help="What it is called.")
@click.option("--id", "unit_id", help="Its identity; without one it may join a unit like it.")
@_unit_options
@_common
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
    with _open(kb, create=True) as base:
        print_added(base.add(unit), as_json)


@cli.command()
@click.argument("unit_id", metavar="ID")
@click.option("--name", help="What it is called from now on.")
@_unit_options
@_common
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
    with _open(kb) as base:
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


@cli.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@_common
def delete(kb: Path, as_json: bool, quiet: bool, ids: tuple[str, ...]) -> None:
    """Delete units, or single sources, with all that only they brought.

    Space and traces in the files go with `ku compact`.
    """
    with _open(kb) as base:
        deleted = base.delete(ids)
    print_data(
        deleted,
        as_json,
        "deleted: " + ", ".join(f"{len(rows)} {what}" for what, rows in deleted.items()),
    )


# ---- asking --------------------------------------------------------------------------------------


@cli.command()
@click.argument("image")
@click.argument("question")
@click.option("-k", type=click.IntRange(1, 100), help="Most pieces of evidence.  [default: 3]")
@click.option(
    "--passage",
    type=click.Path(path_type=Path),
    callback=_page,
    metavar="FILE.png",
    help="Write the stitched passage; further pages get a number.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    callback=_page,
    metavar="FILE.html",
    help="Write one page that shows how the question was answered.",
)
@_common
def query(
    kb: Path,
    as_json: bool,
    quiet: bool,
    image: str,
    question: str,
    k: int | None,
    passage: Path | None,
    report: Path | None,
) -> None:
    """Answer QUESTION about the picture IMAGE ("-" asks without a picture)."""
    with _open(kb, read_only=True) as base:
        answer = base.query(
            None if image == "-" else image, question, k=k, passage=passage, report=report
        )
    if as_json:
        print_data(answer.to_dict(), as_json, "")
        return
    print_answer(answer)
    if not quiet:
        for written in (*answer.passage, *([str(report)] if report else [])):
            say(f"wrote {written}")


@cli.command()
@click.option("--image", help="A picture to find units for.")
@click.option("--text", default="", help="Words to find units and chunks for.")
@click.option("-k", type=click.IntRange(1, 1000), default=10, show_default=True)
@_common
def search(kb: Path, as_json: bool, quiet: bool, image: str | None, text: str, k: int) -> None:
    """Find units and chunks for a picture, a text, or both."""
    if image is None and not text.strip():
        raise click.UsageError("give --image, --text, or both")
    with _open(kb, read_only=True) as base:
        found = base.search(image=image, text=text, k=k)
    lines = [f"{unit['score']:.3f}  {unit['name']}  ({unit['id']})" for unit in found["units"]]
    lines += [f"{chunk['score']:.3f}  {one_line(chunk['text'])}" for chunk in found["chunks"]]
    print_data(found, as_json, "\n".join(lines) or "nothing found")


# ---- looking -------------------------------------------------------------------------------------


@cli.command("list")
@click.option("--kind", help="Only units of this kind.")
@click.option("--limit", type=click.IntRange(1), help="Most units.")
@_common
def list_units(kb: Path, as_json: bool, quiet: bool, kind: str | None, limit: int | None) -> None:
    """List the units."""
    with _open(kb, read_only=True) as base:
        units = list(base.list(kind=kind, limit=limit))
    lines = [
        f"{unit['id']}  {unit['name']}  ({unit['kind']}; {unit['counts']['chunks']} chunks, "
        f"{unit['counts']['images']} images)"
        for unit in units
    ]
    print_data(units, as_json, "\n".join(lines) or "no units")


@cli.command()
@click.argument("unit_id", metavar="ID")
@_common
def show(kb: Path, as_json: bool, quiet: bool, unit_id: str) -> None:
    """Show one unit: names, pictures, texts, relations, sources."""
    with _open(kb, read_only=True) as base:
        unit = base.show(unit_id)
    print_data(unit, as_json, json.dumps(unit, ensure_ascii=False, indent=2))


@cli.command()
@_common
def stats(kb: Path, as_json: bool, quiet: bool) -> None:
    """Say how much there is, made with what."""
    with _open(kb, read_only=True) as base:
        found = base.stats()
    lines = [f"{count:>10,}  {what}" for what, count in found["counts"].items()]
    lines += [f"{found['bytes']:>10,}  bytes"]
    lines += [f"{key}: {found[key]}" for key in ("encoder", "segmenter", "schema")]
    print_data(found, as_json, "\n".join(lines))


@cli.command()
@_common
def verify(kb: Path, as_json: bool, quiet: bool) -> None:
    """Check every row, picture, list and cache; exit 1 when something is wrong."""
    with _open(kb, read_only=True) as base:
        found = base.verify()
    print_data(found, as_json, "\n".join(found["problems"]) or "ok")
    if not found["ok"]:
        raise click.exceptions.Exit(1)


@cli.command()
@_common
def compact(kb: Path, as_json: bool, quiet: bool) -> None:
    """Give back the space of what was deleted, and wipe its traces."""
    with _open(kb) as base:
        sizes = base.compact()
    print_data(sizes, as_json, f"{sizes['bytes_before']:,} → {sizes['bytes_after']:,} bytes")


@cli.command()
@_common
def doctor(kb: Path, as_json: bool, quiet: bool) -> None:
    """Check the installation, the fonts and the knowledge base."""
    from ku_rag.doctor import examine

    findings = list(examine(kb))
    lines = [f"{'ok ' if one.ok else 'NO '} {one.what}: {one.seen}" for one in findings]
    data = [{"what": one.what, "ok": one.ok, "seen": one.seen} for one in findings]
    print_data(data, as_json, "\n".join(lines))
    if not all(one.ok for one in findings):
        raise click.exceptions.Exit(1)


@cli.command()
@click.argument("folder", default="demo", type=click.Path(path_type=Path))
@_common
def demo(kb: Path, as_json: bool, quiet: bool, folder: Path) -> None:
    """Make a knowledge base of flags in FOLDER and ask it ten questions.

    The flags are drawn and the texts written by code from facts; --kb is not used.
    """
    from ku_rag.demo.tour import run

    report = run(folder, say=say if as_json or quiet else click.echo)
    print_data({"kb": str(folder / "kb"), "report": str(report)}, as_json, f"report: {report}")


# ---- inside --------------------------------------------------------------------------------------


@contextmanager
def _open(kb: Path, **how: Any) -> Iterator[KnowledgeBase]:  # noqa: ANN401 - passed on
    from ku_rag.knowledge_base import KnowledgeBase
    from ku_rag.store.database import explained

    with KnowledgeBase.open(kb, **how) as base, explained(base.path / "ku.sqlite"):
        yield base


def _read_texts(paths: tuple[Path, ...]) -> list[str]:
    from ku_rag.ingest.documents import read_text

    texts = []
    for path in paths:
        arguments.regular_file(path, "a text file")
        try:
            texts.append(read_text(path))
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from error
    return texts
