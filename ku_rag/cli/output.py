"""What `ku` writes: data to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ku_rag.errors import Corrupt

if TYPE_CHECKING:
    from ku_rag.types import Added, Answer, IngestReport

_QUARANTINED = 3
_SHOWN = 20


def print_data(data: object, as_json: bool, text: str) -> None:
    """Print data as strict JSON, or the text.

    Raises:
        Corrupt: it holds what JSON cannot, which was stored by an older version.
    """
    if not as_json:
        click.echo(text)
        return
    try:
        line = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise Corrupt(
            f"what is stored holds what JSON cannot ({error}): replace it with "
            "`ku update ID --metadata …`"
        ) from error
    click.echo(line)


def say(text: str) -> None:
    """Say something that is no data."""
    click.echo(text, err=True)


def print_report(report: IngestReport, as_json: bool, quiet: bool, would: str = "") -> None:
    """Print what an ingest or sync did; exit 3 when items were left out."""
    lines = [
        f"units: {report.units_added} {would}added, {report.units_updated} {would}updated, "
        f"{report.units_unchanged} unchanged"
        + (
            f", {len(report.units_deleted)} {would}deleted"
            if report.units_deleted is not None
            else ""
        ),
        f"{would}added: {report.chunks_added} chunks, {report.images_added} images, "
        f"{report.relations_added} relations; {report.seconds:.1f} s",
    ]
    found = report.to_dict()
    print_data(found, as_json, "\n".join(lines))
    print_left_out(found["quarantined"], as_json)


def print_left_out(items: list[dict[str, str]], as_json: bool) -> None:
    """Say what was left out, each with "item" and "reason"; exit 3 when something was."""
    if not items:
        return
    if not as_json:
        for one in items[:_SHOWN]:
            say(f"left out: {one['item']}: {one['reason']}")
        if len(items) > _SHOWN:
            say(f"… and {len(items) - _SHOWN} more; --json lists all")
    raise click.exceptions.Exit(_QUARANTINED)


def print_added(added: Added, as_json: bool) -> None:
    """Print what `add` or `update` did."""
    print_data(
        added.to_dict(),
        as_json,
        f"{added.action} {added.id}: {added.chunks} chunks, {added.images} images ({added.why})",
    )


def print_answer(answer: Answer) -> None:
    """Print an answer, what became of its draft, why it is one, and what it cites."""
    none = "The model gives no answer." if answer.correction else "No answer in the knowledge base."
    click.echo(answer.answer or none)
    if answer.draft is not None and answer.changed:
        click.echo(f"  - {one_line(answer.draft)}")
        click.echo(f"  + {one_line(answer.answer) or '(no answer)'}")
    elif answer.draft is not None:
        click.echo(f"  = {one_line(answer.draft)}")
    click.echo(f"  why: {answer.reading.why}")
    cited = set(answer.citations)
    for unit in answer.units:
        click.echo(f"  unit: {unit.name} ({unit.why})")
    for piece in answer.chunks:
        if piece.label in cited:
            click.echo(f"  {piece.label}: {one_line(piece.text)}  [{piece.source}]")
    for path in answer.paths:
        if path.label in cited:
            click.echo(f"  {path.label}: {one_line(path.text)}")


def one_line(text: str, most: int = 160) -> str:
    """A text as one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


@contextmanager
def progress(
    quiet: bool, what: str, items: str = "records"
) -> Iterator[Callable[[int], None] | None]:
    """A moving bar on stderr once a second has passed, if somebody looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} " + items),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=None)
    begin = time.monotonic() + 1

    def seen(count: int) -> None:
        if not bar.live.is_started and time.monotonic() > begin:
            bar.start()
        bar.update(task, completed=count)

    try:
        yield seen
    finally:
        if bar.live.is_started:
            bar.stop()
