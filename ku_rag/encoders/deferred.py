"""An encoder that is loaded at its first use, so that listing units needs no model."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from ku_rag.encoders.base import Encoder, is_same
from ku_rag.errors import Mismatch, NotFound


@dataclass(eq=False)
class Deferred:
    """The encoder of an existing knowledge base; see `Encoder`.

    All attributes but fingerprint, dim and `finds_regions` are those of the loaded encoder. They
    raise what `load` raises, and Mismatch if the loaded encoder has another fingerprint.

    Args:
        whole: spec of the base's encoder, which may be a pair with this one.
        find: returns its class, which needs no weights.
    """

    spec: str
    whole: str
    fingerprint: str
    dim: int
    find: Callable[[], type]
    load: Callable[[], Encoder]
    _loaded: Encoder | None = None
    _loading: Lock = field(default_factory=Lock)

    @property
    def finds_regions(self) -> bool:
        """What its class states; False if it is not installed."""
        try:
            return bool(getattr(self.find(), "finds_regions", False))
        except (ImportError, NotFound):
            return False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of an encoder
        with self._loading:
            if self._loaded is None:
                loaded = self.load()
                if not is_same(loaded.fingerprint, self.fingerprint):
                    raise Mismatch(
                        f"{self.spec} is {loaded.fingerprint} now, the knowledge base was made "
                        f"with {self.fingerprint}: put the old weights back (on the server, if it "
                        "runs on one), or bring the base over with "
                        f"`ku reindex --encoder {shlex.quote(self.whole)}`"
                    )
                self._loaded = loaded
        return getattr(self._loaded, name)
