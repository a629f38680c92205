"""What `ku` writes: data to stdout, everything else to stderr, control characters escaped."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import click

from ku_rag.errors import Corrupt
from ku_rag.types import NO_ANSWER

if TYPE_CHECKING:
    from ku_rag.settings import Settings
    from ku_rag.types import Added, Answer, IngestReport, PlannedUnit, Quarantined

AS_JSON = "ku_rag.as_json"
QUIET = "ku_rag.quiet"
"""Keys of a command's context: whether --json and --quiet were given."""

_LEFT_OUT = 3
_SHOWN = 20
_MOST_LINES = 40
"""Lines of the tree of a planned ingest."""
_UNITS = 3
_WIDTH = 96
_LONGEST = 600
"""Characters of the closest passage that are printed."""
_WORDS = 30
"""Words that are printed of those in the pictures of a unit."""

_CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # bidirectional controls
)


class Result(Protocol):
    """What methods return."""

    def to_dict(self) -> Mapping[str, Any]:
        """The JSON that is printed."""


def clean(text: str) -> str:
    """A text without terminal control characters: each is shown by its escape."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """Print what is not data."""
    click.echo(clean(text), err=True)


def remark(text: str) -> None:
    """Print what is not data, unless --quiet or --json was given."""
    if not (is_quiet() or _is_set(AS_JSON)):
        say(text)


def print_result(
    data: Result | Mapping[str, Any] | Sequence[Result],
    text: str | Iterable[str],
    *,
    ok: bool = True,
) -> None:
    """Print data as strict JSON if --json was given, or the text; exit with 1 unless it is `ok`."""
    if _is_set(AS_JSON):
        try:
            line = json.dumps(
                data, ensure_ascii=False, allow_nan=False, default=lambda result: result.to_dict()
            )
        except ValueError as error:
            raise Corrupt(
                f"what is stored holds what JSON cannot ({error}): replace it with "
                "`ku update ID --metadata …`"
            ) from error
        click.echo(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line))
    else:
        click.echo(clean(text if isinstance(text, str) else "\n".join(text)))
    if not ok:
        raise click.exceptions.Exit(1)


def _is_set(key: str) -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(key))


def is_quiet() -> bool:
    """Whether --quiet was given."""
    return _is_set(QUIET)


def counts(**numbers: int) -> str:
    """Return numbers of things in words: "1 chunk, 2 images"."""
    return ", ".join(f"{n:,} {noun[:-1] if n == 1 else noun}" for noun, n in numbers.items())


def summary(report: IngestReport, would: str = "") -> str:
    """Return in one line what an ingest or sync did to units."""
    units = (
        f"units: {report.units_added} {would}added, {report.units_updated} {would}updated, "
        f"{report.units_unchanged} unchanged"
    )
    deleted = report.units_deleted
    return units if deleted is None else f"{units}, {len(deleted)} {would}deleted"


def print_report(report: IngestReport, would: str = "") -> None:
    """Print what an ingest or sync did; exit 3 when items were left out."""
    contents = counts(
        chunks=report.chunks_added, images=report.images_added, relations=report.relations_added
    )
    added = f"{would}added: {contents}; {report.seconds:.1f} s"
    print_result(report, [summary(report, would), added])
    print_left_out(report.quarantined)


def print_plan(units: Sequence[PlannedUnit], quarantined: Sequence[Quarantined]) -> None:
    """Print the units of a planned ingest as a tree; exit 3 when items are left out."""
    lines = list[str]()
    for unit in units:
        contents = (f"{kind}: {count:,}" for kind, count in unit.counts.items() if count)
        lines.append(f"{unit.name} ({', '.join([unit.origin, *contents])})")
        lines += [f"  {section}" for section in unit.sections]
    if len(lines) > _MOST_LINES:
        rest = lines[_MOST_LINES - 1 :]
        more = sum(not line.startswith(" ") for line in rest)
        noun = "more sections" if not more else "more unit" if more == 1 else "more units"
        lines[_MOST_LINES - 1 :] = [f"… and {more or len(rest):,} {noun}; --json lists all"]
    print_result({"units": units, "quarantined": quarantined}, lines)
    print_left_out(quarantined)


def print_left_out(items: Sequence[Quarantined]) -> None:
    """Print what was left out, unless JSON lists it; exit 3 when something was."""
    if not items:
        return
    if not _is_set(AS_JSON):
        for problem in items[:_SHOWN]:
            say(f"left out: {problem.item}: {problem.reason}")
        if len(items) > _SHOWN:
            say(f"… and {len(items) - _SHOWN} more; --json lists all")
    raise click.exceptions.Exit(_LEFT_OUT)


def print_added(added: Added) -> None:
    """Print what `add` or `update` did."""
    contents = counts(chunks=added.chunks, images=added.images)
    print_result(added, f"{added.action} {added.id}: {contents} ({added.why})")


def print_deleted(deleted: Result) -> None:
    """Print how much was deleted of each kind."""
    numbers = {what: len(rows) for what, rows in deleted.to_dict().items()}
    print_result(deleted, f"deleted: {counts(**numbers)}")


def print_answer(answer: Answer) -> None:
    """Print an answer, how it differs from the draft, the reason, and what it cites."""
    lines = [answer.answer or NO_ANSWER[answer.outcome]]
    if answer.draft is not None and answer.changed:
        lines.append(f"  - {one_line(answer.draft)}")
        lines.append(f"  + {one_line(answer.answer) or '(no answer)'}")
    elif answer.draft is not None:
        lines.append(f"  = {one_line(answer.draft)}")
    lines.append(f"  why: {answer.reading.why}")
    lines += [f"  note: {note}" for note in (answer.correction.notes if answer.correction else ())]
    if closest := answer.reading.closest:
        text = " ".join(closest.text.split())
        lines.append(f"  closest, no answer: {text[:_LONGEST]}{'…' * (len(text) > _LONGEST)}")
        pieces = (piece for piece in answer.chunks if piece.label == closest.evidence)
        lines += [f"    [{', '.join(filter(None, (p.source, p.place)))}]" for p in pieces]
    cited = set(answer.citations)
    lines += [f"  unit: {unit.name} ({unit.why})" for unit in answer.units[:_UNITS]]
    if (more := len(answer.units) - _UNITS) > 0:
        lines.append(f"  … and {more} more {'unit' if more == 1 else 'units'}; --json lists all")
    if answer.outcome == "unsure":
        ids = ", ".join(unit.id for unit in answer.units[:_UNITS])
        lines.append(f"  if it is one of them, ask with --unit ID: {ids}")
    quoted: dict[str, list[str]] = {label: [] for label in cited}
    texts = {piece.label: piece.text for piece in answer.chunks if not piece.table}
    for label, (start, end) in zip(answer.citations, answer.reading.spans, strict=False):
        quoted[label].append(texts.get(label, "")[start:end])
    quoted |= {p.label: ["; ".join(p.text.splitlines())] for p in answer.chunks if p.table}
    lines += [
        f"  {piece.label}: {one_line(' … '.join(filter(None, quoted[piece.label])) or piece.text)}"
        f"  [{', '.join(filter(None, (piece.source, piece.place)))}]"
        for piece in answer.chunks
        if piece.label in cited
    ]
    lines += [
        f"  {path.label}: {one_line(path.text)}" for path in answer.paths if path.label in cited
    ]
    print_result(answer, lines)


def unit_lines(unit: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of `ku show` or `ku graph show` as lines of text."""
    name, topic = unit["name"], "; topic" * unit.get("topic", False)
    identity = "" if unit["id"] in (None, name) else f"  [{unit['id']}]"
    yield f"{name}{identity}  ({unit['kind']}{topic})"
    captions = {f"caption by {by}": text for by, text in unit.get("machine_captions", {}).items()}
    facts = {"also called": unit["aliases"], "caption": unit.get("caption"), **captions}
    for key, value in (facts | unit["metadata"]).items():
        if value not in (None, "", []):
            yield f"{key}: {_value(value)}"
    for key in ("images", "videos"):
        yield from (f"{key.removesuffix('s')}: {path}" for path in unit.get(key, ()))
    for recogniser, words in unit.get("words", {}).items():
        more = f" … and {len(words) - _WORDS:,} more" * (len(words) > _WORDS)
        yield f"words in pictures, read by {recogniser}: {', '.join(words[:_WORDS])}{more}"
    for text in unit.get("texts") or filter(None, [unit.get("text")]):
        yield ""
        for line in text.strip().splitlines():  # each may be a label with its value
            yield click.wrap_text(line, _WIDTH, "  ", "  ")
    out, into = unit.get("relations", unit.get("out", ())), unit.get("in", ())
    yield from [""] * bool(out or into)
    yield from (f"  —{row['relation']}→ {_end(row, 'tail')}{_notes(row)}" for row in out)
    yield from (f"  {_end(row, 'head')} —{row['relation']}→{_notes(row)}" for row in into)
    for way, listed, what in (("out", out, "from"), ("in", into, "to")):
        if (more := unit["counts"].get(way, 0) - len(listed)) > 0:
            yield f"  … and {more:,} more {what} it: --most"
    yield from [""] * bool(unit.get("sources"))
    yield from (f"source: {source['uri']}" for source in unit.get("sources", ()))
    read = [fact for fact in unit.get("facts", ()) if fact["chunk"] is not None]
    yield from ["", "read in its texts and in tables:"] * bool(read)
    for fact in read:
        by = f"  ({fact['origin']})" if fact["origin"].startswith("extracted by ") else ""
        yield f"  {fact['label']}: {_value(fact['value'])}{by}"
    if named_in := unit.get("named_in"):
        yield f"named in {counts(chunks=len(named_in))} of other sources"


