"""The stored bases of released versions."""

from __future__ import annotations

import tarfile
from pathlib import Path

FOLDER = Path(__file__).parent
VERSIONS = ("0.1.0", "0.2.0", "0.3.0")
OUTDATED = ("0.1.0", "0.2.0")
"""Versions whose bases have an older schema than those of 0.3.0."""
MADE_IN = "/tmp/ku-rag-bases/content"
"""The folder of the ingested files in the names of sources."""


def unpack(name: str, target: Path) -> Path:
    """Unpack an archive into a folder, and return the folder."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target
