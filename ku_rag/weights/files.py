"""Files of weights that somebody names: by a path, or as a known model."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ku_rag.errors import BadInput, NotFound
from ku_rag.weights.catalogue import models
from ku_rag.weights.store import find


def weights_file(argument: str, expected: str) -> Path:
    """The absolute path of a file of weights; nothing is downloaded.

    Args:
        argument: a path ("~" is the home folder), or the name of a known model.
        expected: what it should be, for messages.

    Raises:
        NotFound: there is no such file, or the known model was not pulled.
        BadInput: it is a folder, or empty.
        Corrupt: the known model's file is of another size.
    """
    if not Path(argument).expanduser().exists() and argument in models():
        return existing_file(str(find(argument)), expected)
    return existing_file(argument, expected)


def existing_file(argument: str, expected: str) -> Path:
    """The absolute path of a file that is there and holds something.

    Args:
        argument: a path ("~" is the home folder).
        expected: what it should be, for messages.

    Raises:
        NotFound: there is nothing.
        BadInput: it is no file, or an empty one.
    """
    path = Path(argument).expanduser().absolute()
    if not path.exists():
        raise NotFound(
            f"there is no file {path}: expected {expected}, or the name of a model that "
            "`ku models list` knows; nothing is downloaded here"
        )
    if not path.is_file():
        raise BadInput(f"{path} is a folder: expected {expected}; give the path of the file itself")
    if not path.stat().st_size:
        raise BadInput(f"{path} is empty (0 bytes): expected {expected}; copy the file again")
    return path


def content_hash(*paths: Path) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a file, or of those of several files."""
    found = []
    for path in paths:
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    whole = found[0] if len(found) == 1 else hashlib.sha256("".join(found).encode()).hexdigest()
    return whole[:16]