def _value(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(map(_value, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _end(relation: Mapping[str, Any], key: str) -> str:
    """The name of an end of a relation, with the id where that differs."""
    end = relation.get(key)
    if end is None:
        return str(relation["target"])
    return str(end["name"] if end["id"] in (None, end["name"]) else f"{end['name']} [{end['id']}]")


def _notes(relation: Mapping[str, Any]) -> str:
    from ku_rag.graph.model import when

    condition = when(relation.get("condition") or "")
    notes = "; ".join(filter(None, (relation.get("information"), condition)))
    return f"  ({one_line(notes)})" if notes else ""


def remark_usage(usage: Mapping[str, int], settings: Settings) -> None:
    """Print replies, tokens and, where prices are set, the cost of a model; nothing without one."""
    if not any(usage.values()):
        return
    prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
    text = (
        f"{settings.mllm}: {usage.get('replies', usage.get('calls', 0))} replies, "
        f"{usage['cached']} of them from the cache; {prompt:,} + {completion:,} tokens"
    )
    prices = settings.mllm_prompt_price, settings.mllm_reply_price
    if any(prices):
        text += f"; cost {(prompt * prices[0] + completion * prices[1]) / 1e6:.6f}"
    remark(text)


def one_line(text: str) -> str:
    """Return a text as one line of at most 160 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"


@contextmanager
def progress(what: str, items: str = "records") -> Iterator[Callable[..., None] | None]:
    """A progress bar on stderr, if stderr is a terminal.

    `items` is what is counted by calls of the function that it yields, which takes the count and,
    if it likes, what to show beside `what`; "" shows the time alone.
    """
    if not what or is_quiet() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    counted = [TextColumn("{task.completed:,} " + items)] if items else []
    columns = TextColumn("{task.description}"), BarColumn(), *counted, TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(clean(what), total=None)
        yield lambda count, beside="": bar.update(
            task, completed=count, description=clean(f"{what}  {beside}".strip())
        )
