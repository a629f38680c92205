"""The searches of a plan, by the ordinary functions of retrieval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import TimeoutError as Timeout
from multiprocessing.pool import ThreadPool
from pathlib import Path

from PIL.Image import Image

from ku_rag.answering import evidence_retrieval
from ku_rag.errors import KuError
from ku_rag.mllm.base import MeteredMLLM
from ku_rag.papers.cogplanner.plan import Hit, PlannedSearch, PlanSettings
from ku_rag.papers.cogplanner.searchers import Searcher
from ku_rag.papers.graphrag import graph_evidence
from ku_rag.retrieval.base import Matched, Retrieval
from ku_rag.retrieval.matching import match
from ku_rag.store.connection import snapshot
from ku_rag.types import Box, Evidence, PathEvidence

_SEARCHER_TIMEOUT = 30.0
"""Seconds after which a searcher is abandoned."""

_WORKERS = 8
"""Queries that are searched for at the same time."""
_LONGEST_TITLE = 300
"""Characters of a title or an error of a searcher."""

Piece = Evidence | PathEvidence


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """A search as the plan records it, its matched units, and the evidence of its hits."""

    search: PlannedSearch
    pieces: Sequence[Piece] = ()
    matched: Matched = field(default_factory=Matched)


@dataclass(frozen=True, slots=True)
class Searches:
    """The resources that the searches of a plan share; `base` is called by each thread."""

    base: Callable[[], Retrieval]
    picture: Image | None
    mllm: MeteredMLLM | None
    prompts: Path | None
    settings: PlanSettings
    searchers: Mapping[str, Searcher]

    def run(
        self, action: str, queries: Sequence[str], region: Box | None, seconds: float | None
    ) -> list[SearchOutcome]:
        """Search for queries at the same time; one that fails or takes too long has an error."""
        limit = seconds
        if action.startswith("searcher:"):
            limit = _SEARCHER_TIMEOUT if seconds is None else min(seconds, _SEARCHER_TIMEOUT)
        if len(queries) == 1 and limit is None:
            return [self._run(action, queries[0], region)]
        end = None if limit is None else time.monotonic() + limit
        outcomes = []
        with ThreadPool(min(len(queries), _WORKERS)) as pool:
            waiting = [pool.apply_async(self._run, (action, query, region)) for query in queries]
            for query, call in zip(queries, waiting, strict=True):
                try:
                    outcomes.append(call.get(end and max(0.0, end - time.monotonic())))
                except Timeout:
                    error = f"no result within {limit:g} seconds"
                    outcomes.append(SearchOutcome(PlannedSearch(query, error=error)))
        return outcomes

    def _run(self, action: str, query: str, region: Box | None) -> SearchOutcome:
        started = time.perf_counter()
        try:
            if action.startswith("searcher:"):
                outcome = self._search_outside(action.partition(":")[2], query)
            else:
                outcome = self._search_base(action, query, region)
        except KuError as error:
            outcome = SearchOutcome(PlannedSearch(query, error=str(error)))
        took = round((time.perf_counter() - started) * 1000, 2)
        return replace(outcome, search=replace(outcome.search, milliseconds=took))

    def _search_base(self, action: str, query: str, region: Box | None) -> SearchOutcome:
        base, settings = self.base(), self.settings
        by_picture = action in ("image", "region")
        picture = self.picture if by_picture else None
        if picture and action == "region" and region:
            picture = picture.crop(region)
        with snapshot(base.database.connection):
            matched = match(base, picture, query, settings.images)
            pieces: Sequence[Piece] = ()
            if action == "graph":
                pieces = evidence_retrieval.paths(base, query, matched, first_label=1).evidence
            elif action != "evidence-graph":
                pieces, _ = evidence_retrieval.evidence(base, query, matched, settings.k)
        if action == "evidence-graph":
            graph = graph_evidence.build_graph(base, query, matched, self.mllm, self.prompts)
            pieces = graph_evidence.statements(graph.graph, first_label=1)
        if action == "region" and region and matched.region:
            # From pixels of the crop to those of the picture.
            x, y, (x0, y0, x1, y1) = *region[:2], matched.region.box
            box = x0 + x, y0 + y, x1 + x, y1 + y
            matched = replace(matched, region=replace(matched.region, box=box))
        names = tuple(unit.name for unit in matched.units)
        files = {unit.id: unit.image for unit in matched.units if by_picture}
        search = PlannedSearch(query, tuple(_hit(piece, files) for piece in pieces), names)
        return SearchOutcome(search, pieces, matched)

    def _search_outside(self, name: str, query: str) -> SearchOutcome:
        try:
            results = self.searchers[name].search(query, self.picture, self.settings.k)
            longest = self.settings.longest_text
            texts = [
                (str(hit.address), str(hit.title)[:_LONGEST_TITLE], str(hit.text)[:longest])
                for hit in islice(results, self.settings.k)
            ]
        except Exception as error:  # a plug-in may raise anything
            problem = f"the searcher {name} failed: {type(error).__name__}: {error.args}"
            return SearchOutcome(PlannedSearch(query, error=problem[:_LONGEST_TITLE]))
        hits = [Hit(f"searcher:{name}:{address}", title, text) for address, title, text in texts]
        pieces = [
            Evidence("", -n, (), address, text, 1 / n, (), (title,))
            for n, (address, title, text) in enumerate(texts, 1)
        ]
        return SearchOutcome(PlannedSearch(query, tuple(hits)), pieces)


def _hit(piece: Piece, files: Mapping[str, str | None]) -> Hit:
    if isinstance(piece, PathEvidence):
        return Hit(f"path:{piece.text}", piece.entities[0], piece.text)
    image = next((files[owner] for owner in piece.owners if owner in files), None)
    return Hit(f"chunk:{piece.chunk}", piece.origin, piece.text, image, piece.owners)
