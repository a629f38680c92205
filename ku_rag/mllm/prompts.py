"""Prompts: versioned Markdown templates, and retrieved text inserted into them as data.

A prompt file begins with `<!-- version N -->`, which is not sent. `$name` is a placeholder, `$$` a
dollar sign.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ku_rag.errors import BadInput, NotFound

_VERSION = re.compile(r"\A\s*<!--\s*version\s+(\S+)\s*-->[ \t]*\n?")
_REQUIRED = frozenset({"question", "data"})
_SPECIAL = re.compile("[<\x85\u2028\u2029]|\\[(?=/?[A-Z_]{3,}\\])")
"""Beginnings of the control tokens of chat templates (<|im_end|>, </s>, [INST] …), and ends of
lines that JSON does not escape."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The template of one turn, and its version: for a file of the user, with a digest."""

    name: str
    version: str
    text: str

    @property
    def label(self) -> str:
        """Name and version, as reported with an answer."""
        return f"{self.name} {self.version}"

    def fill(self, **values: str) -> str:
        """Return the text with the values filled in; a `$` in a value has no meaning."""
        return Template(self.text).substitute(values).strip()


def load_prompts(package: str, folder: Path | None = None) -> Mapping[str, Prompt]:
    """Load the prompts of a package, prompts/NAME.md, by name; NAME.md in `folder` replaces one.

    A replacement has the placeholders $question and $data if the package's prompt has them, and may
    have its others, else `BadInput`.
    """
    if folder and not folder.is_dir():
        raise NotFound(f"the folder of prompts {folder} is not there: make it, or set prompts")
    packaged = files(package).joinpath("prompts").iterdir()
    names = sorted(file.name for file in packaged if file.name.endswith(".md"))
    return {name[:-3]: _load(package, name, folder) for name in names}


def _load(package: str, name: str, folder: Path | None) -> Prompt:
    packaged = files(package).joinpath("prompts", name).read_text(encoding="utf-8")
    own, text, origin = folder and folder / name, packaged, ""
    if own and own.is_file():
        try:
            data = own.read_bytes()
            text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = f"cannot be read as UTF-8 ({error}): save it so"
            raise BadInput(f"the prompt {own} {reason}") from error
        _check(text, own, frozenset(Template(packaged).get_identifiers()))
        origin = f" (own, {hashlib.sha256(data).hexdigest()[:8]})"
    head = _VERSION.match(text)
    version = head[1] if head else "without version"
    return Prompt(name.removesuffix(".md"), version + origin, _VERSION.sub("", text))


def _check(text: str, path: Path, fields: frozenset[str]) -> None:
    if not _VERSION.sub("", text).strip():
        raise BadInput(f"the prompt {path} is empty: write it, or delete it to have the project's")
    template = Template(text)
    if not template.is_valid():
        raise BadInput(
            f"the prompt {path} holds a $ that names nothing: write $$ for a dollar sign"
        )
    identifiers = frozenset(template.get_identifiers())
    if missing := fields & _REQUIRED - identifiers:
        raise BadInput(f"the prompt {path} has no ${min(missing)}: say where it goes")
    if unknown := identifiers - fields:
        names = ", ".join(f"${field}" for field in sorted(fields)) or "none"
        raise BadInput(
            f"the prompt {path} has ${min(unknown)}, which nothing is filled into; there are: "
            f"{names}. Write $$ for a dollar sign"
        )


def without_control_tokens(text: str) -> str:
    """Return JSON with control tokens of chat templates written as escapes."""
    return _SPECIAL.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)


def fenced(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return retrieved data as JSON lines between two fences that the data cannot contain.

    JSON escapes line ends, so a text stays on its line. The fence is a hash of the data. Control
    tokens of chat templates are written as JSON escapes. Without data it returns "".
    """
    block = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    block = without_control_tokens(block)
    fence = f"===== {hashlib.sha256(block.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return f"{fence}\n{block}\n{fence}" if block else ""
