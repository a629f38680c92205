"""Prompts: Markdown files with a version, and what was found put into them as data.

A prompt file begins with `<!-- version N -->`, which is not sent; `$name` stands for what is filled
in, `$$` for a dollar sign.
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
_SPECIAL = re.compile(r"<|\[(?=/?[A-Z_]{3,}\])")
"""How the marks begin by which chat templates tell turns apart: <|im_end|>, </s>, [INST] …"""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The words of one turn.

    Args:
        name: of its file.
        version: what its first line says, and for a file of the user's own a digest of it.
        text: a template.
    """

    name: str
    version: str
    text: str

    @property
    def label(self) -> str:
        """Name and version, as an answer tells them."""
        return f"{self.name} {self.version}"

    def fill(self, **values: str) -> str:
        """The words with the values in their places; nothing in a value is a place."""
        return Template(self.text).substitute(values).strip()


@dataclass(frozen=True, slots=True)
class Places:
    """What is filled into a prompt.

    Args:
        needed: every version of it has these.
        others: it may have these.
    """

    needed: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


def load_prompt(package: str, name: str, places: Places, folder: Path | None = None) -> Prompt:
    """The prompt prompts/NAME.md of a package, or the file NAME.md in `folder` that replaces it.

    Args:
        package: such as "ku_rag.answering".
        name: of the prompt.
        places: what is filled in.
        folder: of the user's own prompts.

    Raises:
        NotFound: the folder is not there.
        BadInput: the file cannot be read, has no place for what it needs, or one for what is not
            known.
    """
    own = folder and folder / f"{name}.md"
    if folder and not folder.is_dir():
        raise NotFound(f"the folder of prompts {folder} is not there: make it, or set prompts")
    if not own or not own.is_file():
        packaged = files(package).joinpath("prompts", f"{name}.md")
        return _prompt(name, packaged.read_text(encoding="utf-8"), digest="")
    try:
        data = own.read_bytes()
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the prompt {own} cannot be read as UTF-8 ({error}): save it so") from error
    _check(places, text, own)
    return _prompt(name, text, digest=hashlib.sha256(data).hexdigest()[:8])


def _prompt(name: str, text: str, *, digest: str) -> Prompt:
    head = _VERSION.match(text)
    version = head[1] if head else "without version"
    return Prompt(
        name,
        f"{version} (own, {digest})" if digest else version,
        text[head.end() :] if head else text,
    )


def _check(places: Places, text: str, path: Path) -> None:
    if not _VERSION.sub("", text).strip():
        raise BadInput(f"the prompt {path} is empty: write it, or delete it to have the project's")
    template = Template(text)
    if not template.is_valid():
        raise BadInput(
            f"the prompt {path} holds a $ that names nothing: write $$ for a dollar sign"
        )
    found = frozenset(template.get_identifiers())
    if missing := places.needed - found:
        raise BadInput(f"the prompt {path} has no ${min(missing)}: say where it goes")
    expected = places.needed | places.others
    if unknown := found - expected:
        known = ", ".join(f"${one}" for one in sorted(expected)) or "none"
        raise BadInput(
            f"the prompt {path} has ${min(unknown)}, which nothing is filled into; there are: "
            f"{known}. Write $$ for a dollar sign"
        )


def fenced(lines: Iterable[Mapping[str, Any]]) -> str:
    """What was found, as JSON lines between two equal lines that no text in it can be.

    A text cannot leave its line, for JSON has no line ends in strings; it cannot hold the fence,
    which is a hash over all of it; and the marks by which chat templates tell turns apart are
    written as JSON escapes.
    """
    block = "\n".join(_line(one) for one in lines)
    fence = f"===== {hashlib.sha256(block.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return f"{fence}\n{block}\n{fence}"


def _line(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Line ends that JSON leaves as they are; a carriage return and its like it escapes itself.
    for end in "\x85\u2028\u2029":
        text = text.replace(end, f"\\u{ord(end):04x}")
    return _SPECIAL.sub(lambda mark: f"\\u{ord(mark[0]):04x}", text)
