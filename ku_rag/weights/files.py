"""Files of weights, by a path or the name of a known model or profile: find, verify, download."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from ku_rag.arguments import file_hash, regular_file
from ku_rag.errors import BadInput, Corrupt, NotFound
from ku_rag.plugins import extra
from ku_rag.settings import cache_folder, user_caches
from ku_rag.weights.catalogue import Model, known, models

# The paper gives k = 3 (section 4.3); the thresholds of eq. 6 are in its official code: cosine
# 0.19, boxes of at least 50 px, pixels outside a mask set to black.
_PUBLISHED: dict[str, object] = {
    "region_threshold": 0.19,
    "region_min_side": 50,
    "region_background": "mask",
    "k_units": 3,
    "k_chunks": 3,
}
PROFILES: dict[str, dict[str, object]] = {
    "paper": {"encoder": "longclip:longclip-L", "segmenter": "yolo:yolov8x-seg", **_PUBLISHED},
    "fast": {"encoder": "longclip:longclip-B", "segmenter": "yolo:yolov8n-seg", **_PUBLISHED},
}
"""The settings of every profile, whether or not its weights are on this machine."""

_TIMEOUT_S = 30.0
_MAX_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class WeightsCheck:
    """The result of `verify` for one model: its file or folder, and the first difference or ""."""

    name: str
    path: Path
    problem: str

    def to_dict(self) -> dict[str, object]:
        """Return the fields of `ku models verify --json`."""
        path, ok = str(self.path), not self.problem
        return {"name": self.name, "path": path, "ok": ok, "problem": self.problem}


def own_folder() -> Path:
    """Return ku-rag's own folder: $KU_CACHE/weights, by default ~/.cache/ku-rag/weights."""
    return cache_folder() / "weights"


