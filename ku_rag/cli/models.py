"""Commands about the weights of models, and about their endpoints."""

from __future__ import annotations

import sys

import click

from ku_rag.cli.options import common, mllm_option, model_settings
from ku_rag.cli.output import is_quiet, print_result, say

_SHOWN = 20


@click.group()
def models() -> None:
    """Weights of models: list, pull, verify, path. Endpoints of models: ping.

    Weights are stored in the cache of the Hugging Face Hub (HF_HOME) or in ku-rag's own folder
    (KU_CACHE, by default ~/.cache/ku-rag). Only `pull` downloads.
    """


@models.command("list")
@common
def list_models() -> None:
    """List the known models, and where they are."""
    from rich.filesize import decimal

    from ku_rag import weights
    from ku_rag.weights.files import hub_folder, locate, own_folder

    rows = [(model, locate(model)) for model in weights.models().values()]
    data = {
        "folder": str(own_folder()),
        "hub": str(hub_folder()),
        "models": [model.to_dict() | {"path": str(path) if path else None} for model, path in rows],
        "profiles": weights.PROFILES,
    }
    lines = []
    for model, path in rows:
        lines += [
            f"{model.name}  ({model.purpose}; {decimal(model.size, precision=2)}; {model.licence})",
            f"  setting: {model.spec}",
            f"  source:  {model.source}",
            *(f"  sha256:  {file.sha256}" for file in model.files if len(model.files) == 1),
            f"  here:    {path or 'no'}",
        ]
    lines += [
        f"profile {name}: {settings['encoder']}, {settings['segmenter']}"
        for name, settings in weights.PROFILES.items()
    ]
    print_result(data, lines)


@models.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@common
def pull(names: tuple[str, ...]) -> None:
    """Download models that are not on this machine."""
    from ku_rag import weights
    from ku_rag.weights.files import locate

    chosen = [weights.known(name) for name in names]
    quiet = is_quiet()
    progress = not quiet and sys.stderr.isatty()
    done = []
    for model in chosen:
        if not quiet and locate(model) is None:
            say(f"pulling {model.name} from {model.source}")
        done.append({"name": model.name, "path": str(weights.pull(model, progress=progress))})
    print_result({"models": done}, [row["path"] for row in done])


@models.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@common
def verify(names: tuple[str, ...]) -> None:
    """Verify the hashes of the models on this machine.

    Exits with 1 if a model is damaged.
    """
    from ku_rag import weights

    checks = weights.verify(names)
    lines = [
        f"{'damaged' if check.problem else 'ok     '} {check.name}: {check.problem or check.path}"
        for check in checks
    ]
    sound = not any(check.problem for check in checks)
    data = {"ok": sound, "models": [check.to_dict() for check in checks]}
    print_result(data, lines or "no known model is here", ok=sound)


@models.command()
@click.argument("name")
@common
def path(name: str) -> None:
    """Print the path of a model.

    Exits with 1 if it is not on this machine, and says how to get it.
    """
    from ku_rag import weights

    location = weights.find(name)
    print_result({"name": weights.known(name).name, "path": str(location)}, str(location))


@models.command()
@mllm_option("is tried; without one its endpoint lists its models")
@common
def ping() -> None:
    """Try a model's endpoint: whether it answers, sees pictures, and replies in JSON.

    Exits with 1 if the endpoint or the model does not answer.
    """
    from ku_rag.mllm.endpoint_report import ping

    report = ping(model_settings())
    names = [*report.models[:_SHOWN], *(["…"] if len(report.models) > _SHOWN else [])]
    lines = [f"{report.url} answers", f"models: {', '.join(names) or 'not listed'}"]
    if report.model:
        lines += [
            f"{report.model} {'replies' if report.replies else 'does not reply'}",
            f"pictures: {'seen' if report.pictures else 'not seen'}",
            f"objects: {report.object_format or 'no'}",
        ]
    else:
        lines.append("no model was tried: name one with --mllm MODEL")
    lines += [f"  {problem}" for problem in report.problems]
    print_result(report, lines, ok=report.replies or not report.model)
