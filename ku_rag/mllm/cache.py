"""The reply cache: one file for each reply, named after the hash of its request.

The key covers the endpoint's address, the model, every parameter, the schema, all texts and the
bytes of all pictures. Only the reply is stored. A cache that cannot be read or written raises no
error: the request is sent again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ku_rag import folders
from ku_rag.errors import ReadOnly
from ku_rag.mllm.base import Reply
from ku_rag.store.layout import write_durably


def default_folder() -> Path:
    """Return $KU_CACHE/replies, by default ~/.cache/ku-rag/replies."""
    return folders.own() / "replies"


def digest(request: Mapping[str, Any]) -> str:
    """Return the key of a request: the SHA-256 of its JSON with sorted names."""
    return hashlib.sha256(_canonical(request)).hexdigest()


class ReplyCache:
    """A folder of replies. Several threads and processes may share it.

    Args:
        folder: the folder, `default_folder()` by default. It may be deleted at any time.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or default_folder()

    def get(self, key: str) -> Reply | None:
        """Return the reply stored under a key; None if there is none, or its file is damaged."""
        try:
            stored = json.loads(self._file(key).read_bytes())
            fields = stored["reply"]
            if stored["check"] != _check(key, fields):
                return None
            return replace(Reply.from_dict(fields), cached=True)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply atomically."""
        fields = reply.to_dict()
        stored = {"check": _check(key, fields), "reply": fields}
        file = self._file(key)
        with suppress(OSError, ReadOnly):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably([(file, _canonical(stored))])

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"


def _check(key: str, fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(key.encode() + _canonical(fields)).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
