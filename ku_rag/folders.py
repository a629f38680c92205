"""Where ku-rag keeps what belongs to a user and to no knowledge base."""

from __future__ import annotations

import os
from pathlib import Path


def caches() -> Path:
    """The folder of the user's caches: $XDG_CACHE_HOME, by default ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()


def own() -> Path:
    """Our own folder there: $KU_CACHE, by default ku-rag in `caches`."""
    given = os.environ.get("KU_CACHE")
    return Path(given).expanduser().absolute() if given else caches() / "ku-rag"
