"""Options that commands share, and opening of the knowledge base."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ku_rag import arguments
from ku_rag.cli.output import AS_JSON, QUIET, remark
from ku_rag.errors import BadInput, NotFound
from ku_rag.papers.cogplanner.plan import ACTIONS, MODELLINGS, Plan, PlanSettings
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings

if TYPE_CHECKING:
    from ku_rag.knowledge_base import KnowledgeBase
    from ku_rag.settings import Settings

Command = Callable[..., Any]


class _NamedPath(click.Path):
    """A path that is not empty."""

    def convert(
        self, value: str | PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | PathLike[str]:
        """Return the path; fails for an empty text, which is the current folder for `Path`."""
        if value == "":
            self.fail("the path is empty: name a file or folder", param, ctx)
        return super().convert(value, param, ctx)


PATH = _NamedPath(path_type=Path)
LOCATION = _NamedPath()
"""A path, or an address in object storage."""
GRAPH_SETTINGS = (
    "embedded", "vanilla", "vanilla+", "perceptive", "unaided-offline", "unaided-online",
)  # fmt: skip
"""Settings of the graph search that need no annotated routes."""
_KB = "ku_rag.kb"
_MODELS = "ku_rag.models"


def _kept(key: str, *names: str, **settings: Any) -> Callable[[Command], Command]:  # noqa: ANN401
    """An option whose value is kept in the context, for `open_base` and output."""

    def keep(context: click.Context, option: click.Parameter, value: object) -> None:
        if key == _MODELS:
            context.meta.setdefault(key, {})[option.name] = value
        else:
            context.meta[key] = value

    return click.option(*names, expose_value=False, callback=keep, **settings)


def common(command: Command) -> Command:
    """The options that every command for one knowledge base has."""
    kb: dict[str, Any] = {"default": "kb", "envvar": "KU_KB", "metavar": "DIR", "type": PATH}
    kb |= {"show_default": True, "show_envvar": True, "help": "The knowledge base."}
    return _kept(_KB, "--kb", **kb)(general(command))


def general(command: Command) -> Command:
    """The options that every command has."""
    device = click.Choice(["auto", "cpu", "cuda", "mps"])
    which = "Device that models run on: auto, cpu, cuda or mps.  [default: auto]"
    items = "Items that a model encodes at once.  [default: measured]"
    size = click.IntRange(0, 65_536)
    endpoint = "The endpoint of an encoder such as openai:MODEL.  [default: OPENAI_BASE_URL]"
    for option in (
        _kept(_MODELS, "--batch-size", type=size, metavar="N", help=items),
        _kept(_MODELS, "--encoder-url", metavar="URL", help=endpoint),
        _kept(_MODELS, "--device", type=device, metavar="NAME", help=which),
        _kept(QUIET, "--quiet", "-q", is_flag=True, help="Print no progress and no remarks."),
        _kept(AS_JSON, "--json", is_flag=True, help="Print JSON on stdout."),
    ):
        command = option(command)
    return command


def number_option(
    name: str, help: str, default: int | None, least: int, most: int | None = None
) -> Callable[[Command], Command]:
    """An option that takes a whole number from `least` to `most`."""
    has_default = default is not None
    kind = click.IntRange(least, most)
    return click.option(name, type=kind, default=default, show_default=has_default, help=help)


read_pages_option = click.option(
    "--read-pages",
    metavar="MODEL",
    help="Let this model transcribe pages of PDF files without text.",
)
units_option = _kept(
    _MODELS,
    "--units",
    type=click.Choice(["auto", "file", "heading"]),
    help="What is a unit of a text or document: the file, each heading, or headings that name "
    "things (auto).  [default: auto]",
)
memory_option = _kept(
    _MODELS,
    "--max-memory",
    type=click.IntRange(64, 1_000_000),
    metavar="MB",
    help="Memory to use beside models and index.  [default: 1024]",
)


def _prompts(value: str) -> str:
    """Return a setting `prompts` whose path starts at the working directory."""
    folder = value.removeprefix("official:")
    return value.removesuffix(folder) + str(Path(folder).absolute()) if folder else value


def mllm_option(purpose: str) -> Callable[[Command], Command]:
    """The options of a multimodal model."""
    flag = {"is_flag": True, "flag_value": False, "default": None}
    seconds = {"type": click.FloatRange(0.1, 86_400), "metavar": "SECONDS"}
    tokens = {"type": click.IntRange(0, 1_000_000), "metavar": "N"}
    folder = {"metavar": "DIR", "type": _prompts}
    options: list[tuple[str, str, dict[str, Any], str]] = [
        ("--prompts", "prompts", folder, "Prompts that replace its own, or official:CLONE."),
        ("--no-cache", "mllm_cache", flag, "Ask it again instead of reusing its replies."),
        ("--max-reply-tokens", "mllm_max_reply_tokens", tokens, "Longest reply in tokens."),
        ("--mllm-timeout", "mllm_timeout_s", seconds, "Longest time of a call.  [default: 60]"),
        ("--mllm-url", "mllm_url", {"metavar": "URL"}, "Its endpoint.  [default: OPENAI_BASE_URL]"),
        ("--mllm", "mllm", {"metavar": "MODEL"}, f"The multimodal model that {purpose}."),
    ]

    def add(command: Command) -> Command:
        for name, key, settings, help in options:
            command = _kept(_MODELS, name, key, help=help, **settings)(command)
        return command

    return add


def vision_options(command: Command) -> Command:
    """The options of identification, and of a model that sees for one that does not."""
    help = "Let the model choose a candidate if the match is unsure.  [default: identify]"
    command = _kept(_MODELS, "--identify/--no-identify", default=None, help=help)(command)
    model = {"metavar": "MODEL", "help": "The model that describes the picture to --mllm."}
    return _kept(_MODELS, "--vision-mllm", "vision_mllm", **model)(command)


def judge_option(command: Command) -> Command:
    """The options of a model that judges answers."""
    url = {"metavar": "URL", "help": "Its endpoint.  [default: --mllm-url]"}
    command = _kept(_MODELS, "--judge-url", "mllm_judge_url", **url)(command)
    model = {"metavar": "MODEL", "help": "The model that judges answers.  [default: --mllm]"}
    return _kept(_MODELS, "--judge", "mllm_judge", **model)(command)


def evidence_options(command: Command) -> Command:
    """The options that set how an evidence graph is built; see `evidence_settings`."""
    steps = {
        "table-mining": "Read no tables.",
        "visual-evidence": "Ask no pictures.",
        "image-matching": "Select no pictures by descriptions.",
    }
    for step, help in steps.items():
        command = click.option(
            f"--no-{step}", step.replace("-", "_"), flag_value=False, default=True, help=help
        )(command)
    help = (
        "Maximum k [5] nodes of a selection, passages [10], tables [3], or rounds t_max [3] of an "
        "evidence graph; image_distance [.25] or table_distance [.7] of titles; may be repeated."
    )
    return click.option("--evidence-limit", multiple=True, metavar="NAME=N", help=help)(command)


def _read_limits(options: dict[str, Any], key: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Remove the values of an option of limits, and return numbers by the field that they set."""
    limits = {}
    for limit in options.pop(key):
        name, _, number = limit.partition("=")
        try:
            value = float(number)
            limits[fields[name]] = int(value) if value.is_integer() else value
        except (KeyError, ValueError):
            raise click.UsageError(
                f"--{key.replace('_', '-')} is {limit!r}: expected {'=N, '.join(fields)}=N"
            ) from None
    return limits


