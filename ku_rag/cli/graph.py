"""Commands on the graph: entities and the relations between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ku_rag.cli.options import (
    ALIASES,
    GRAPH_SETTINGS,
    IMAGES,
    PATH,
    common,
    existing,
    mllm_option,
    number_option,
    open_base,
    output_option,
)
from ku_rag.cli.output import (
    counts,
    one_line,
    print_deleted,
    print_left_out,
    print_report,
    print_result,
    progress,
    remark,
    remark_usage,
    unit_lines,
)

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
@click.argument("path", type=PATH)
@common
def import_(path: Path) -> None:
    """Import a graph: a .jsonl or .graphml file, or a folder of workbooks.

    A folder holds one folder for each sub-graph, with Node.xlsx, Relations.xlsx, Knowledge_Images
    and Knowledge_Videos. What the same file said before is replaced; importing it twice changes
    nothing. The formats are in docs/graph.md.
    """
    existing(path, "a file or folder that holds a graph")
    with open_base(create=True) as base, progress("importing") as moved:
        report = base.graph.import_file(path, progress=moved)
    if report.only_named:
        remark(f"entities without a description: {report.only_named}")
    print_report(report)


@graph.command()
@click.argument("name", required=False)
@click.option("--id", help="Its id.  [default: the name]")
@click.option("--kind", help="monster, attack …")
@click.option("--topic", is_flag=True, help="A question may be about it as a whole.")
@click.option("--caption", default="", help="What its pictures show, in words.")
@click.option("--text", "texts", multiple=True, help="What else is known; may be repeated.")
@IMAGES
@ALIASES
@click.option("--unit", help="Id or name of the unit that it is.")
@_RELATION
@click.option("--information", help="More about the relation.")
@click.option("--condition", help="When the relation holds.")
@common
def add(
    name: str | None,
    relation: Relation | None,
    information: str | None,
    condition: str | None,
    **fields: Any,  # noqa: ANN401 - passed on as they are named there
) -> None:
    """Add the entity NAME, or with --relation a relation between two.

    Without --id an entity joins the unit that has its name. A relation may start at an entity
    that is new, and end at a name that no entity has.
    """
    _check(name, relation, fields, (information, condition))
    with open_base(create=True) as base:
        if relation is not None:
            stated = base.graph.add_relation(
                *relation, information=information, condition=condition
            )
            state = "added" if stated.added else "exists already"
            print_result(stated, f"{state}: {stated.head} —{stated.relation}→ {stated.tail}")
            return
        added = base.graph.add_entity(name or "", **fields)
    contents = counts(chunks=added.chunks, images=added.images)
    lines = [f"{added.action} {added.id}: {contents}"]
    lines += [
        f"  {key} stays {one_line(value)!r}, as another source states it"
        for key, value in added.kept.items()
    ]
    print_result(added, lines)


def _check(
    name: str | None, relation: Relation | None, fields: dict[str, Any], notes: tuple[Any, ...]
) -> None:
    """Refuse options of an entity with a relation, and of a relation with an entity."""
    misplaced = fields.values() if relation else (note is not None for note in notes)
    if (name is None) == (relation is None) or any(misplaced):
        raise click.UsageError(
            "give NAME and options of an entity, or --relation HEAD REL TAIL and --information or "
            "--condition; one of them"
        )


@graph.command()
@click.argument("name", required=False)
@_RELATION
@click.option("--condition", help="Only the relation that holds under it.")
@common
def delete(name: str | None, relation: Relation | None, condition: str | None) -> None:
    """Delete the entity NAME with all of its relations, or with --relation one of these.

    What a file states comes back when the file is imported again.
    """
    _check(name, relation, {}, (condition,))
    with open_base() as base:
        print_deleted(base.graph.delete(name, relation=relation, condition=condition))


@graph.command()
@click.argument("name")
@number_option("--most", "Relations listed in each direction.", 100, 0)
@output_option("--svg", "FILE.svg", "Draw it and up to 60 entities around it.")
@number_option("--hops", "Relations from it to the farthest entity that is drawn.", 1, 1, 2)
@common
def show(name: str, most: int, svg: Path | None, hops: int) -> None:
    """Show what is known of the entity NAME: an id, name or alias."""
    with open_base(read_only=True) as base:
        entity = base.graph.show(name, most=most)
        written = svg and base.graph.draw(name, svg, hops=hops)
    print_result(entity, unit_lines(entity.to_dict()))
    if written:
        remark(f"wrote {written}")


@graph.command()
@common
def schema() -> None:
    """List the relations: kinds of the entities at their ends, and how many there are."""
    with open_base(read_only=True) as base:
        rows = base.graph.schema()
    lines = [
        f"{row.count:>8,}  {', '.join(row.heads)} —{row.relation}→ {', '.join(row.tails)}"
        for row in rows
    ]
    print_result(rows, lines or "no relations")


@graph.command()
@click.argument("start")
@click.argument("end", required=False)
@number_option("--most", "Number of paths.", 10, 1)
@number_option("--longest", "Maximum relations of a path.", 4, 1, 20)
@click.option(
    "--direction",
    type=click.Choice(["out", "in", "both"]),
    default="out",
    show_default=True,
    help="Follow relations to their tails, to their heads, or either way.",
)
@common
def paths(start: str, end: str | None, **options: Any) -> None:  # noqa: ANN401 - passed on
    """Find the shortest paths from START to END, or from START to anywhere."""
    with open_base(read_only=True) as base:
        routes = base.graph.paths(start, end, **options)
    print_result(
        routes, [path.text for path in routes] or f"no path with --direction {options['direction']}"
    )


@graph.command()
@click.argument("file", type=PATH)
@common
def export(file: Path) -> None:
    """Write the graph to FILE, .jsonl or .graphml, or to a new folder of workbooks.

    A name without an ending is such a folder. Pictures go beside it. `ku graph import` makes the
    same graph of it.
    """
    with open_base(read_only=True, as_made=True) as base:
        done = base.graph.export(file)
    written = counts(relations=done.relations, pictures=done.images)
    print_result(done, f"exported: {done.entities:,} entities, {written}")
    print_left_out(done.left_out)


@graph.command()
@click.argument("question")
@IMAGES
@click.option("--topic", metavar="NAME", help="The entity to start from.  [default: selected]")
@click.option("--hints", default="", help="What pictures do not show, such as a state.")
@click.option("--perception", default="", help="What the pictures show, in your own words.")
@click.option("--setting", type=click.Choice(GRAPH_SETTINGS), help="What a model is given.")
@mllm_option("searches; '' for none")
@number_option("--most", "Paths.", 5, 1, 100)
@number_option("--rounds", "Maximum relations of a path.", 6, 0, 20)
@click.option("--depth-first", is_flag=True, help="Follow each path to its end first.")
@common
def search(**options: Any) -> None:  # noqa: ANN401 - passed on as they are named there
    """Find the paths that answer QUESTION, by agents of a model, or without one by walking facts.

    The settings are those of MH-MMKG: what of the question and of the graph a model is given.
    """
    with open_base(read_only=True) as base, progress(base.settings.mllm, items=""):
        result = base.graph.search(**options)
    lines = [result.answer] if result.answer else []
    lines += [path.text for path in result.paths] or ["no path was found"]
    print_result(result, lines)
    remark_usage(result.usage, base.settings)
    if result.failed:
        remark(f"no answer: {result.failed}")
    if result.search:
        remark(f"searched by {result.setting} agents: {result.search.stopped}")


@graph.command()
@click.argument("names", nargs=-1)
@mllm_option("captions")
@common
def caption(names: tuple[str, ...]) -> None:
    """Have a model caption the pictures of the entities NAMES, or of all.

    Each is captioned once; captions are stored apart from those that people wrote.
    """
    with open_base() as base, progress("captioning") as moved:
        report = base.graph.caption(names, progress=moved)
    print_report(report)
