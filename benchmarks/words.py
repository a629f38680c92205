"""Words of benchmark pictures, which are read once and stored in benchmarks/.cache."""

from __future__ import annotations

import atexit
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from PIL.Image import Image

from ku_rag.recognisers import CachedRecogniser
from ku_rag.types import Word


class StoredWords(CachedRecogniser):
    """RapidOCR with the words of earlier runs."""

    def __init__(self) -> None:
        super().__init__("rapidocr")
        name = f"words-{self.fingerprint.replace(':', '-')}.json"
        self._file = Path(__file__).parent / ".cache" / name
        self._stored = json.loads(self._file.read_text("utf-8")) if self._file.exists() else {}
        atexit.register(self._write)

    def read(self, image: Image) -> list[Word]:
        """See `Recogniser`."""
        digest = hashlib.sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()
        if digest not in self._stored:
            self._stored[digest] = [asdict(word) for word in super().read(image)]
        return [Word(**fields | {"box": tuple(fields["box"])}) for fields in self._stored[digest]]

    def _write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(self._stored, ensure_ascii=False), "utf-8")
