"""Download the weights of known models, and verify them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ku_rag.errors import Corrupt, NotFound
from ku_rag.plugins import extra
from ku_rag.weights import files
from ku_rag.weights.catalogue import Model, known, models

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class WeightsCheck:
    """The result of `verify` for one model.

    Args:
        name: the model.
        path: its file or folder.
        ok: whether all hashes are right.
        problem: the first difference, else "".
    """

    name: str
    path: Path
    ok: bool
    problem: str

    def to_dict(self) -> dict[str, object]:
        """Return the fields of `ku models verify --json`."""
        return asdict(self) | {"path": str(self.path)}


def verify(names: Iterable[str] = ()) -> list[WeightsCheck]:
    """Compare the hashes of weights on this machine with the catalogue.

    Args:
        names: models that must be on this machine; none for all that are.

    Raises:
        NotFound: a named model is not known, or not on this machine.
    """
    chosen = [known(name) for name in names]
    results = []
    for model in chosen or models().values():
        path = files.locate(model)
        if path is not None:
            problem = files.defect(model, path, hashes=True)
            results.append(WeightsCheck(model.name, path, not problem, problem))
        elif chosen:
            files.find(model.name)
    return results


def pull(model: Model, *, progress: bool = False) -> Path:
    """Download the weights of a model, unless they are on this machine.

    `huggingface_hub` downloads into the cache of the Hub, pooch downloads other addresses into
    ku-rag's own folder. Sizes and hashes are verified.

    Args:
        model: the model.
        progress: show progress bars on stderr.

    Returns:
        The file, or the folder of a model with several files.

    Raises:
        NotFound: the download failed; the message says which file to put where.
        Corrupt: the downloaded or the existing file differs from the catalogue.
        MissingExtra: huggingface_hub or pooch is not installed.
    """
    path = files.locate(model)
    problem = files.defect(model, path, hashes=True) if path else ""
    if path and not problem:
        return path
    if path == files.own_path(model):
        raise Corrupt(files.replaced_message(model, path, problem))
    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    if offline.upper() in ("1", "ON", "YES", "TRUE"):
        raise NotFound(
            f"the weights of {model.name} are not here and HF_HUB_OFFLINE is set: unset it, or "
            f"{files.manual_step(model)}"
        )
    if model.repo:
        path = _download_from_hub(model, progress=progress)
    else:
        path = _download_from_url(model, progress=progress)
    if problem := files.defect(model, path, hashes=True):
        raise Corrupt(
            f"{problem}: delete it and run the command again, or {files.manual_step(model)}"
        )
    return path


def _download_from_hub(model: Model, *, progress: bool) -> Path:
    hub = extra("models", "huggingface_hub")
    if not progress:
        extra("models", "huggingface_hub.utils").disable_progress_bars()
    path = files.hub_path(model)
    for file, part in zip(model.files, files.parts(model, path), strict=True):
        try:
            hub.hf_hub_download(
                model.repo,
                file.path,
                revision=model.revision,
                cache_dir=files.hub_folder(),
                force_download=part.is_file() and files.sha256(part) != file.sha256,
            )
        except Exception as error:
            raise _failure(model, model.repo, error) from error
    return path


def _download_from_url(model: Model, *, progress: bool) -> Path:
    pooch = extra("models", "pooch")
    pooch.get_logger().setLevel("WARNING")
    downloader = pooch.HTTPDownloader(progressbar=progress, timeout=_TIMEOUT_S, chunk_size=1 << 20)
    path = files.own_path(model)
    for file, part in zip(model.files, files.parts(model, path), strict=True):
        url = f"{model.url}/{file.path}"
        try:
            pooch.retrieve(
                url, f"sha256:{file.sha256}", part.name, part.parent, downloader=downloader
            )
        except ValueError as error:
            raise Corrupt(
                f"{url} differs from the catalogue ({error}): {files.manual_step(model)}"
            ) from error
        except Exception as error:
            raise _failure(model, url, error) from error
    return path


def _failure(model: Model, source: str, error: Exception) -> NotFound:
    """Return the error of a download; the HTTP libraries raise errors of their own."""
    reason = str(error).partition("\n")[0]
    return NotFound(
        f"{source} cannot be downloaded ({reason}): check the network and run the command again, "
        f"or {files.manual_step(model)}"
    )
