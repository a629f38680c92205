"""Files of weights on this machine, given by a path or by the name of a known model."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ku_rag import folders
from ku_rag.errors import BadInput, Corrupt, NotFound
from ku_rag.weights.catalogue import Model, known, models


def own_folder() -> Path:
    """Return ku-rag's own folder: $KU_CACHE/weights, by default ~/.cache/ku-rag/weights."""
    return folders.own() / "weights"


def hub_folder() -> Path:
    """Return the cache of the Hugging Face Hub: $HF_HUB_CACHE, or $HF_HOME/hub."""
    home = os.environ.get("HF_HOME") or folders.caches() / "huggingface"
    given = os.environ.get("HF_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(given)).expanduser().absolute()


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

    Args:
        model: the model.
        path: its file or folder.
        hashes: compare the SHA-256 of each file, not its size only.
    """
    for file, part in zip(model.files, parts(model, path), strict=True):
        if (size := part.stat().st_size) != file.size:
            return f"{part} has {size:,} bytes, expected {file.size:,}"
        if hashes and (digest := sha256(part)) != file.sha256:
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
            f"{manual_step(model)}"
        )
    if problem := defect(model, path, hashes=False):
        raise Corrupt(replaced_message(model, path, problem))
    return path


def manual_step(model: Model) -> str:
    """Return what to do without a network, as a clause."""
    if len(model.files) > 1:
        return f"put the files of {model.source} into {own_path(model)}"
    return f"put {model.source} ({format_size(model.size)}) at {own_path(model)}"


def replaced_message(model: Model, path: Path, problem: str) -> str:
    """Return the message about a file that differs from the catalogue."""
    return (
        f"{problem}, so it is not the known {model.name}: move {path} away and run "
        f"`ku models pull {model.name}`, or give its path instead of the name to use it as it is"
    )


def weights_file(argument: str, expected: str) -> Path:
    """Return the absolute path of a file of weights; nothing is downloaded.

    Args:
        argument: a path ("~" is the home folder), or the name of a known model.
        expected: what the file should be, for messages.

    Raises:
        NotFound: there is no such file, or the known model is not on this machine.
        BadInput: it is a folder, or empty.
        Corrupt: the file of the known model has the wrong size.
    """
    if not Path(argument).expanduser().exists() and argument in models():
        return find(argument)
    path = Path(argument).expanduser().absolute()
    if not path.exists():
        raise NotFound(
            f"there is no file {path}: expected {expected}, or the name of a model that "
            "`ku models list` shows; nothing is downloaded here"
        )
    if not path.is_file():
        raise BadInput(f"{path} is a folder: expected {expected}; give the path of the file itself")
    if not path.stat().st_size:
        raise BadInput(f"{path} is empty (0 bytes): expected {expected}; copy the file again")
    return path


def content_hash(*paths: Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of one file, or of several hashes."""
    digests = [sha256(path) for path in paths]
    whole = digests[0] if len(paths) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return whole[:16]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def format_size(size: int) -> str:
    """Return a number of bytes in decimal units: 7.07 MB, 1.71 GB."""
    value = float(size)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"
