"""Recognisers read the words printed in pictures."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from PIL.Image import Image

from ku_rag.errors import reason
from ku_rag.pictures import fit_picture, scaled
from ku_rag.plugins import load
from ku_rag.types import Word

DEFAULT = "rapidocr" if find_spec("rapidocr") else "none"
"""The recogniser of a new base."""
_OWN = {"rapidocr": "ku_rag.recognisers.rapid:RapidRecogniser"}
_REMEMBERED = 256
_log = logging.getLogger("ku_rag")


class Recogniser(Protocol):
    """Reads the words printed in a picture; installed packages offer theirs as plug-ins."""

    fingerprint: str
    """Identifies the models and their parameters."""

    def read(self, image: Image) -> list[Word]:
        """Return the words or lines in an RGB picture, in reading order."""


class CachedRecogniser:
    """Reads each picture once, by its content; `spec` is explained in `ku_rag.plugins.load`.

    A picture on which the recogniser fails has no words, and a warning is logged.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._recogniser: Recogniser = load("recogniser", _OWN, spec)
        self.fingerprint = self._recogniser.fingerprint
        self._words: dict[bytes, list[Word] | None] = {}

    def read(self, image: Image) -> list[Word]:
        """See `Recogniser`."""
        return self._read(image) or []

    def read_file(self, source: Path | bytes) -> tuple[str, list[Word]] | None:
        """Return the fingerprint, and the words in a file or its content; boxes fit its size.

        Returns:
            None if the recogniser fails.
        """
        picture, size = fit_picture(source)
        scale, words = max(size) / max(picture.size), self._read(picture)
        if words is None:
            return None
        return self.fingerprint, [replace(word, box=scaled(word.box, scale)) for word in words]

    def _read(self, image: Image) -> list[Word] | None:
        digest = hashlib.sha256(f"{image.size}".encode() + image.tobytes()).digest()
        remembered = self._words  # another thread may replace it
        if digest not in remembered:
            if len(remembered) >= _REMEMBERED:
                remembered = self._words = {}
            try:
                remembered[digest] = [replace(word) for word in self._recogniser.read(image)]
            except Exception as error:  # of a network, or of a plug-in
                remembered[digest] = None
                _log.warning(
                    "the recogniser %s failed on a picture of %d x %d pixels (%s: %s)",
                    *(self._spec, *image.size, type(error).__name__, reason(error)),
                )
        return remembered[digest]
