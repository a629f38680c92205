"""The multi-agent retriever on the graph (MH-MMKG, section 4.1, eq. 5 to 10).

The search starts at the topic entity and goes outwards, breadth first. In each round the expansion
agent selects among the relations of all open entities, and the validation agent judges the paths
that this extends. Entities reached for the first time are open in the next round, unless a path to
them is sufficient. A relation to an entity reached before belongs to the sub-graph, and its path is
validated, but no entity is opened twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ku_rag.errors import BadInput, BudgetSpent
from ku_rag.graph.model import Entity, Graph, Path, Step
from ku_rag.graph.search_result import GraphSearchResult, Note, Noting, TraceEntry
from ku_rag.graph.search_types import Agents, Query, Verdict
from ku_rag.graph.traversal import Offer, traverse
from ku_rag.text.tokens import content_words, words

_MOST_TOPICS = 100_000
_NOTHING_OPEN = "nothing was left to open"
_T = TypeVar("_T")


def explore(
    graph: Graph,
    query: Query,
    agents: Agents,
    *,
    topic: Entity | None = None,
    max_paths: int = 5,
    max_rounds: int = 6,
    depth_first: bool = False,
    most_neighbours: int = 100,
    most_open: int = 100,
) -> GraphSearchResult:
    """Search the graph for paths that answer a question.

    Args:
        graph: the graph.
        query: what is asked.
        agents: who says where to start, where to go, and when it is enough.
        topic: where to start; None asks the agents.
        max_paths: so many paths that are enough end the search, at least 1.
        max_rounds: no path is longer than so many relations; 0 asks of the topic entity alone.
        depth_first: follow each path to its end before the one beside it (section 5.3).
        most_neighbours: relations of one entity that agents are shown, at least 1: those that
            share most words with the query.
        most_open: paths that are validated in one round, at least 1, chosen likewise; depth first
            there is but one at a time.

    Returns:
        What was found until the search ended. The end of a model's budget is one of its ends.

    Raises:
        BadInput: a number is less than that.
        Corrupt: a row of the graph fails its checksum.
    """
    least = min(max_paths, max_rounds + 1, most_neighbours, most_open)
    if least < 1:
        raise BadInput(
            f"max_paths is {max_paths}, max_rounds {max_rounds}, most_neighbours "
            f"{most_neighbours}, most_open {most_open}: expected at least 1, 0 for max_rounds"
        )
    search = _Search(graph, query, agents, max_paths, max_rounds, most_neighbours, most_open)
    root = search.begin(topic)
    if root is None:
        return search.found(None, search.spent or "no topic entity was found in the question")
    stopped = search.ask_alone(root)
    if not stopped:
        stopped = search.go_deep(root) if depth_first else search.go_broad(root)
    return search.found(root, stopped)


class _Search:
    """One search: the sub-graph so far, and what the agents said of it."""

    def __init__(
        self,
        graph: Graph,
        query: Query,
        agents: Agents,
        max_paths: int,
        max_rounds: int,
        most_neighbours: int,
        most_open: int,
    ) -> None:
        self._graph, self._query, self._agents = graph, query, agents
        self._max_paths, self._max_rounds = max_paths, max_rounds
        self._most_neighbours, self._most_open = most_neighbours, most_open
        self._asked = frozenset(content_words(query.text))
        self._steps: dict[int, Step] = {}
        self._paths: list[Path] = []
        self._verdicts: dict[Path, Verdict] = {}
        self._captions: dict[int, str] = {}
        self._trace: list[TraceEntry] = []
        self.spent = ""

    # ---- where it goes: all but the first return why it ended, "" while it goes on --------------

    def begin(self, topic: Entity | None) -> Path | None:
        """K0: the topic entity, which the agents choose where none is given."""
        if topic is None:
            among = self._graph.topics(_MOST_TOPICS)
            topic = self._ask(lambda: self._agents.topic(self._query, among), None)
            said = topic.name if topic else "none"
            self._tell(0, "topic", [self._query.question], [said])
        return Path(topic) if topic else None

    def ask_alone(self, root: Path) -> str:
        """Whether the topic entity is enough by itself."""
        if self.spent:
            return self.spent
        if self._validate([root], 0):
            return "the topic entity is enough by itself"
        return self.spent

    def go_broad(self, root: Path) -> str:
        """Breadth first: all open entities at once."""
        known, opened = {root.end.row}, [root]

        def choose(offers: Sequence[Offer]) -> list[Path]:
            number = len(offers[0][0].steps) + 1
            reached = self._expand(offers, number)
            if self.spent:
                return []
            fresh = [path for path in reached if path.end.row not in known]
            known.update(path.end.row for path in fresh)
            closed = {path.end.row for path in self._validate(reached, number)}
            # An entity that several paths reach is opened once, at the end of the best of them.
            best: dict[int, Path] = {}
            for path in sorted(fresh, key=lambda path: -self._verdicts[path].score):
                best.setdefault(path.end.row, path)
            opened[:] = [path for row, path in best.items() if row not in closed]
            return [] if self._over() else opened

        for _ in traverse(self._graph, root.start, choose, longest=self._max_rounds):
            pass
        return self._over() or (self._too_long(len(opened)) if opened else _NOTHING_OPEN)

    def go_deep(self, root: Path) -> str:
        """Depth first: each path as far as it goes, before the one beside it."""
        if not self._max_rounds:
            return self._too_long(1)
        left, done, cut = list(reversed(self._expand([self._offer(root)], 1))), {root.end.row}, 0
        while left and not self._over():
            path = left.pop()
            length = len(path.steps)
            if self._validate([path], length):
                done.add(path.end.row)
            elif path.end.row not in done and length == self._max_rounds:
                cut += 1
            elif path.end.row not in done:
                done.add(path.end.row)
                left += reversed(self._expand([self._offer(path)], length + 1))
        return self._over() or (self._too_long(cut) if cut else _NOTHING_OPEN)

    def _offer(self, path: Path) -> Offer:
        return path, self._graph.hop(path.end)

    def _over(self) -> str:
        if len(self._paths) >= self._max_paths:
            return f"{self._max_paths} paths are enough, as many as were wanted"
        return self.spent

    def _too_long(self, opened: int) -> str:
        ends = "one entity was" if opened == 1 else f"{opened:,} entities were"
        return f"paths are to have no more than {self._max_rounds} relations, and {ends} still open"

    # ---- what the agents are asked --------------------------------------------------------------

    def _expand(self, offers: Sequence[Offer], number: int) -> list[Path]:
        """Extend open paths by the relations that the expansion agent chooses (eq. 5 to 7)."""
        offered, cut = [], []
        for path, steps in offers:
            shown = self._cut(steps, _said, self._most_neighbours)
            offered.append((path, shown))
            cut.append(_left_out("relations", len(shown), len(steps)))
        none: list[list[Step]] = [[] for _ in offered]
        kept = self._ask(lambda: self._agents.expand(self._query, offered), none)
        reached, said = [], []
        for (path, shown), chosen in zip(offered, kept, strict=True):
            rows = {step.row for step in shown}
            steps = list({step.row: step for step in chosen if step.row in rows}.values())
            said.append(", ".join(step.tail.name for step in steps) or "none")
            reached += [path.then(step) for step in steps]
        self._tell(number, "expansion", [path.text for path, _ in offers], said, cut)
        widest = self._cut(reached, lambda path: path.text, self._most_open)
        if len(widest) < len(reached):
            remark = _left_out("paths", len(widest), len(reached))
            self._trace.append(
                TraceEntry(number, "expansion", "the whole round", "", Note(remark=remark))
            )
        self._steps.update({path.steps[-1].row: path.steps[-1] for path in widest})
        self._verdicts.update(dict.fromkeys(widest, Verdict(False)))  # until they are asked about
        return widest

    def _validate(self, paths: Sequence[Path], number: int) -> list[Path]:
        """Those of the paths that the validation agent calls enough (eq. 8), best first."""
        if not paths:
            return []
        unasked = [Verdict(False) for _ in paths]
        verdicts = self._ask(lambda: self._agents.validate(self._query, paths), unasked)
        self._verdicts.update(zip(paths, verdicts, strict=True))
        for path, verdict in zip(paths, verdicts, strict=True):
            if verdict.caption:
                self._captions.setdefault(path.end.row, verdict.caption)
        said = ["enough" if verdict.enough else "not enough" for verdict in verdicts]
        self._tell(number, "validation", [path.text for path in paths], said)
        enough = [path for path in paths if self._verdicts[path].enough]
        enough.sort(key=lambda path: -self._verdicts[path].score)
        self._paths += enough[: self._max_paths - len(self._paths)]
        return enough

    def _ask(self, call: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return call()
        except BudgetSpent as error:
            self.spent = str(error)
            return otherwise

    def _tell(
        self,
        number: int,
        agent: str,
        about: Sequence[str],
        said: Sequence[str],
        remarks: Sequence[str] = (),
    ) -> None:
        """Write to the trace what an agent was asked and said, with its own account of it."""
        notes: Sequence[Note] = ()
        if isinstance(self._agents, Noting) and not self.spent:
            notes = self._agents.notes()
        told = list(notes) if len(notes) == len(about) else [Note()] * len(about)
        for n, note in enumerate(told):
            remark = "; ".join(filter(None, (*remarks[n : n + 1], note.remark)))
            self._trace.append(
                TraceEntry(
                    number, agent, about[n], note.said or said[n], replace(note, remark=remark)
                )
            )
            self.spent = self.spent or note.spent

    # ---- what comes of it ------------------------------------------------------------------------

    def _cut(self, given: Sequence[_T], text: Callable[[_T], str], most: int) -> list[_T]:
        """Those that share most words with the query, in the order in which they are given."""
        if len(given) <= most:
            return list(given)
        shared = [self._shared(text(one)) for one in given]
        best = sorted(range(len(given)), key=lambda n: -shared[n])[:most]
        return [given[n] for n in sorted(best)]

    def _shared(self, text: str) -> int:
        return len(self._asked.intersection(words(text)))

    def found(self, root: Path | None, stopped: str) -> GraphSearchResult:
        """What there is, and why there is no more."""
        longer = {Path(path.start, path.steps[:-1]) for path in self._verdicts if path.steps}
        ends = [p for p, v in self._verdicts.items() if not v.enough and p not in longer]
        ends.sort(key=lambda path: (-self._verdicts[path].score, -self._shared(path.text)))
        failed = sum(entry.note.failed for entry in self._trace)
        said = [stopped]
        if root and not self._paths:
            said.append("no path was enough")
        if failed:
            many = "one" if failed == 1 else str(failed)
            said.append(f"{many} of the agents' replies could not be used")
        return GraphSearchResult(
            topic=root.start if root else None,
            steps=tuple(self._steps.values()),
            paths=tuple(sorted(self._paths, key=lambda path: -self._verdicts[path].score)),
            leaves=tuple(ends),
            captions=self._captions,
            trace=tuple(self._trace),
            stopped="; ".join(said),
        )


def _said(step: Step) -> str:
    return f"{step.relation} {step.tail.name} {step.information} {step.condition}"


def _left_out(what: str, shown: int, of: int) -> str:
    if shown == of:
        return ""
    return f"of {of:,} {what} the {shown:,} that share most words with the query went on"