def hub_folder() -> Path:
    """Return the cache of the Hugging Face Hub: $HF_HUB_CACHE, or $HF_HOME/hub."""
    home = os.environ.get("HF_HOME") or user_caches() / "huggingface"
    folder = os.environ.get("HF_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(folder)).expanduser().absolute()


def own_path(model: Model) -> Path:
    """Return the path of a model in ku-rag's own folder."""
    return own_folder() / model.local


def hub_path(model: Model) -> Path:
    """Return the path of a model in the cache of the Hugging Face Hub."""
    repository = hub_folder() / f"models--{model.repo.replace('/', '--')}"
    snapshot = repository / "snapshots" / model.revision
    return snapshot if len(model.files) > 1 else snapshot / model.files[0].path


def locate(model: Model) -> Path | None:
    """Return the path of a model that has all files, preferably of the right sizes; else None."""
    paths = [own_path(model)] + ([hub_path(model)] if model.repo else [])
    stored = [path for path in paths if all(part.is_file() for part in parts(model, path))]
    return min(stored, key=lambda path: bool(defect(model, path, hashes=False)), default=None)


def parts(model: Model, path: Path) -> list[Path]:
    """Return the paths of a model's files, in the order of `model.files`."""
    return [path / file.path for file in model.files] if len(model.files) > 1 else [path]


def defect(model: Model, path: Path, *, hashes: bool) -> str:
    """Return the first difference from the catalogue as a clause; "" if there is none.

    `hashes` compares the SHA-256 of each file, not its size only.
    """
    for file, part in zip(model.files, parts(model, path), strict=True):
        if (size := part.stat().st_size) != file.size:
            return f"{part} has {size:,} bytes, expected {file.size:,}"
        if hashes and (digest := file_hash(part)) != file.sha256:
            return f"{part} has the sha256 {digest}, expected {file.sha256}"
    return ""


def find(name: str) -> Path:
    """Return the file of a known model, or the folder of one with several files.

    ku-rag's own folder comes first, then the cache of the Hub. Sizes are compared, hashes are not.

    Raises:
        NotFound: there is no such model, or its weights are not on this machine.
        Corrupt: a file has the wrong size.
    """
    model = known(name)
    path = locate(model)
    if path is None:
        raise NotFound(
            f"the weights of {model.name} are not here: run `ku models pull {model.name}`, or "
            f"{_manual_step(model)}"
        )
    if problem := defect(model, path, hashes=False):
        raise Corrupt(_replaced_message(model, path, problem))
    return path


def verify(names: Iterable[str] = ()) -> list[WeightsCheck]:
    """Compare the hashes of weights on this machine with the catalogue, of all or of some models.

    Raises:
        NotFound: a named model is not known, or not on this machine.
    """
    chosen = [known(name) for name in names]
    pairs = [
        (model, locate(model) or (find(model.name) if chosen else None))
        for model in chosen or models().values()
    ]
    return [
        WeightsCheck(model.name, path, defect(model, path, hashes=True))
        for model, path in pairs
        if path
    ]


def pull(model: Model, *, progress: bool = False) -> Path:
    """Download the weights of a model, unless they are on this machine; return the file or folder.

    `huggingface_hub` downloads into the cache of the Hub, pooch downloads other addresses into
    ku-rag's own folder. Sizes and hashes are verified.

    Raises:
        NotFound: the download failed; the message says which file to put where.
        Corrupt: the downloaded or the existing file differs from the catalogue.
        MissingExtra: huggingface_hub or pooch is not installed.
    """
    path = locate(model)
    problem = defect(model, path, hashes=True) if path else ""
    if path and not problem:
        return path
    if path == own_path(model):
        raise Corrupt(_replaced_message(model, path, problem))
    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    if offline.upper() in ("1", "ON", "YES", "TRUE"):
        raise NotFound(
            f"the weights of {model.name} are not here and HF_HUB_OFFLINE is set: unset it, or "
            f"{_manual_step(model)}"
        )
    path = hub_path(model) if model.repo else own_path(model)
    library = extra("models", "huggingface_hub" if model.repo else "pooch")
    try:
        _download(model, path, library, progress=progress, again=bool(problem))
    except Exception as error:  # the HTTP libraries raise errors of their own
        reason = str(error).partition("\n")[0]
        raise NotFound(
            f"{model.source} cannot be downloaded ({reason}): check the network and run the "
            f"command again, or {_manual_step(model)}"
        ) from error
    if problem := defect(model, path, hashes=True):
        raise Corrupt(f"{problem}: delete it and run the command again, or {_manual_step(model)}")
    return path


def _download(model: Model, path: Path, library: Any, *, progress: bool, again: bool) -> None:  # noqa: ANN401 - a module
    """Download the files of a model; `again` replaces those in the cache of the Hub."""
    if not model.repo:
        library.get_logger().setLevel("WARNING")
        http = library.HTTPDownloader(progressbar=progress, timeout=_TIMEOUT_S, chunk_size=1 << 20)
        for file, part in zip(model.files, parts(model, path), strict=True):
            url, expected = f"{model.url}/{file.path}", f"sha256:{file.sha256}"
            library.retrieve(url, expected, part.name, part.parent, downloader=http)
        return
    if not progress:
        extra("models", "huggingface_hub.utils").disable_progress_bars()
    for file in model.files:
        library.hf_hub_download(
            model.repo,
            file.path,
            revision=model.revision,
            cache_dir=hub_folder(),
            force_download=again,
        )


def _manual_step(model: Model) -> str:
    """Return what to do without a network, as a clause."""
    if len(model.files) > 1:
        return f"put the files of {model.source} into {own_path(model)}"
    return f"put {model.source} ({decimal(model.size, precision=2)}) at {own_path(model)}"


def _replaced_message(model: Model, path: Path, problem: str) -> str:
    """Return the message about a file that differs from the catalogue."""
    return (
        f"{problem}, so it is not the known {model.name}: move {path} away and run "
        f"`ku models pull {model.name}`, or give its path instead of the name to use it as it is"
    )


def weights_file(argument: str, expected: str) -> Path:
    """Return the absolute path of a file of weights; nothing is downloaded.

    The argument is a path ("~" is the home folder), or the name of a known model. `expected` is
    what the file should be, for messages.

    Raises:
        NotFound: there is no such file, or the known model is not on this machine.
        BadInput: it is a folder, or empty.
        Corrupt: the file of the known model has the wrong size.
    """
    if not Path(argument).expanduser().exists() and argument in models():
        return find(argument)
    what = f"{expected}, or the name of a model that `ku models list` shows"
    path = regular_file(Path(argument).expanduser().absolute(), what, most=_MAX_BYTES)
    if not path.stat().st_size:
        raise BadInput(f"{path} is empty (0 bytes): expected {expected}; copy the file again")
    return path


def content_hash(*paths: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of one file, or of several hashes."""
    digests = [file_hash(path) for path in paths]
    whole = digests[0] if len(paths) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return whole[:16]


def profile(name: str) -> dict[str, object]:
    """Return the settings of a profile; `NotFound` if its weights are not on this machine."""
    settings = dict(PROFILES[name])
    needed = [known(str(settings[role])) for role in ("encoder", "segmenter")]
    if missing := " ".join(model.name for model in needed if locate(model) is None):
        raise NotFound(
            f"the profile {name!r} needs weights that are not here: run `ku models pull {missing}`;"
            " `ku models path NAME` says how to get one without a network"
        )
    return settings
