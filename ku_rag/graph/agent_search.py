"""The multi-agent retriever on the graph (MH-MMKG, section 4.1, eq. 5 to 10).

The search starts at the topic entity and proceeds breadth first. In each round the expansion agent
selects among the relations of all open entities, and the validation agent judges the paths that
this extends. Entities reached for the first time are open in the next round, unless a path to them
is sufficient. A relation to an entity reached before belongs to the sub-graph, and its path is
validated, but no entity is opened twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ku_rag.errors import BudgetSpent
from ku_rag.graph.mllm_agents import ModelAgents
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.search_types import (
    GraphSearchResult,
    Query,
    SearchLimits,
    TraceEntry,
    most_similar,
)
from ku_rag.text.tokens import content_words, words

_MOST_TOPICS = 100_000
_NOTHING_OPEN = "nothing was left to open"
_LIMITS = SearchLimits()
_T = TypeVar("_T")


def explore(
    graph: Graph,
    query: Query,
    agents: ModelAgents,
    limits: SearchLimits = _LIMITS,
    *,
    topic: Entity | None = None,
) -> GraphSearchResult:
    """Search the graph for paths that answer a question.

    Args:
        graph: The graph.
        query: The query.
        agents: Select the topic entity and relations, and judge paths.
        limits: How far the search goes.
        topic: Where to start; None: the agents select it.

    Returns:
        The sub-graph at the end of the search, which may be the end of a model's budget.

    Raises:
        Corrupt: A row of the graph fails its checksum.
    """
    search = _Search(graph, query, agents, limits)
    root = search.begin(topic)
    if root is None:
        return search.result(None, search.spent or "no topic entity was found in the question")
    if search.validate([root], 0):
        return search.result(root, "the topic entity is enough by itself")
    stopped = search.spent or (
        search.go_deep(root) if limits.depth_first else search.go_broad(root)
    )
    return search.result(root, stopped)


@dataclass(slots=True)
class _Search:
    """The state of one search."""

    graph: Graph
    query: Query
    agents: ModelAgents
    limits: SearchLimits
    steps: dict[int, Step] = field(default_factory=dict)
    paths: list[Path] = field(default_factory=list)
    verdicts: dict[Path, bool] = field(default_factory=dict)
    trace: list[TraceEntry] = field(default_factory=list)
    spent: str = ""

    def begin(self, topic: Entity | None) -> Path | None:
        """Return K0, the path of the topic entity alone; the agents select it if none is given."""
        if topic is None:
            among = self.graph.topics(_MOST_TOPICS)
            topic = self._ask(lambda: self.agents.topic(self.query, among), None)
            self._record(0, "topic", [self.query.question], [topic.name if topic else "none"])
        return Path(topic) if topic else None

    def go_broad(self, root: Path) -> str:
        """Search breadth first, and return why the search ended."""
        known, opened = {root.end.row}, [root]
        for number in range(1, self.limits.max_rounds + 1):
            reached = self._expand(opened, number)
            if self.spent:
                return self._end()
            fresh = [path for path in reached if path.end.row not in known]
            known.update(path.end.row for path in fresh)
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
        return self.spent

    def _too_long(self, opened: int) -> str:
        ends = "one entity was" if opened == 1 else f"{opened:,} entities were"
        longest = self.limits.max_rounds
        return f"paths are to have no more than {longest} relations, and {ends} still open"

    def _expand(self, opened: Sequence[Path], number: int) -> list[Path]:
        """Extend open paths by the relations that the expansion agent selects (eq. 5 to 7)."""
        offered, cut = [], []
        for path in opened:
            steps = self.graph.hop(path.end)
            texts = [f"{s.relation} {s.tail.name} {s.information} {s.condition}" for s in steps]
            shown = [steps[n] for n in most_similar(self.query, texts, self.limits.most_neighbours)]
            offered.append((path, shown))
            cut.append(_left_out("relations", len(shown), len(steps)))
        none: list[list[Step]] = [[] for _ in offered]
        selected = self._ask(lambda: self.agents.expand(self.query, offered), none)
        reached, names = [], []
        for (path, shown), chosen in zip(offered, selected, strict=True):
            rows = {step.row for step in shown}
            steps = list({step.row: step for step in chosen if step.row in rows}.values())
            names.append(", ".join(step.tail.name for step in steps) or "none")
            reached += [path.then(step) for step in steps]
        self._record(number, "expansion", [path.text for path in opened], names, cut)
        texts = [path.text for path in reached]
        widest = [reached[n] for n in most_similar(self.query, texts, self.limits.most_open)]
        if remark := _left_out("paths", len(widest), len(reached)):
            entry = TraceEntry(number, "expansion", "the whole round", remark=remark)
            self.trace.append(entry)
        self.steps.update({path.steps[-1].row: path.steps[-1] for path in widest})
        self.verdicts.update(dict.fromkeys(widest, False))
        return widest

    def validate(self, paths: Sequence[Path], number: int) -> list[Path]:
        """Return the paths that the validation agent finds sufficient (eq. 8)."""
        if not paths or self.spent:
            return []
        unasked = [False for _ in paths]
        verdicts = self._ask(lambda: self.agents.validate(self.query, paths), unasked)
        self.verdicts.update(zip(paths, verdicts, strict=True))
        answers = ["enough" if verdict else "not enough" for verdict in verdicts]
        self._record(number, "validation", [path.text for path in paths], answers)
        enough = [path for path in paths if self.verdicts[path]]
        self.paths += enough[: self.limits.max_paths - len(self.paths)]
        return enough

    def _ask(self, call: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return call()
        except BudgetSpent as error:
            self.spent = str(error)
            return otherwise

    def _record(
        self,
        number: int,
        agent: str,
        about: Sequence[str],
        said: Sequence[str],
        remarks: Sequence[str] = (),
    ) -> None:
        """Add the answers of an agent to the trace, with its notes."""
        # After a failed call, the notes are those of the call before it.
        notes = () if self.spent else self.agents.notes()
        for n, note in enumerate(notes or [TraceEntry()] * len(about)):
            remark = "; ".join(filter(None, (*remarks[n : n + 1], note.remark)))
            self.trace.append(
                replace(
                    note,
                    round=number,
                    agent=agent,
                    about=about[n],
                    said=note.said or said[n],
                    remark=remark,
                )
            )
            self.spent = self.spent or note.spent

    def result(self, root: Path | None, stopped: str) -> GraphSearchResult:
        """Return the sub-graph and its paths."""
        longer = {Path(path.start, path.steps[:-1]) for path in self.verdicts if path.steps}
        leaves = [p for p, v in self.verdicts.items() if not v and p not in longer]
        asked = frozenset(content_words(self.query.text))
        shared = {path: len(asked.intersection(words(path.text))) for path in leaves}
        leaves.sort(key=lambda path: -shared[path])
        failed = sum(entry.failed for entry in self.trace)
        reasons = [stopped]
        if root and not self.paths:
            reasons.append("no path was enough")
        if failed:
            many = "one" if failed == 1 else str(failed)
            reasons.append(f"{many} of the agents' replies could not be used")
        return GraphSearchResult(
            topic=root.start if root else None,
            steps=tuple(self.steps.values()),
            paths=tuple(self.paths),
            leaves=tuple(leaves),
            trace=tuple(self.trace),
            stopped="; ".join(reasons),
        )


def _left_out(what: str, shown: int, of: int) -> str:
    if shown == of:
        return ""
    return f"of {of:,} {what} the {shown:,} that share most words with the query went on"
