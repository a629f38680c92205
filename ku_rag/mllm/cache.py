"""Caches of the user: replies, and which models see pictures.

The reply cache has one file for each reply, named after the hash of its request: the endpoint's
address, the model, every parameter, the schema, all texts and the bytes of all pictures. Only the
reply is stored, for 30 days. A cache that cannot be read or written raises no error: the request is
sent again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from ku_rag.errors import ReadOnly
from ku_rag.mllm.base import Reply
from ku_rag.settings import cache_folder
from ku_rag.store.layout import write_durably

_KEPT_S = 30 * 24 * 3600


def digest(request: Mapping[str, Any]) -> str:
    """Return the key of a request: the SHA-256 of its JSON with sorted names."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def load_vision_support(url: str, model: str) -> bool | None:
    """Return whether a model sees pictures, as it was learned last; None if it was not learned."""
    reply = ReplyCache().get(_vision_key(url, model))
    answer, _, day = (reply.text if reply else "").partition(" ")
    return answer == "yes" if answer and day in ("", date.today().isoformat()) else None


def store_vision_support(
    url: str, model: str, *, sees_pictures: bool, for_today: bool = False
) -> None:
    """Store whether a model sees pictures; what an error message says holds `for_today`."""
    answer = "yes" if sees_pictures else "no"
    day = f" {date.today().isoformat()}" if for_today else ""
    ReplyCache().put(_vision_key(url, model), Reply(answer + day))


def _vision_key(url: str, model: str) -> str:
    return digest({"sees pictures": [url, model]})


class ReplyCache:
    """A folder of replies, by default ~/.cache/ku-rag/replies, which may be deleted at any time."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or cache_folder() / "replies"

    def get(self, key: str) -> Reply | None:
        """Return the reply stored under a key; None if there is none, or it expired."""
        try:
            stored = {} if _has_expired(file := self._file(key)) else json.loads(file.read_bytes())
            return replace(Reply.from_dict(stored["reply"]), cached=True)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply atomically, and delete those of its folder that have expired."""
        file = self._file(key)
        with suppress(OSError, ReadOnly):
            for earlier in file.parent.glob("*"):
                if _has_expired(earlier):
                    earlier.unlink()
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably([(file, json.dumps({"reply": reply.to_dict()}).encode())])

    def clear(self) -> None:
        """Delete all replies."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"


def _has_expired(file: Path) -> bool:
    return file.stat().st_mtime < time.time() - _KEPT_S
