"""Commands about the weights of models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ku_rag.cli.options import common
from ku_rag.cli.output import print_data, say

if TYPE_CHECKING:
    from ku_rag.weights import Model


@click.group()
def models() -> None:
    """Weights of models: list, pull, verify, path.

    They lie in the cache of the Hugging Face Hub (HF_HOME) or in our own folder (KU_CACHE, by
    default ~/.cache/ku-rag). Nothing but `pull` downloads any.
    """


@models.command("list")
@common
def list_models(kb: Path, as_json: bool, quiet: bool) -> None:
    """List the known models, and where they are."""
    from ku_rag import weights
    from ku_rag.weights.store import folder, hub, located, readable

    rows = [(model, located(model)) for model in weights.models().values()]
    data = {
        "folder": str(folder()),
        "hub": str(hub()),
        "models": [model.to_dict() | {"path": str(path) if path else None} for model, path in rows],
        "profiles": weights.profiles(),
    }
    lines = []
    for model, path in rows:
        lines += [
            f"{model.name}  ({model.purpose}; {readable(model.size)}; {model.licence})",
            f"  setting: {model.spec}",
            f"  source:  {model.source}",
            *(f"  sha256:  {file.sha256}" for file in model.files if len(model.files) == 1),
            f"  here:    {path or 'no'}",
        ]
    lines += [
        f"profile {name}: {settings['encoder']}, {settings['segmenter']}"
        for name, settings in weights.profiles().items()
    ]
    print_data(data, as_json, "\n".join(lines))


@models.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common
def pull(kb: Path, as_json: bool, quiet: bool, names: tuple[str, ...]) -> None:
    """Download models.

    What is here is left as it is. A download that was stopped goes on where it was.
    """
    from ku_rag import weights

    chosen = [weights.known(name) for name in names]
    done = []
    for model in chosen:
        with _bar(model, quiet) as moved:
            path = weights.pull(model.name, moved=moved)
        done.append({"name": model.name, "path": str(path)})
    print_data({"models": done}, as_json, "\n".join(one["path"] for one in done))


@models.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@common
def verify(kb: Path, as_json: bool, quiet: bool, names: tuple[str, ...]) -> None:
    """Hash the models that are here.

    Exits with 1 when one is damaged.
    """
    from ku_rag import weights

    found = weights.verify(names)
    lines = [
        f"{'ok     ' if one.ok else 'damaged'} {one.name}: {one.problem or one.path}"
        for one in found
    ]
    data = {"ok": all(one.ok for one in found), "models": [one.to_dict() for one in found]}
    print_data(data, as_json, "\n".join(lines) or "no known model is here")
    if not data["ok"]:
        raise click.exceptions.Exit(1)


@models.command()
@click.argument("name")
@common
def path(kb: Path, as_json: bool, quiet: bool, name: str) -> None:
    """Print where a model is.

    Exits with 1, and says how to get it, when it is not here.
    """
    from ku_rag import weights

    found = weights.find(name)
    print_data({"name": weights.known(name).name, "path": str(found)}, as_json, str(found))


@contextmanager
def _bar(model: Model, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A moving bar on stderr, if somebody looks; else one line."""
    from ku_rag.weights.store import located

    if quiet or not sys.stderr.isatty():
        if not quiet and located(model) is None:
            say(f"pulling {model.name} from {model.source}")
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(model.name, total=None)
        yield lambda come, size: bar.update(task, completed=come, total=size)
