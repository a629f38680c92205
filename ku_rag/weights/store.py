"""Where weights lie on this machine: our own folder, and the cache of the Hugging Face Hub."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ku_rag import folders
from ku_rag.errors import Corrupt, NotFound
from ku_rag.weights.catalogue import File, Model, known


def folder() -> Path:
    """Our own folder: $KU_CACHE/weights, by default ~/.cache/ku-rag/weights."""
    return folders.own() / "weights"


def hub() -> Path:
    """The cache that every program using the Hugging Face Hub shares: $HF_HOME/hub."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := os.environ.get(name):
            return Path(os.path.expandvars(given)).expanduser().absolute()
    home = os.environ.get("HF_HOME")
    if home:
        return Path(os.path.expandvars(home)).expanduser().absolute() / "hub"
    return folders.caches() / "huggingface" / "hub"


def own_path(model: Model) -> Path:
    """Where a model lies in our own folder, or would."""
    return folder() / model.local


def repository(model: Model) -> Path:
    """Where the Hub's cache keeps a model's repository, or would."""
    return hub() / f"models--{model.repo.replace('/', '--')}"


def parts(model: Model, path: Path) -> Iterator[tuple[File, Path]]:
    """The files of a model, and where each is if the model is at `path`."""
    for file in model.files:
        yield file, path / file.path if len(model.files) > 1 else path


def find(name: str) -> Path:
    """The file of a known model, or the folder of one that has several files.

    It is looked for in our own folder, then in the Hub's cache. Nothing is downloaded; sizes are
    compared, hashes are not (`verify` does that).

    Raises:
        NotFound: there is no such model, or its weights are not here.
        Corrupt: what lies in its place is of another size.
    """
    model = known(name)
    path = located(model)
    if path is None:
        raise NotFound(
            f"the weights of {model.name} are not here: run `ku models pull {model.name}`, or "
            f"{by_hand(model)}"
        )
    if wrong := resized(model, path):
        raise Corrupt(replaced(model, path, wrong))
    return path


def located(model: Model) -> Path | None:
    """Where a model is, whole copies first; None if no place has all of its files."""
    here = list(_copies(model))
    whole = (path for path in here if not resized(model, path))
    return next(whole, here[0] if here else None)


def _copies(model: Model) -> Iterator[Path]:
    """Each place that has all the files, whatever is in them."""
    own = own_path(model)
    if all(path.is_file() for _, path in parts(model, own)):
        yield own
    if not model.repo:
        return
    snapshots = repository(model) / "snapshots"
    others = sorted(path for path in snapshots.glob("*") if path.name != model.revision)
    for snapshot in (snapshots / model.revision, *others):
        path = snapshot if len(model.files) > 1 else snapshot / model.files[0].path
        # A file of another size under another commit is another version, not a damaged one.
        if all(one.is_file() for _, one in parts(model, path)) and (
            snapshot.name == model.revision or not resized(model, path)
        ):
            yield path


def resized(model: Model, path: Path) -> str:
    """Which file is not of its size, as a clause; "" if each is."""
    for file, part in parts(model, path):
        size = part.stat().st_size
        if size != file.size:
            return f"{part} has {size:,} bytes, expected {file.size:,}"
    return ""


def altered(model: Model, path: Path) -> str:
    """Which file is not what is known, as a clause; "" if every byte is right."""
    wrong = resized(model, path)
    if wrong:
        return wrong
    for file, part in parts(model, path):
        found = digest(part)
        if found != file.sha256:
            return f"{part} has the sha256 {found}, expected {file.sha256}"
    return ""


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def by_hand(model: Model) -> str:
    """What to do without a network, as a clause."""
    if len(model.files) > 1:
        return f"put the files of {model.source} into {own_path(model)}"
    return f"put {model.source} ({readable(model.size)}) at {own_path(model)}"


def replaced(model: Model, path: Path, wrong: str) -> str:
    """What to do about a file that is not what its name says, as a sentence."""
    return (
        f"{wrong}, so it is not the known {model.name}: move {path} away and run "
        f"`ku models pull {model.name}`, or give its path instead of the name to use it as it is"
    )


def readable(size: int) -> str:
    """Bytes as people say them: 7.07 MB, 1.71 GB."""
    value = float(size)
    for unit in ("bytes", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"