def evidence_settings(options: dict[str, Any]) -> EvidenceSettings:
    """Remove the values of `evidence_options`, and return the settings."""
    steps = ("image_matching", "visual_evidence", "table_mining")
    names = ("k", "passages", "tables", "image_distance", "table_distance", "t_max")
    limits = _read_limits(options, "evidence_limit", {name: name for name in names})
    return EvidenceSettings(**{step: options.pop(step) for step in steps}, **limits)


def model_settings() -> Settings:
    """The settings of the base that --kb names, if it exists, and of the options for models."""
    from ku_rag.settings import Settings

    models = click.get_current_context().meta.get(_MODELS, {})
    return Settings.load(base_path() / "ku.toml", **models)


def _several(name: str, key: str, help: str, **settings: Any) -> Callable[[Command], Command]:  # noqa: ANN401
    return click.option(name, key, multiple=True, help=f"{help}; may be repeated.", **settings)


IMAGES = _several("--image", "images", "A picture file", type=PATH)
"""The option that names picture files."""
ALIASES = _several("--alias", "aliases", "Another name")
"""The option that gives further names."""


def filter_options(command: Command) -> Command:
    """The options that select units by kind and metadata."""
    where = click.option(
        "--where",
        multiple=True,
        callback=_check_conditions,
        metavar="CONDITION",
        help='Only units with such metadata: "calories<100", "price=5..9", "colour in red, blue", '
        '"note contains old"; may be repeated. "any:FIELD…" reads texts and relations, too.',
    )
    return click.option("--kind", help="Only units of this kind.")(where(command))


