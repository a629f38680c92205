"""The roles of an evidence graph without a model: names, relations, labelled lines and cells.

The embedded agents read what the store knows of the retrieved texts and rows. They see no pictures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ku_rag.graph.evidence.evidence_graph import (
    EvidenceEdge,
    EvidenceGraph,
    EvidenceNode,
    PatternGraph,
    text_id,
)
from ku_rag.graph.evidence.media import TableRows, cells_of
from ku_rag.graph.model import Graph
from ku_rag.graph.search_types import AgentTrace, TraceEntry
from ku_rag.graph.summary import shortened
from ku_rag.graph.unit_facts import FactReader
from ku_rag.store.connection import as_json
from ku_rag.text.question import ASKING, analyse, names_and_numbers
from ku_rag.text.sentences import sentences
from ku_rag.text.stems import every_stem, label_stems, stems
from ku_rag.text.tokens import content_words
from ku_rag.text.values import find_values
from ku_rag.types import Evidence

_MOST_ROWS = 20
"""Retrieved rows whose cells are read."""
_MOST_RELATIONS = 400
"""Relations of an entity that are read, the first ones."""
_MINED = 3
"""Retrieved rows that become nodes."""
_COVERED = 0.8
"""Share of the question's words that a graph has which is enough."""
_MOST_CHARACTERS = 20_000
"""Of a text, no more is read."""
_LONGEST = 1000
"""Characters of a description, and of an entry of the trace."""


class _Listed(NamedTuple):
    """A unit that lists a chunk, as its own or because the chunk names it or links to it."""

    row: int
    id: str
    name: str
    kind: str
    owned: bool

    def node(self, description: str, chunk: int) -> EvidenceNode:
        """Return its node."""
        return EvidenceNode(text_id(self.name), self.name, self.kind, "text", description, (chunk,))


