"""Settings: argument, environment, the user's configuration, ku.toml of the base, default."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import Stemmer
from platformdirs import user_config_path

from ku_rag.addresses import HTTP_PORTS, Address, origin
from ku_rag.arguments import count, identity, regular_file, wrong
from ku_rag.errors import BadInput, NotFound

_TEMPLATE = """\
# Settings of this knowledge base. Arguments, KU_* environment variables and your own configuration,
# which `ku doctor` names, go before these. What is commented out stands at its default.
# No key or token is sent to an address that only this file names.

"""

_MOST_BYTES = 1 << 20
_MILVUS_PORTS = MappingProxyType({"http": 19530, "tcp": 19530, "https": 443})
_NOT_KEPT = {"encoder", "default_encoder", "device", "batch_size", "lock_wait_s", "max_memory"}


def _number(default: float, least: float, most: float) -> Any:  # noqa: ANN401 - a field
    return field(default=default, metadata={"range": (least, most)})


def _one_of(*choices: str) -> Any:  # noqa: ANN401 - a field
    return field(default=choices[0], metadata={"choices": choices})


def _address(*variables: str, ports: Mapping[str, int] = HTTP_PORTS) -> Any:  # noqa: ANN401 - a field
    """A setting that is an address; `variables` hold the secret that is sent there."""
    return field(default="", metadata={"variables": variables, "ports": ports})


def user_configuration() -> Path:
    """The file of the user's own settings, which hold for every knowledge base."""
    return user_config_path("ku-rag", appauthor=False) / "ku.toml"


