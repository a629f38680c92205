"""Searchers: plug-ins that search outside the knowledge base, such as the web.

None is built in. A package offers one under the entry point `ku_rag.searchers`; docs/planning.md
has an example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL.Image import Image

from ku_rag import arguments
from ku_rag.plugins import load


@dataclass(frozen=True, slots=True)
class SearcherResult:
    """A result of a searcher; the address, such as a URL, identifies it and is not fetched."""

    address: str
    title: str
    text: str


class Searcher(Protocol):
    """Searches outside the knowledge base. Several threads may call it."""

    def search(self, query: str, image: Image | None, k: int) -> Sequence[SearcherResult]:
        """Return at most k results, best first; an exception is reported in the plan."""
        ...


Searchers = Sequence[str] | Mapping[str, Searcher]
"""Names of installed searchers, or searchers by name."""


def load_searchers(specs: Searchers) -> dict[str, Searcher]:
    """Return searchers by name."""
    if not isinstance(specs, Mapping):
        return {name: load("searcher", {}, name) for name in arguments.texts(specs, "searchers")}
    for name, searcher in specs.items():
        arguments.implementation(searcher, f"the searcher {name!r}", "search", optional=False)
    return dict(specs)
