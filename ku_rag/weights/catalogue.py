"""The models that ku-rag knows: what they are for, where they come from, what they hash to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ku_rag.errors import NotFound


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model.

    Args:
        path: its name at the source, folders separated by "/".
        size: bytes.
        sha256: of its content, 64 hexadecimal digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model whose weights are known to the byte.

    Args:
        name: what it is called here.
        purpose: "encoder", "sentence" (an encoder of texts alone) or "segmenter".
        spec: the setting that uses it, such as "longclip:longclip-L".
        licence: of the weights, as those who publish them state it.
        local: the file that it is in our own folder, or the folder if it has several files.
        files: all that it needs.
        repo: its repository on the Hugging Face Hub; "" if it is not from there.
        revision: the commit of that repository.
        url: the address above its files, where there is no repository.
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
        """Where a person gets it: the address of its file, or of the folder of its files."""
        base = f"https://huggingface.co/{self.repo}" if self.repo else self.url
        if len(self.files) > 1:
            return f"{base}/tree/{self.revision}"
        kind = f"/resolve/{self.revision}" if self.repo else ""
        return f"{base}{kind}/{self.files[0].path}"

    def to_dict(self) -> dict[str, object]:
        """For JSON; a model of one file has its sha256 here, too."""
        return {
            "name": self.name,
            "purpose": self.purpose,
            "spec": self.spec,
            "size": self.size,
            "licence": self.licence,
            "source": self.source,
            "sha256": self.files[0].sha256 if len(self.files) == 1 else None,
            "files": [
                {"path": file.path, "size": file.size, "sha256": file.sha256} for file in self.files
            ],
        }


@cache
def models() -> dict[str, Model]:
    """Every known model by name."""
    text = files("ku_rag.weights").joinpath("catalogue.json").read_text(encoding="utf-8")
    return {
        name: Model(name=name, **{**entry, "files": tuple(File(**one) for one in entry["files"])})
        for name, entry in json.loads(text).items()
    }


def known(name: str) -> Model:
    """The model of that name, or that the setting `name` uses.

    Raises:
        NotFound: it is none of the known ones.
    """
    for model in models().values():
        if name in (model.name, model.spec):
            return model
    raise NotFound(
        f"{name!r} is neither a file nor a known model: give the path of its weights, or one of "
        f"{', '.join(models())}"
    )