def user_caches() -> Path:
    """The folder of the user's caches: $XDG_CACHE_HOME, by default ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()


def cache_folder() -> Path:
    """The cache of ku-rag: $KU_CACHE, by default ku-rag in `user_caches`."""
    named = os.environ.get("KU_CACHE")
    return Path(named).expanduser().absolute() if named else user_caches() / "ku-rag"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a knowledge base works.

    Args:
        encoder: the encoder: "embedded", "efficientnet:lite2", "longclip:…", "open_clip:…",
            "sentence:…", "openai:…" and others of an endpoint, an installed one, or two of them,
            "TEXT+IMAGE"; "" takes what the base was made with, and for a new base the default one.
        encoder_url: the endpoint of such encoders; "" takes OPENAI_BASE_URL, or OpenAI's own.
        default_encoder: the encoder of a new base if `encoder` is ""; "" takes
            "embedded+efficientnet:lite2" if the extra "pictures" is installed, else "embedded".
        segmenter: the segmenter: "windows", "whole", "yolo:…", "maskrcnn:…", or an
            installed one; "" takes windows with the embedded encoder, and the whole picture with a
            model, for which hundreds of windows would be too many.
        recogniser: what reads the words printed in pictures: "rapidocr", an installed one, or
            "none"; "" is none, and for a new base "rapidocr" if the extra "ocr" is installed.
        reranker: the reranker of the evidence: "embedded", "cross-encoder:…", "mllm", or an
            installed one; "" keeps the order of the search.
        reranker_pool: how many of the best chunks it scores, 1 to 1,000.
        k_units: most units that a picture may match, 1 to 1,000; those that the question names
            are matched beyond that.
        k_chunks: most chunks that become evidence, 1 to 1,000.
        expand: follow links between chunks in a search: a chunk also counts for what the chunks
            cover that it names or links to.
        max_tokens: longest chunk in the encoder's tokens, 0 to 1,000,000; 0 takes the encoder's
            limit.
        language: the language of the texts, a Snowball algorithm; "" takes what the base was made
            with, and for a new base English. It cannot be changed later: the keyword index holds
            its stems.
        images: "copy" keeps pictures in the knowledge base, "link" leaves them where they are.
        history: changes by hand that are kept of each unit for undo, 0 to 1,000.
        lock_wait_s: seconds to wait for another writer, 0 to 86,400.
        max_memory: megabytes, 64 to 1,000,000, that ingest may hold beside models and index.
        units: what a text or document is: "file" a unit, "heading" a unit for each heading, "auto"
            a unit for each heading if these name things.
        parse_memory: megabytes, 128 to 1,000,000, that each parser of foreign files may use.
        parse_seconds: seconds of processor time, 0.1 to 86,400, that a document, or a record of a
            file of many, may take to parse.
        parse_output: megabytes of text and tables, 1 to 4,000, that it may give.
        join_threshold: similarity, 0 to 1, above which a record without an id joins a unit; 0
            measures it.
        device: the device of models, "auto", "cpu", "cuda" or "mps".
        batch_size: items that a model encodes at once, 0 to 65,536; 0 finds out.
        confidence_threshold: confidence, 0 to 1, below which no fact is stated of a unit that the
            picture looks like; 0 takes what `ku tune --confidence` found, 0.4 before that.
        region_threshold: cosine to the question, -1 to 1, from which on a region counts as meant,
            where texts and pictures are comparable (KU-RAG, eq. 6).
        region_min_side: least width and height of a region in pixels, 1 to 100,000.
        region_background: "keep" or "mask" the part of a region's box outside its mask.
        index_engine: "local" searches vectors in this process, "milvus" on a Milvus server, which
            `ku index sync` fills; see docs/scale.md.
        index_uri: the address of the Milvus server; its token is KU_MILVUS_TOKEN or MILVUS_TOKEN.
        index_unreachable: "local" searches in this process while Milvus cannot be used, and logs a
            warning; "fail" raises `IndexUnavailable`.
        mllm: the multimodal model that answers and is corrected, as its endpoint calls it; "" has
            the extractive reader answer.
        mllm_url: its endpoint; "" takes OPENAI_BASE_URL, or OpenAI's own.
        identify: have the model choose among the candidates if the match of a picture is unsure.
        vision_mllm: the model that sees pictures in place of the model that answers; "" for none.
        vision_mllm_url: its endpoint; "" takes that of the model that answers.
        mllm_image_side: longest side in pixels of pictures that are sent, 64 to 8,192; pages of
            text keep theirs. This one and the next three hold for encoders behind an endpoint, too.
        mllm_timeout_s: seconds for a call, from the connection to the last byte, 0.1 to 86,400.
        mllm_retries: how often a failed call is tried again, 0 to 20.
        mllm_concurrency: most calls at once, 1 to 1,000.
        mllm_max_calls: most calls of one opened base, 0 for any number.
        mllm_max_tokens: most tokens of one opened base, both ways, 0 for any number.
        mllm_max_reply_tokens: longest reply in tokens, 0 to 1,000,000; 0: as the endpoint has it.
        mllm_chunks: most chunks that are sent to the model that answers, 1 to 1,000.
        mllm_prompt_price: price of a million tokens of requests, in any currency; 0 if unknown.
        mllm_reply_price: price of a million tokens of replies.
        mllm_judge: the model that judges answers in evaluations; "" takes the model that answers.
        mllm_judge_url: its endpoint; "" takes that of the model that answers.
        mllm_cache: keep replies, and take them again for the same request.
        prompts: a folder, from the base's own on, whose Markdown files go before the prompts of the
            project; "official:PATH" for the authors' prompts of MH-MMKG, from a clone of their
            repository; "" for none. A relative --prompts starts at the working directory.
        foreign: variables of secrets, each with an address that does not receive its secret; set
            by `load`.
    """

    encoder: str = ""
    encoder_url: str = _address("OPENAI_API_KEY")
    default_encoder: str = ""
    segmenter: str = ""
    recogniser: str = ""
    reranker: str = ""
    reranker_pool: int = _number(50, 1, 1_000)
    k_units: int = _number(10, 1, 1_000)
    k_chunks: int = _number(10, 1, 1_000)
    expand: bool = True
    max_tokens: int = _number(0, 0, 1_000_000)
    language: str = _one_of("", *Stemmer.algorithms())
    images: str = _one_of("copy", "link")
    history: int = _number(20, 0, 1_000)
    lock_wait_s: float = _number(10.0, 0, 86_400)
    max_memory: int = _number(1024, 64, 1_000_000)
    units: str = _one_of("auto", "file", "heading")
    parse_memory: int = _number(1024, 128, 1_000_000)
    parse_seconds: float = _number(60.0, 0.1, 86_400)
    parse_output: int = _number(64, 1, 4_000)
    join_threshold: float = _number(0.0, 0, 1)
    device: str = _one_of("auto", "cpu", "cuda", "mps")
    batch_size: int = _number(0, 0, 65_536)
    confidence_threshold: float = _number(0.0, 0, 1)
    region_threshold: float = _number(0.19, -1, 1)
    region_min_side: int = _number(50, 1, 100_000)
    region_background: str = _one_of("mask", "keep")
    index_engine: str = _one_of("local", "milvus")
    index_uri: str = _address("KU_MILVUS_TOKEN", "MILVUS_TOKEN", ports=_MILVUS_PORTS)
    index_unreachable: str = _one_of("local", "fail")
    mllm: str = ""
    mllm_url: str = _address("OPENAI_API_KEY")
    identify: bool = True
    vision_mllm: str = ""
    vision_mllm_url: str = _address("OPENAI_API_KEY")
    mllm_image_side: int = _number(1024, 64, 8_192)
    mllm_timeout_s: float = _number(60.0, 0.1, 86_400)
    mllm_retries: int = _number(3, 0, 20)
    mllm_concurrency: int = _number(4, 1, 1_000)
    mllm_max_calls: int = _number(0, 0, 1_000_000_000)
    mllm_max_tokens: int = _number(0, 0, 1_000_000_000_000)
    mllm_max_reply_tokens: int = _number(4_096, 0, 1_000_000)
    mllm_chunks: int = _number(10, 1, 1_000)
    mllm_prompt_price: float = _number(0.0, 0, 1_000_000)
    mllm_reply_price: float = _number(0.0, 0, 1_000_000)
    mllm_judge: str = ""
    mllm_judge_url: str = _address("OPENAI_API_KEY")
    mllm_cache: bool = True
    prompts: str = ""
    foreign: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def load(cls, path: Path, **arguments: object) -> Settings:
        """Read ku.toml at `path`, then the user's configuration, the environment and arguments.

        Missing files are skipped. OPENAI_BASE_URL stands for KU_MLLM_URL and
        KU_ENCODER_URL.

        Raises:
            BadInput: a file cannot be read, a setting is unknown, or its value is of the wrong
                type or out of range.
        """
        named = [(f"argument {name}", name, value) for name, value in arguments.items()]
        in_base = _check_all(_stated(path))
        by_user = _check_all([*_stated(user_configuration()), *_environment(), *named])
        servers = {_server(name, value) for name, value in by_user if name in _ADDRESSES}
        foreign = {
            (_ADDRESSES[name].metadata["variables"][0], value)
            for name, value in in_base
            if name in _ADDRESSES and value and _server(name, value) not in servers
        }
        return cls(**dict(in_base) | dict(by_user), foreign=frozenset(foreign))

    def address(self, name: str) -> Address:
        """Return the address in a setting, and whether it receives its secret."""
        url, variables = getattr(self, name), _ADDRESSES[name].metadata["variables"]
        return Address(url, variables, is_foreign=(variables[0], url) in self.foreign)

    def to_toml(self, stated: Collection[str] = ()) -> str:
        """The text of a new ku.toml.

        Args:
            stated: settings that hold for this base; the others are shown at their defaults.
                The encoder is kept in the base itself, with the vectors that it made.
        """
        lines = []
        for setting in _SETTINGS.values():
            is_stated = setting.name in stated and setting.name not in _NOT_KEPT
            value = getattr(self, setting.name) if is_stated else setting.default
            value = json.dumps(value, ensure_ascii=False)
            lines.append(f"{'' if is_stated else '# '}{setting.name} = {value}\n")
        return _TEMPLATE + "".join(lines)