@dataclass
class EmbeddedEvidenceAgents(AgentTrace):
    """Stand-in for a model in the roles of stage I to III. An object serves one question.

    Args:
        graph: The graph of the base.
        question: The question.
        evidence: Retrieved chunks and table rows, best first.
        names: Keys of the names in the question.
    """

    graph: Graph
    question: str
    evidence: Sequence[Evidence]
    names: Sequence[str]

    def pattern(self, shown: Sequence[str]) -> PatternGraph:
        """Return the pattern graph G1: kinds and columns that the question names, other words.

        Args:
            shown: Names of what the question's picture shows.
        """
        known = stems(" ".join((*self._types, *self.names)))
        asked = [word for word in content_words(self.question) if not stems(word) <= known]
        spans = find_values(self.question, "name")
        names = dict.fromkeys((*self.names, *(self.question[s:e] for s, e in spans), *shown))
        self._note("pattern", self.question, ", ".join((*self._types, *asked)))
        relations = tuple(("", word, "") for word in asked)
        return PatternGraph(self._types, relations, tuple(names) or tuple(asked))

    def extract(
        self, pattern: PatternGraph, passages: Sequence[Evidence]
    ) -> Iterator[EvidenceGraph]:
        """Yield the entities and relations of passages, and of retrieved rows of tables.

        Entities are the units that a chunk belongs to, names and links to. Relations and labelled
        lines of a unit count if the question asks for them.
        """
        chunks = *passages, *self._rows
        listed = self._listed([one.chunk for one in chunks])
        for one in chunks:
            units = listed.get(one.chunk, ())
            yield self._mentioned(one, units)
            for unit in units if not one.table else ():
                if unit.owned:
                    yield self._asked_of(unit, one.chunk)

    def _listed(self, chunks: Sequence[int]) -> dict[int, list[_Listed]]:
        """Return the units that list some chunks, owners first."""
        found: dict[int, list[_Listed]] = {}
        for chunk, *unit in self.graph.connection.execute(
            "SELECT l.chunk, u.row, u.id, u.name, u.kind, l.owned FROM json_each(?) w "
            "CROSS JOIN unit_chunks l ON l.chunk = w.value JOIN units u ON u.row = l.unit "
            "ORDER BY l.owned DESC, u.row",
            (as_json(chunks),),
        ):
            found.setdefault(chunk, []).append(_Listed(*unit))
        return found

    def _mentioned(self, one: Evidence, units: Sequence[_Listed]) -> EvidenceGraph:
        """Return the owners of a chunk, and the units that it names or links to."""
        nodes, edges = [], []
        for unit in units:
            own = one if unit.owned and not one.table else self._own.get(unit.id)
            description = self._description(own.text) if own else ""
            nodes.append(unit.node(description, own.chunk if own else one.chunk))
            if not unit.owned and units[0].owned and not one.table:
                edges.append(EvidenceEdge(nodes[0].id, "mentions", nodes[-1].id, chunk=one.chunk))
        return EvidenceGraph().joined(nodes, edges)

    def _asked_of(self, unit: _Listed, chunk: int) -> EvidenceGraph:
        """Return what the question asks for of relations and labelled lines of a unit."""
        (entity,) = self.graph.of_units([unit.row])
        asked = analyse(self.question, (unit.name,))
        hops = self.graph.hop(entity, _MOST_RELATIONS)
        nodes, edges = [unit.node("", chunk)], []
        for step in (*hops, *FactReader(self.graph.connection, self.graph.among).of_unit(entity)):
            if asked.remaining(label_stems(step.relation), agents=not step.has_value):
                at = step.line[0] if step.line else chunk
                id, type_ = text_id(step.tail.name), step.tail.kind or step.relation
                nodes.append(EvidenceNode(id, step.tail.name, type_, "text", "", (at,)))
                edges.append(EvidenceEdge(nodes[0].id, step.relation, id, step.notes, at))
        return EvidenceGraph().joined(nodes, edges)

    def is_sufficient(self, graph: EvidenceGraph) -> bool:
        """Return whether a graph covers a question: types, names, numbers, most other words."""
        relations = {edge.relation for edge in graph.edges}
        types = relations | {node.type for node in graph.nodes.values()}
        known = every_stem(" ".join((*relations, *(node.text for node in graph.nodes.values()))))
        wanted = self._said - ASKING or self._said
        missing = wanted - known
        exact = stems(" ".join(names_and_numbers(self.question)))
        covered = exact <= known and len(missing) <= (1 - _COVERED) * len(wanted)
        enough = bool(wanted) and covered and types.issuperset(self._types)
        lacking = *sorted(missing), *(one for one in self._types if one not in types)
        said = f"missing: {', '.join(lacking)}" if lacking else "everything is covered"
        self._note("sufficiency", self.question, said)
        return enough

    def mine_tables(
        self, tables: Sequence[EvidenceNode]
    ) -> Iterator[tuple[Sequence[str], TableRows]]:
        """Yield the best retrieved rows of each table, and cells with a word of the question."""
        for table in tables:
            stored = dict(table.rows)
            best = (one.chunk for one in self._rows[:_MINED])
            rows = [(chunk, stored[chunk]) for chunk in best if chunk in stored]
            cells = (cell for _, row in rows for cell in cells_of(row).items())
            names = dict.fromkeys(text for c, text in cells if stems(f"{c} {text}") & self._said)
            self._note("table entities", table.name, ", ".join(names))
            yield tuple(names), rows

    @cached_property
    def _said(self) -> frozenset[str]:
        """Stems of the content words of the question."""
        return stems(self.question)

    @cached_property
    def _types(self) -> tuple[str, ...]:
        """Kinds of the base and columns of the best rows that the question names."""
        columns = (c for one in self._rows[:_MINED] if one.table for c in one.table.columns)
        kinds = [*FactReader(self.graph.connection).kinds(), *columns]
        return tuple(dict.fromkeys(o for o in kinds if stems(o) and stems(o) <= self._said))

    @cached_property
    def _rows(self) -> Sequence[Evidence]:
        """The best retrieved rows of tables."""
        return [one for one in self.evidence if one.table][:_MOST_ROWS]

    @cached_property
    def _own(self) -> dict[str, Evidence]:
        """The best retrieved chunk of each unit."""
        texts = [(unit, one) for one in self.evidence if not one.table for unit in one.owners]
        return dict(reversed(texts))

    def _description(self, text: str) -> str:
        """Return the first sentence of a text, and those with further words of the question."""
        known: frozenset[str] = frozenset()
        chosen: list[str] = []
        for start, end in sentences(text[:_MOST_CHARACTERS]):
            said = every_stem(text[start:end]) & self._said
            if not (chosen and said <= known):
                chosen.append(" ".join(text[start:end].split()))
                known |= said
        return shortened(" ".join(chosen), _LONGEST)

    def _note(self, agent: str, about: str, said: str) -> None:
        self.record(agent, shortened(about, _LONGEST), TraceEntry(said=shortened(said, _LONGEST)))
