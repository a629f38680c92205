"""Getting the weights of known models, and checking those that are here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ku_rag.errors import Corrupt, NotFound
from ku_rag.plugins import extra
from ku_rag.weights import store
from ku_rag.weights.catalogue import Model, known, models
from ku_rag.weights.fetching import Moved, Transfer, fetch

# The Hub keeps every file above 10 MB by its sha256, and smaller ones by a git hash.
_LARGE = 10_000_000


@dataclass(frozen=True, slots=True)
class Checked:
    """What `verify` found.

    Args:
        name: the model.
        path: where it is.
        ok: every byte is right.
        problem: what is wrong, else "".
    """

    name: str
    path: Path
    ok: bool
    problem: str

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self) | {"path": str(self.path)}


def verify(names: Iterable[str] = ()) -> list[Checked]:
    """Hash the weights that are here.

    Args:
        names: models that must be here; none for every known one that is.

    Raises:
        NotFound: a named model is not known, or not here.
    """
    chosen = [known(name) for name in names]
    found = []
    for model in chosen or models().values():
        path = store.located(model)
        if path is not None:
            problem = store.altered(model, path)
            found.append(Checked(model.name, path, not problem, problem))
        elif chosen:
            store.find(model.name)
    return found


def pull(name: str, *, moved: Moved | None = None) -> Path:
    """Download the weights of a known model, unless they are here.

    Those of the Hugging Face Hub go to its cache, others to our own folder. Every byte is checked
    before a file gets its name.

    Args:
        name: the model.
        moved: told, as each file comes, its bytes that have come and those that it has.

    Returns:
        The file, or the folder of a model that has several.

    Raises:
        NotFound: there is no such model; or no network, and the message says what to put where.
        Corrupt: what came, or what lies in its place, is not that model.
        Locked: another process pulls it.
        MissingExtra: huggingface_hub is not installed, and the model comes from the Hub.
    """
    return obtain(known(name), moved)


def obtain(model: Model, moved: Moved | None = None) -> Path:
    """Download a model, as `pull` does, known or not."""
    here = store.located(model)
    if here is not None:
        wrong = store.altered(model, here)
        if not wrong:
            return here
        if here == store.own_path(model):
            raise Corrupt(store.replaced(model, here, wrong))
    if _offline():
        raise NotFound(
            f"the weights of {model.name} are not here and HF_HUB_OFFLINE is set: unset it, or "
            f"{store.by_hand(model)}"
        )
    return _from_hub(model, moved) if model.repo else _from_url(model, moved)


def _offline() -> bool:
    given = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return given.upper() in ("1", "ON", "YES", "TRUE")


def _from_url(model: Model, moved: Moved | None) -> Path:
    path = store.own_path(model)
    for file, part in store.parts(model, path):
        transfer = Transfer(f"{model.url}/{file.path}", file, store.by_hand(model))
        fetch(transfer, part, moved)
    return path


def _from_hub(model: Model, moved: Moved | None) -> Path:
    """Into the Hub's cache.

    huggingface_hub starts a download anew when its process was stopped, so a large file is fetched
    here, to the place in the cache that its hash gives it, and huggingface_hub then only has to
    enter it.
    """
    hub = extra("models", "huggingface_hub")
    cache = store.hub()
    snapshot = store.repository(model) / "snapshots" / model.revision
    for file in sorted(model.files, key=lambda one: -one.size):
        entered = snapshot / file.path
        blob = store.repository(model) / "blobs" / file.sha256
        for left in (entered, blob):
            if left.is_file() and store.digest(left) != file.sha256:
                left.resolve().unlink()
        if file.size > _LARGE and not blob.exists() and not entered.exists():
            url = hub.hf_hub_url(model.repo, file.path, revision=model.revision)
            token = hub.get_token() or ""
            fetch(Transfer(url, file, store.by_hand(model), token), blob, moved)
        with _silent(hub):
            try:
                hub.hf_hub_download(model.repo, file.path, revision=model.revision, cache_dir=cache)
            except Exception as error:
                # Its own errors, or those of the HTTP library under it, which changes.
                reason = str(error).partition("\n")[0]
                raise NotFound(
                    f"{model.repo} cannot be had ({reason}): go online and run it again, or "
                    f"{store.by_hand(model)}"
                ) from error
    path = snapshot if len(model.files) > 1 else snapshot / model.files[0].path
    if wrong := store.altered(model, path):
        raise Corrupt(f"{wrong}: run it again, or {store.by_hand(model)}")
    return path


@contextmanager
def _silent(hub: Any) -> Iterator[None]:  # noqa: ANN401 - a module
    """No bars from huggingface_hub, which shows one for each small file."""
    shown = not hub.utils.are_progress_bars_disabled()
    if shown:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            hub.utils.enable_progress_bars()