_SETTINGS = {entry.name: entry for entry in fields(Settings) if entry.name != "foreign"}
_ADDRESSES = {name: entry for name, entry in _SETTINGS.items() if "variables" in entry.metadata}

_Stated = tuple[str, str, object]
"""Where a setting is stated, its name and its value."""


def _stated(path: Path) -> list[_Stated]:
    """Return the settings in a file; none if it is not there."""
    try:
        file = regular_file(path, "a file of settings", most=_MOST_BYTES)
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except NotFound:
        return []
    except RecursionError as error:
        raise BadInput(f"{path} is nested too deep: correct it or delete it") from error
    except ValueError as error:  # TOML or UTF-8
        raise BadInput(f"{path} is not TOML ({error}): correct it or delete it") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}): check it") from error
    return [(f"{path}: {name}", name, value) for name, value in settings.items()]


def _environment() -> list[_Stated]:
    """Return the settings in environment variables."""
    openai = os.environ.get("OPENAI_BASE_URL", "")
    settings: list[_Stated] = [
        ("OPENAI_BASE_URL", name, openai) for name in ("mllm_url", "encoder_url") if openai.strip()
    ]
    for name, setting in _SETTINGS.items():
        variable = f"KU_{name.upper()}"
        if (text := os.environ.get(variable)) is not None:
            settings.append((variable, name, _parse(setting, text)))
    return settings


def _check_all(stated: Iterable[_Stated]) -> list[tuple[str, Any]]:
    """Return names and checked values; a value of None states nothing."""
    checked = []
    for place, name, value in stated:
        if name not in _SETTINGS:
            listed = ", ".join(sorted(_SETTINGS))
            raise BadInput(f"{place}: there is no setting {name!r}; there are {listed}")
        if value is not None:
            checked.append((name, _check(_SETTINGS[name], value, place)))
    return checked


def _server(name: str, url: str) -> tuple[str, object]:
    """Return the variable of the secret in a setting, and the server that its address names."""
    metadata = _ADDRESSES[name].metadata
    return metadata["variables"][0], origin(url, metadata["ports"]) or url


def _parse(setting: Field[Any], value: str) -> object:
    """The value of an environment variable; one that is no number stays a text."""
    default: object = setting.default
    if isinstance(default, str):
        return value
    if isinstance(default, bool):
        return {"1": True, "true": True, "0": False, "false": False}.get(value.lower(), value)
    try:
        return int(value) if isinstance(default, int) else float(value)
    except ValueError:
        return value


def _check(setting: Field[Any], value: object, called: str) -> Any:  # noqa: ANN401 - of its type
    default: object = setting.default
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise wrong(value, called, "true or false")
        return value
    if isinstance(default, str):
        choices = setting.metadata.get("choices")
        choice = value if value == default else identity(value, called)
        if choices and choice not in choices:
            raise wrong(choice, called, " or ".join(json.dumps(name) for name in sorted(choices)))
        return choice
    least, most = setting.metadata["range"]
    if isinstance(default, int):
        return count(value, called, least=least, most=most)
    # Not being within the range is also true of NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise wrong(value, called, f"a number from {least:,} to {most:,}")
    return float(value)
