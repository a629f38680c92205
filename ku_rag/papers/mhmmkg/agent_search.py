"""The multi-agent retriever on the graph (MH-MMKG, section 4.1, eq. 5 to 10).

The search starts at the topic entity and proceeds breadth first. In each round the expansion agent
selects among the relations of all open entities, and the validation agent judges the paths that
this extends. Entities reached for the first time are open in the next round, unless a path to them
is sufficient. A relation to an entity reached before belongs to the sub-graph, and its path is
validated, but no entity is opened twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.search_types import (
    GraphSearchResult,
    Query,
    SearchLimits,
    TraceEntry,
    left_out,
    most_similar,
)
from ku_rag.papers.mhmmkg.mllm_agents import ModelAgents
from ku_rag.text.tokens import content_words, words

_MOST_TOPICS = 100_000
_NOTHING_OPEN = "nothing was left to open"
_LIMITS = SearchLimits()


def explore(
    graph: Graph,
    query: Query,
    agents: ModelAgents,
    limits: SearchLimits = _LIMITS,
    *,
    topic: Entity | None = None,
) -> GraphSearchResult:
    """Search the graph for paths that answer a question."""
    search = _Search(graph, query, agents, limits, len(agents.trace))
    topic = topic or agents.topic(query, graph.topics(_MOST_TOPICS))
    if topic is None:
        return search.result(None, agents.spent or "no topic entity was found in the question")
    root = Path(topic)
    if search.validate([root], 0):
        return search.result(topic, "the topic entity is enough by itself")
    stopped = agents.spent or (
        search.go_deep(root) if limits.depth_first else search.go_broad(root)
    )
    return search.result(topic, stopped)


@dataclass(slots=True)
class _Search:
    """The state of one search; `begin` is the number of entries in the agents' trace before it."""

    graph: Graph
    query: Query
    agents: ModelAgents
    limits: SearchLimits
    begin: int
    steps: dict[int, Step] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    verdicts: dict[Path, bool] = field(default_factory=dict)

    def go_broad(self, root: Path) -> str:
        """Search breadth first, and return why the search ended."""
        visited, opened = {root.end.row}, [root]
        for number in range(1, self.limits.max_rounds + 1):
            reached = self._expand(opened, number)
            if self.agents.spent:
                return self._end()
            fresh = [path for path in reached if path.end.row not in visited]
            visited.update(path.end.row for path in fresh)
            closed = {path.end.row for path in self.validate(reached, number)}
            # An entity that several paths reach is opened once, at the end of the first of them.
            first: dict[int, Path] = {}
            for path in fresh:
                first.setdefault(path.end.row, path)
            opened = [path for row, path in first.items() if row not in closed]
            if self._end() or not opened:
                return self._end() or _NOTHING_OPEN
        return self._too_long(len(opened))

    def go_deep(self, root: Path) -> str:
        """Search depth first, and return why the search ended."""
        if not self.limits.max_rounds:
            return self._too_long(1)
        left, done, cut = [root], set[int](), 0
        while left and not self._end():
            path = left.pop()
            length = len(path.steps)
            if length and self.validate([path], length):
                done.add(path.end.row)
            elif path.end.row not in done and length == self.limits.max_rounds:
                cut += 1
            elif path.end.row not in done:
                done.add(path.end.row)
                left += reversed(self._expand([path], length + 1))
        return self._end() or (self._too_long(cut) if cut else _NOTHING_OPEN)

    def _end(self) -> str:
        if len(self.paths) >= self.limits.max_paths:
            return f"{self.limits.max_paths} paths are enough, as many as were wanted"
        return self.agents.spent

    def _too_long(self, opened: int) -> str:
        ends = "one entity was" if opened == 1 else f"{opened:,} entities were"
        longest = self.limits.max_rounds
        return f"paths are to have no more than {longest} relations, and {ends} still open"

    def _expand(self, opened: Sequence[Path], number: int) -> list[Path]:
        """Extend open paths by the relations that the expansion agent selects (eq. 5 to 7)."""
        self.agents.round = number
        selected = self.agents.expand(self.query, opened, self.limits.most_neighbours)
        reached = [p.then(s) for p, steps in zip(opened, selected, strict=True) for s in steps]
        texts = [path.text for path in reached]
        widest = [reached[n] for n in most_similar(self.query, texts, self.limits.most_open)]
        if remark := left_out("paths", len(widest), len(reached)):
            self.agents.record("expansion", "the whole round", TraceEntry(remark=remark))
        self.steps.update({path.steps[-1].row: path.steps[-1] for path in widest})
        self.verdicts.update(dict.fromkeys(widest, False))
        return widest

    def validate(self, paths: Sequence[Path], number: int) -> list[Path]:
        """Return the paths that the validation agent finds sufficient (eq. 8)."""
        if not paths or self.agents.spent:
            return []
        self.agents.round = number
        verdicts = self.agents.validate(self.query, paths)
        self.verdicts.update(zip(paths, verdicts, strict=True))
        enough = [path for path in paths if self.verdicts[path]]
        self.paths += enough[: self.limits.max_paths - len(self.paths)]
        return enough

    def result(self, topic: Entity | None, stopped: str) -> GraphSearchResult:
        """Return the sub-graph and its paths."""
        longer = {Path(path.start, path.steps[:-1]) for path in self.verdicts if path.steps}
        leaves = [p for p, v in self.verdicts.items() if not v and p not in longer]
        terms = frozenset(content_words(self.query.text))
        shared = {path: len(terms.intersection(words(path.text))) for path in leaves}
        leaves.sort(key=lambda path: -shared[path])
        trace = self.agents.trace[self.begin :]
        failed = sum(entry.failed for entry in trace)
        reasons = [stopped]
        if topic and not self.paths:
            reasons.append("no path was enough")
        if failed:
            many = "one" if failed == 1 else str(failed)
            reasons.append(f"{many} of the agents' replies could not be used")
        return GraphSearchResult(
            topic=topic,
            steps=tuple(self.steps.values()),
            paths=tuple(self.paths),
            leaves=tuple(leaves),
            trace=tuple(trace),
            stopped="; ".join(reasons),
        )