def _check_conditions(
    _: click.Context, __: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    from ku_rag.store.filters import UnitFilter

    try:
        UnitFilter.parse(where=value)
    except BadInput as error:
        raise click.BadParameter(str(error)) from error
    return value


def unit_options(command: Command) -> Command:
    """The options that describe a unit, for `add` and `update`."""
    for option in (
        click.option("--metadata", callback=_json_object, metavar="JSON", help="A JSON object."),
        _several("--text-file", "text_files", "A text file", type=PATH, callback=_read_texts),
        _several("--text", "texts", "A text"),
        IMAGES,
        ALIASES,
        click.option("--kind", help="entity, event, rule, topic …"),
    ):
        command = option(command)
    return command


def _json_object(_: click.Context, __: click.Parameter, value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        data = arguments.STRICT_JSON.decode(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise click.BadParameter(f'is {value}, expected an object such as {{"colour": "red"}}')
    return data


def _read_texts(_: click.Context, __: click.Parameter, files: tuple[Path, ...]) -> list[str]:
    if not files:
        return []
    from ku_rag.ingest.readers.decoding import read_text

    texts = []
    for file in files:
        try:
            texts.append(read_text(file))
        except BadInput as error:
            raise BadInput(f"{file}: {error}") from error
    return texts


_PLAN_LIMITS = {
    **{name: f"max_{name}" for name in ("rounds", "calls", "tokens", "seconds")},
    "texts": "k",
    "pictures": "images",
    "text-tokens": "text_tokens",
}
"""Names of limits on the command line, and the settings that they set."""


def plan_setting_options(command: Command) -> Command:
    """The options that set how a plan is made; see `plan_settings`."""
    for option in (
        click.option(
            "--plan-limit",
            multiple=True,
            metavar="NAME=N",
            help="Maximum rounds [default: 3], calls, tokens or seconds of a plan, or texts [5], "
            "pictures [3] or text-tokens [800] of a search; may be repeated.",
        ),
        click.option(
            "--actions",
            metavar="LIST",
            help=f"Actions that a plan may take, of {', '.join(ACTIONS)}.  [default: all]",
        ),
        click.option("--last-round", is_flag=True, help="Answer from the last search alone."),
    ):
        command = option(command)
    return command


def plan_options(command: Command) -> Command:
    """The options that make a plan; see `plan_from`."""
    for option in (
        _several("--searcher", "searchers", "An installed searcher that a plan may ask"),
        plan_setting_options,
        click.option("--plan-file", type=PATH, help="Carry out the plan in a file, as edited."),
        click.option(
            "--plan",
            type=click.Choice(MODELLINGS),
            help="Search in rounds: reformulate and choose together, or one after the other.",
        ),
    ):
        command = option(command)
    return command


def plan_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of `plan_setting_options`, and return fields of `PlanSettings`."""
    limits = _read_limits(options, "plan_limit", _PLAN_LIMITS)
    if actions := options.pop("actions"):
        limits["actions"] = tuple(name.strip() for name in actions.split(","))
    if options.pop("last_round"):
        limits["last_round"] = True
    return limits


def plan_from(options: dict[str, Any], strict: str | None) -> PlanSettings | Plan | None:
    """Remove the options of `plan_options`, except the searchers, and return their plan."""
    modelling, file, limits = options.pop("plan"), options.pop("plan_file"), plan_settings(options)
    plans = strict == "cogplanner"
    if (limits or options["searchers"]) and not (modelling or file or plans):
        raise click.UsageError("options of a plan need --plan or --plan-file")
    if file:
        if modelling or limits:
            raise click.UsageError("--plan-file sets the other options of a plan: leave them out")
        return Plan.read(file)
    is_planned = modelling or (plans and limits)
    return PlanSettings(modelling or "sequential", **limits) if is_planned else None


def output_option(name: str, file: str, help: str) -> Callable[[Command], Command]:
    """An option that names a file to write; the ending must be right."""

    def check(_: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
        endings = arguments.OUTPUTS[f"the {option.name}"]
        if value and value.suffix.lower() not in endings and not value.is_dir():
            raise click.BadParameter(f"is {str(value)!r}, expected a name ending in {endings[0]}")
        return value

    return click.option(name, type=PATH, callback=check, metavar=file, help=help)


def existing(path: Path, expected: str) -> Path:
    """Return a path that exists, else raise `NotFound`; for commands that make a base."""
    if not path.exists():
        raise NotFound(f"{path} does not exist: name {expected}")
    return path


def base_path() -> Path:
    """The folder of the knowledge base that --kb names."""
    return Path(click.get_current_context().meta[_KB])


def base_exists() -> bool:
    """Whether there is a knowledge base in that folder."""
    return (base_path() / "ku.sqlite").exists()


def model_options() -> dict[str, Any]:
    """Return the options for models that a command was given."""
    options: dict[str, Any] = click.get_current_context().meta.get(_MODELS, {})
    return options


@contextmanager
def open_base(path: Path | None = None, /, **options: Any) -> Iterator[KnowledgeBase]:  # noqa: ANN401
    """Open the base of --kb, or another, with the options for models of the command."""
    from ku_rag.knowledge_base import KnowledgeBase

    folder = path or base_path()
    existed = (folder / "ku.sqlite").exists()
    models = model_options()
    with KnowledgeBase.open(folder, **options, **models) as base:
        for option, model in (("--mllm", "mllm"), ("--judge", "mllm_judge")):
            if models.get(f"{model}_url") and not getattr(base.settings, model):
                raise click.UsageError(f"{option}-url needs a model: add {option} MODEL")
        if not existed:
            remark(f"created {base.path} with the encoder {base.settings.encoder}")
        yield base
