"""The known models: purpose, source, sizes and hashes of their weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files

from ku_rag.errors import NotFound


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model.

    Args:
        path: its name at the source; "/" separates folders.
        size: bytes.
        sha256: of its content, 64 hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model with known weights.

    Args:
        purpose: "encoder", "sentence" (an encoder of texts only) or "segmenter".
        spec: the setting that uses it, such as "longclip:longclip-L".
        licence: of the weights, as published.
        local: its file in ku-rag's own folder, or its folder if it has several files.
        files: all files that it needs.
        repo: its repository on the Hugging Face Hub; "" if it has none.
        revision: the commit of that repository.
        url: the address of the folder of its files, if it has no repository.
    """

    name: str
    purpose: str
    spec: str
    licence: str
    local: str
    files: tuple[File, ...]
    repo: str = ""
    revision: str = ""
    url: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def source(self) -> str:
        """The address of its file, or of the folder of its files."""
        base = f"https://huggingface.co/{self.repo}" if self.repo else self.url
        if len(self.files) > 1:
            return f"{base}/tree/{self.revision}"
        kind = f"/resolve/{self.revision}" if self.repo else ""
        return f"{base}{kind}/{self.files[0].path}"

    def to_dict(self) -> dict[str, object]:
        """Return the fields of `ku models list --json`; `sha256` is that of a single file."""
        names = ("name", "purpose", "spec", "size", "licence", "source")
        return {name: getattr(self, name) for name in names} | {
            "sha256": self.files[0].sha256 if len(self.files) == 1 else None,
            "files": [asdict(file) for file in self.files],
        }


@cache
def models() -> dict[str, Model]:
    """Return the known models by name."""
    text = files("ku_rag.weights").joinpath("catalogue.json").read_text(encoding="utf-8")
    return {
        name: Model(name=name, **{**entry, "files": tuple(File(**file) for file in entry["files"])})
        for name, entry in json.loads(text).items()
    }


def known(name: str) -> Model:
    """Return the model with a name, or with the setting `name`; `NotFound` if there is none."""
    for model in models().values():
        if name in (model.name, model.spec):
            return model
    raise NotFound(
        f"{name!r} is neither a file nor a known model: give the path of its weights, or one of "
        f"{', '.join(models())}"
    )
