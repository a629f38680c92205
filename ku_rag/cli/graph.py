"""Commands on the graph: entities and the relations between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ku_rag.cli.options import common, open_base, page
from ku_rag.cli.output import one_line, print_data, print_left_out, print_report, progress, say
from ku_rag.errors import NotFound

Relation = tuple[str, str, str]

_RELATION = click.option(
    "--relation",
    nargs=3,
    metavar="HEAD REL TAIL",
    help="A relation: where it starts, its word, where it ends.",
)


@click.group()
def graph() -> None:
    """The knowledge graph: entities, and relations between them.

    An entity is a unit; `ku list`, `ku show` and `ku delete` know it as well.
    """


@graph.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@common
def import_(kb: Path, as_json: bool, quiet: bool, path: Path) -> None:
    """Take in a graph: a .jsonl or .graphml file, or a folder of workbooks.

    A folder holds one folder a sub-graph, each with Node.xlsx, Relations.xlsx, Knowledge_Images and
    Knowledge_Videos. What the same file said before is replaced; doing it again changes nothing.
    The formats are in docs/graph.md.
    """
    if not path.exists():
        raise NotFound(f"{path} does not exist: name a file or folder that holds a graph")
    with open_base(kb, create=True) as base, progress(quiet, "importing") as moved:
        report = base.graph_import(path, progress=moved)
    if report.only_named and not (quiet or as_json):
        click.echo(f"entities that nobody describes: {report.only_named}", err=True)
    print_report(report, as_json, quiet)


@graph.command()
@click.argument("name", required=False)
@click.option("--id", "entity_id", help="Its identity.  [default: the name]")
@click.option("--kind", help="monster, attack …")
@click.option("--topic", is_flag=True, help="A question may be about it as a whole.")
@click.option("--caption", default="", help="What its pictures show, in words.")
@click.option("--text", "texts", multiple=True, help="What else is known; may be given again.")
@click.option(
    "--image", "images", multiple=True, type=click.Path(path_type=Path), help="A picture file."
)
@click.option("--alias", "aliases", multiple=True, help="Another name.")
@click.option("--unit", help="Id or name of a unit that it is.")
@_RELATION
@click.option("--information", help="More about the relation.")
@click.option("--condition", help="When the relation holds.")
@common
def add(
    kb: Path,
    as_json: bool,
    quiet: bool,
    name: str | None,
    entity_id: str | None,
    relation: Relation | None,
    information: str | None,
    condition: str | None,
    **described: Any,  # noqa: ANN401 - passed on as it is named there
) -> None:
    """Add the entity NAME, or with --relation a relation between two.

    Without --id an entity joins the unit that bears its name. A relation may start at an entity
    that is new, and end at a name that nobody bears.
    """
    _check(name, relation, described | {"id": entity_id}, (information, condition))
    with open_base(kb, create=True) as base:
        if relation is None:
            added = base.graph_add(name, id=entity_id, **described)
            text = (
                f"{added['action']} {added['id']}: {added['chunks']} chunks, "
                f"{added['images']} images"
            )
            for key, value in added["kept"].items():
                text += f"\n  {key} stays {one_line(value)!r}, as was said of it before"
        else:
            added = base.graph_add(relation=relation, information=information, condition=condition)
            state = "added" if added["added"] else "there already"
            text = f"{state}: {added['head']} —{added['relation']}→ {added['tail']}"
    print_data(added, as_json, text)


def _check(
    name: str | None, relation: Relation | None, described: dict[str, Any], notes: tuple[Any, ...]
) -> None:
    """Refuse options that belong to the other kind of thing."""
    if (name is None) == (relation is None):
        raise click.UsageError("give NAME for an entity, or --relation HEAD REL TAIL; one of them")
    if relation is None and any(one is not None for one in notes):
        raise click.UsageError("notes such as --condition belong to --relation")
    if relation is not None and any(described.values()):
        option = next(key for key, value in described.items() if value)
        raise click.UsageError(f"--{option.removesuffix('s')} belongs to an entity, not a relation")


@graph.command()
@click.argument("name", required=False)
@_RELATION
@click.option("--condition", help="Only the relation that holds then.")
@common
def delete(
    kb: Path,
    as_json: bool,
    quiet: bool,
    name: str | None,
    relation: Relation | None,
    condition: str | None,
) -> None:
    """Delete the entity NAME with all of its relations, or with --relation one of these.

    What a file states comes back when the file is imported again.
    """
    _check(name, relation, {}, (condition,))
    with open_base(kb) as base:
        deleted = base.graph_delete(name, relation=relation, condition=condition)
    print_data(
        deleted,
        as_json,
        "deleted: " + ", ".join(f"{len(rows)} {what}" for what, rows in deleted.items()),
    )


@graph.command()
@click.argument("name")
@click.option(
    "--most",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Relations that are listed of each direction.",
)
@click.option(
    "--svg",
    type=click.Path(path_type=Path),
    callback=page,
    metavar="FILE.svg",
    help="Draw it and up to 60 entities around it.",
)
@click.option(
    "--hops",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Relations away from it that are drawn.",
)
@common
def show(
    kb: Path, as_json: bool, quiet: bool, name: str, most: int, svg: Path | None, hops: int
) -> None:
    """Show what is known of an entity: id, name or alias."""
    with open_base(kb, read_only=True) as base:
        found = base.graph_show(name, most=most)
        written = svg and base.graph_draw(name, svg, hops=hops)
    print_data(found, as_json, "\n".join(_lines(found)))
    if written and not (quiet or as_json):
        say(f"wrote {written}")


def _lines(found: dict[str, Any]) -> list[str]:
    identity = f"{found['id']}  " if found["id"] is not None else ""
    lines = [f"{identity}{found['name']}  ({found['kind']}{'; topic' * found['topic']})"]
    lines += [f"also called: {', '.join(found['aliases'])}"] if found["aliases"] else []
    lines += [f"caption: {one_line(found['caption'])}"] if found["caption"] else []
    for model, caption in found["machine_captions"].items():
        lines.append(f"caption by {model}: {one_line(caption)}")
    lines += [f"text: {one_line(found['text'])}"] if found["text"] else []
    lines += [f"{key}: {value}" for key, value in found["metadata"].items()]
    for key in ("images", "videos"):
        lines += [f"{key.removesuffix('s')}: {one}" for one in found[key]]
    lines += [f"  —{one['relation']}→ {_named(one['tail'])}{_notes(one)}" for one in found["out"]]
    lines += [f"  {_named(one['head'])} —{one['relation']}→{_notes(one)}" for one in found["in"]]
    for way, what in (("out", "from"), ("in", "to")):
        more = found["counts"][way] - len(found[way])
        lines += [f"  … and {more:,} more {what} it: --most"] if more else []
    return lines


def _named(end: dict[str, Any]) -> str:
    """A name, with the id where that says more."""
    return end["name"] if end["id"] in (None, end["name"]) else f"{end['name']} [{end['id']}]"


def _notes(one: dict[str, Any]) -> str:
    from ku_rag.graph.model import when

    notes = "; ".join(filter(None, (one.get("information"), when(one.get("condition") or ""))))
    return f"  ({one_line(notes)})" if notes else ""


@graph.command()
@click.argument("start")
@click.argument("end", required=False)
@click.option(
    "--most", type=click.IntRange(1), default=10, show_default=True, help="So many paths at most."
)
@click.option(
    "--longest",
    type=click.IntRange(1, 20),
    default=4,
    show_default=True,
    help="Relations that a path has at most.",
)
@common
def paths(
    kb: Path, as_json: bool, quiet: bool, start: str, end: str | None, most: int, longest: int
) -> None:
    """Find the shortest paths from START to END, or from START to anywhere."""
    with open_base(kb, read_only=True) as base:
        found = base.graph_paths(start, end, most=most, longest=longest)
    print_data(found, as_json, "\n".join(one["text"] for one in found) or "no path")


@graph.command()
@click.argument("file", type=click.Path(path_type=Path))
@common
def export(kb: Path, as_json: bool, quiet: bool, file: Path) -> None:
    """Write the graph to FILE, .jsonl or .graphml, or to a new folder of workbooks.

    What has no ending is such a folder. Pictures go beside it. `ku graph import` makes the same
    graph of it.
    """
    with open_base(kb, read_only=True, as_made=True) as base:
        done = base.graph_export(file)
    print_data(
        done,
        as_json,
        f"exported: {done['entities']:,} entities, {done['relations']:,} relations, "
        f"{done['images']:,} pictures",
    )
    print_left_out(done["left_out"], as_json)
