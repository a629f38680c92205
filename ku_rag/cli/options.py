"""What the commands share: their options, and the base that they open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ku_rag import arguments
from ku_rag.cli.output import say

if TYPE_CHECKING:
    from ku_rag.knowledge_base import KnowledgeBase

Command = Callable[..., Any]

_MODELS = "ku_rag.models"


def common(command: Command) -> Command:
    """The options that every command has."""
    for option in (
        click.option(
            "--batch-size",
            type=click.IntRange(0, 65_536),
            metavar="N",
            expose_value=False,
            callback=_kept,
            help="Items that a model encodes at once.  [default: found by itself]",
        ),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda", "mps"]),
            metavar="NAME",
            expose_value=False,
            callback=_kept,
            help="What models run on: auto, cpu, cuda or mps.  [default: auto]",
        ),
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


def _kept(context: click.Context, option: click.Parameter, value: object) -> None:
    """Keep what every command may be given and none reads, for the base that it opens."""
    context.meta.setdefault(_MODELS, {})[option.name] = value


def unit_options(command: Command) -> Command:
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


def page(_: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """A page to write, by its ending; the callback of such an option."""
    endings = arguments.OUTPUTS[f"the {option.name}"]
    if value and value.suffix.lower() not in endings and not value.is_dir():
        raise click.BadParameter(f"is {str(value)!r}, expected a name ending in {endings[0]}")
    return value


@contextmanager
def open_base(kb: Path, **how: Any) -> Iterator[KnowledgeBase]:  # noqa: ANN401 - passed on
    """Open the base of a command, with the options for models that the command was given."""
    from ku_rag.knowledge_base import KnowledgeBase
    from ku_rag.store.database import explained

    context = click.get_current_context()
    existed = (kb / "ku.sqlite").exists()
    models = context.meta.get(_MODELS, {})
    with KnowledgeBase.open(kb, **how, **models) as base, explained(base.path / "ku.sqlite"):
        if not (existed or context.params.get("quiet") or context.params.get("as_json")):
            say(f"made {base.path} with the encoder {base.settings.encoder}")
        yield base
