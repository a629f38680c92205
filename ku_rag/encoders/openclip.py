"""Encoders with models of open_clip, by name or path, without a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ku_rag.encoders.clip import ClipEncoder
from ku_rag.encoders.offline_loading import offline_and_silent
from ku_rag.errors import BadInput, NotFound, reason
from ku_rag.plugins import extra
from ku_rag.weights.files import content_hash, weights_file
from ku_rag.weights.tensors import read_tensors

_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")
_PREPROCESSING = ("mean", "std", "interpolation", "resize_mode")
_TABLES = ("positional_embedding", "text.positional_embedding", "visual.positional_embedding")
_PREFERRED = (
    *("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors"),
    *("open_clip_pytorch_model.bin", "open_clip_pytorch_model.pth"),
)

_MISSING = (OSError, ImportError)
_BROKEN = (RuntimeError, ValueError, KeyError, TypeError, AttributeError, AssertionError)


class OpenClipEncoder(ClipEncoder):
    """Encodes with an open_clip model whose weights are on this machine.

    Args:
        argument: "MODEL/PRETRAINED" such as "ViT-B-32/laion2b_s34b_b79k", "MODEL/PATH" of a file
            of weights, or the path of a folder with an open_clip_config.json.

    Raises:
        NotFound: there is no such model, or its weights are not on this machine; nothing is
            downloaded.
        BadInput: the weights do not fit the model, or the device does not exist.
        MissingExtra: open_clip is not installed.
    """

    def __init__(
        self,
        argument: str = "ViT-B-32/laion2b_s34b_b79k",
        *,
        device: str = "auto",
        batch_size: int = 0,
    ) -> None:
        source = locate(argument)
        fingerprint = f"open_clip:{source.model}:{content_hash(source.weights)}"
        super().__init__(
            *load(source), fingerprint=fingerprint, device=device, batch_size=batch_size
        )


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model.

    Args:
        model: open_clip's name of the model; "local" for a folder.
        trained: open_clip's configuration of the pretrained weights.
    """

    model: str
    weights: Path
    folder: Path | None = None
    trained: Mapping[str, Any] = field(default_factory=dict)


def locate(argument: str) -> ModelFiles:
    """Find the files of "MODEL/PRETRAINED", "MODEL/PATH" or the path of a folder.

    Raises:
        NotFound: there is no such model or file, or the weights are not on this machine.
        BadInput: a file or folder is of the wrong kind.
    """
    given = Path(argument).expanduser()
    if given.is_dir():
        return _in_folder(given.absolute())
    if given.is_file():
        raise BadInput(
            f"{given} says nothing of its architecture: write open_clip:MODEL/{given}, with one of "
            "the models that open_clip.list_models() names, or longclip:PATH for a Long-CLIP"
        )
    open_clip = extra("longclip", "open_clip")
    model, slash, rest = argument.partition("/")
    known = open_clip.list_models()
    if model not in known or not slash or not rest:
        raise NotFound(
            f"open_clip:{argument} names no model: expected MODEL/PRETRAINED, MODEL/PATH or a "
            f"folder with an open_clip_config.json, with MODEL one of {', '.join(known[:4])} … "
            "(open_clip.list_models() names them all)"
        )
    if Path(rest).expanduser().exists() or rest.startswith(("/", "~")) or rest.endswith(_SUFFIXES):
        return ModelFiles(model, weights_file(rest, f"weights of {model}"))
    return _pretrained(model, rest)


def _in_folder(folder: Path) -> ModelFiles:
    if not (folder / "open_clip_config.json").is_file():
        raise BadInput(
            f"{folder} has no open_clip_config.json: expected a folder that open_clip saved, or "
            "MODEL/PATH with the path of a file of weights"
        )
    files = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    files.sort(key=lambda path: (path.name not in _PREFERRED, _SUFFIXES.index(path.suffix)))
    if not files:
        raise NotFound(f"{folder} has no weights: expected {_PREFERRED[0]} in it")
    return ModelFiles("local", weights_file(str(files[0]), "weights"), folder)


def _pretrained(model: str, tag: str) -> ModelFiles:
    """Find weights that open_clip would download, in the catalogue's folders and in the caches."""
    pretrained = extra("longclip", "open_clip.pretrained")
    trained = pretrained.get_pretrained_cfg(model, tag)
    if not trained:
        tags = ", ".join(pretrained.list_pretrained_tags_by_model(model)) or "none"
        raise NotFound(f"open_clip has no weights {tag!r} for {model}: it has {tags}")
    from ku_rag import weights
    from ku_rag.weights.catalogue import models

    if f"{model}/{tag}" in models():
        return ModelFiles(model, weights.find(f"{model}/{tag}"), trained=trained)
    repo, _, name = trained.get("hf_hub", "").rpartition("/")
    names = [name] if name else list(_PREFERRED)
    if repo:
        cached = extra("longclip", "huggingface_hub").try_to_load_from_cache
        for name in names:
            found = cached(repo, name)
            if isinstance(found, str):
                return ModelFiles(model, Path(found), trained=trained)
    url = trained.get("url", "")
    origin = f"https://huggingface.co/{repo} ({names[0]})" if repo else url
    raise NotFound(
        f"the weights of {model}/{tag} are not here, and nothing is downloaded while encoding: "
        f"fetch them from {origin} and give their path, open_clip:{model}/PATH"
    )


def load(source: ModelFiles) -> tuple[Any, Any, Any]:
    """Return a model, its tokenizer and its preprocessing; no code in the file is run.

    Raises:
        BadInput: the weights do not fit the model.
        NotFound: its tokenizer or configuration is not on this machine.
    """
    open_clip = extra("longclip", "open_clip")
    name = f"local-dir:{source.folder}" if source.folder else source.model
    expected = f"weights of {source.folder or source.model}"
    tensors = read_tensors(source.weights, expected)
    with offline_and_silent("longclip"):
        try:
            model = open_clip.create_model(
                name,
                load_weights=False,
                pretrained_text=False,
                force_quick_gelu=bool(source.trained.get("quick_gelu")),
                force_preprocess_cfg={
                    key: source.trained[key] for key in _PREPROCESSING if key in source.trained
                },
            )
            tokenizer = open_clip.get_tokenizer(name)
        except _MISSING as error:
            raise NotFound(
                f"{name} needs more than its weights ({reason(error)}): run it once with a "
                "network through open_clip itself, so that its tokenizer is kept on this machine"
            ) from error
        except _BROKEN as error:
            raise BadInput(
                f"{name} cannot be made ({reason(error)}): expected a model of open_clip"
            ) from error
        _check_tables(model, tensors, source, expected)
        try:
            open_clip.load_checkpoint(model, str(source.weights), strict=True, weights_only=True)
        except _BROKEN as error:
            raise BadInput(
                f"{source.weights} does not fit {source.folder or source.model} "
                f"({reason(error)}): expected {expected}"
            ) from error
    preprocessing = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(**open_clip.get_model_preprocess_cfg(model)),
        is_train=False,
    )
    return model, tokenizer, preprocessing


def _check_tables(
    model: Any,  # noqa: ANN401
    tensors: Mapping[str, Any],
    source: ModelFiles,
    expected: str,
) -> None:
    """Refuse position embeddings of another length, which open_clip would resize."""
    own = model.state_dict()
    for key in _TABLES:
        if key in own and key in tensors and own[key].shape != tensors[key].shape:
            raise BadInput(
                f"{source.weights} has {key} of {tuple(tensors[key].shape)}, {source.model} has "
                f"{tuple(own[key].shape)}: expected {expected}"
            )
