"""The three stages of an evidence graph (Query-Driven Multimodal GraphRAG, section 3).

A model takes its roles. Stage I returns a pattern. Stage II extracts the
retrieval graph G2 from retrieved texts, anchors pictures and tables, and selects the clue graph G3.
Stage III (algorithm 1) judges, asks pictures, reads tables, and expands along G2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ku_rag.graph.model import Graph
from ku_rag.graph.search_types import TraceEntry, usage
from ku_rag.papers.graphrag import clue_selection
from ku_rag.papers.graphrag.construction_settings import EvidenceSettings
from ku_rag.papers.graphrag.evidence_agents import EvidenceAgents
from ku_rag.papers.graphrag.evidence_graph import (
    EvidenceEdge,
    EvidenceGraph,
    EvidenceNode,
    PatternGraph,
)
from ku_rag.papers.graphrag.layered_drawing import draw_layers
from ku_rag.papers.graphrag.media import pictures_of, row_graph, tables_of
from ku_rag.retrieval.base import Retrieval
from ku_rag.text.tokens import name_key
from ku_rag.types import Evidence, Illustrated

_MOST_MINED = 20
"""Rows of one table that become nodes."""


@dataclass(frozen=True, slots=True)
class EvidenceSearch(Illustrated):
    """An evidence graph and how it was built.

    Args:
        sizes: Nodes and edges of the stages "retrieval" (G2), "clue" (G3) and "evidence" (G4).
        agents: Who took the roles: "model" or "embedded".
    """

    graph: EvidenceGraph
    pattern: PatternGraph
    sizes: Mapping[str, Mapping[str, int]]
    enough: bool
    stopped: str
    trace: tuple[TraceEntry, ...]
    agents: str = "model"

    @property
    def answer_edges(self) -> list[EvidenceEdge]:
        """Edges from rows to entities in columns that the question names, best row first."""
        types, rows = {*map(name_key, self.pattern.types)}, {row.id for row in self.graph.of("row")}
        return [e for e in self.graph.edges if e.source in rows and name_key(e.relation) in types]

    @property
    def usage(self) -> dict[str, int]:
        """The number of "calls" and their tokens; see `search_types.usage`."""
        return usage(self.trace)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the search, with "nodes" and "edges" of its graph."""
        fields = Illustrated.to_dict(self)
        return {**fields.pop("graph"), **fields, "usage": self.usage}

    def to_html(self) -> str:
        """The drawing, the sizes of the stages, and why the construction ended."""
        sizes = (f"{name} graph {n['nodes']:,}, {n['edges']:,}" for name, n in self.sizes.items())
        summary = escape(
            f"Nodes, edges: {'; '.join(sizes)}. The construction ended: {self.stopped}."
        )
        drawn = draw_layers(self.graph) if self.graph.nodes else ""
        svg = drawn.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
        figure = f'<div class="graph" tabindex="0">{svg}</div>' if svg else ""
        return f'<h3>Evidence graph</h3><p class="quiet">{summary}</p>{figure}'


def build(
    base: Retrieval,
    evidence: Sequence[Evidence],
    subjects: Mapping[str, str],
    agents: EvidenceAgents,
    settings: EvidenceSettings,
) -> EvidenceSearch:
    """Build the evidence graph of a question, until the model's budget is spent at the latest.

    `subjects` is id → name of the units that the question's picture shows. `ModelFailed` or
    `BudgetSpent` without a pattern by the model.
    """
    pattern = agents.pattern([*subjects.values()])
    passages = [piece for piece in evidence if not piece.table][: settings.passages]
    construction = _Construction(base, agents, settings, pattern, passages)
    construction.select(evidence, subjects)
    sizes = {"retrieval": construction.around.sizes, "clue": construction.graph.sizes}
    stopped = construction.refine()
    graph, trace = construction.graph, tuple(agents.trace)
    sizes["evidence"] = graph.sizes
    pattern = construction.pattern
    return EvidenceSearch(graph, pattern, sizes, construction.enough, stopped, trace)


@dataclass(slots=True)
class _Construction:
    """The state of one construction; `around` is G2, `graph` is G3 and then G4."""

    base: Retrieval
    agents: EvidenceAgents
    settings: EvidenceSettings
    pattern: PatternGraph
    passages: Sequence[Evidence]
    around: EvidenceGraph = field(default_factory=EvidenceGraph)
    graph: EvidenceGraph = field(default_factory=EvidenceGraph)
    enough: bool = False
    tables: Sequence[EvidenceNode] = ()
    mined: set[str] = field(default_factory=set)

    # ---- stage II --------------------------------------------------------------------------

    def select(self, evidence: Sequence[Evidence], subjects: Mapping[str, str]) -> None:
        """Extract the retrieval graph G2 (definition 4), and select the clue graph G3 (5)."""
        self.tables = tables_of(self.base.database.connection, evidence, self.settings.tables)
        self._extract()
        units = {unit: "" for piece in evidence for unit in piece.owners or piece.unit_ids}
        self._anchor(units | dict(subjects), self.around.of("text"))
        ids = self._select_entities()
        chosen = self._match_images() if self.settings.image_matching else ()
        self.around = self.around.joined(chosen)
        self.graph = self.around.part([*ids, *(node.id for node in chosen)])

    def _extract(self) -> None:
        """Add the facts of the passages that fit the pattern to G2."""
        for facts in self.agents.extract(self.pattern, self.passages):
            self.around = self.around.joined(facts.nodes.values(), facts.edges)

    def _anchor(self, units: Mapping[str, str], nodes: Sequence[EvidenceNode]) -> None:
        """Add pictures of units, id → title, and tables to G2 if their titles name some nodes."""
        pictures = pictures_of(self.base, units, [node.name for node in nodes])
        for medium in (*pictures, *self.tables):
            is_table = medium.modality == "table"
            least = self.settings.table_distance if is_table else self.settings.image_distance
            edges = [*clue_selection.anchors(medium, nodes, least)]
            self.around = self.around.joined([medium] if edges else (), edges)

    def _select_entities(self) -> list[str]:
        """Return ids of nodes of G2 by names and by descriptions (eq. 5)."""
        nodes, k = [*self.around.nodes.values()], self.settings.k
        encoder = self.base.image_search.encoder
        ids = clue_selection.select_by_name(nodes, self.pattern.keywords, k)
        return ids + clue_selection.select_by_description(nodes, self.agents.question, encoder, k)

    def _match_images(self) -> Sequence[EvidenceNode]:
        """Return the pictures that fit descriptions in the question, with these."""
        pictures, chosen = self.around.of("image"), list[EvidenceNode]()
        for description in self.agents.descriptions() if pictures else ():
            search = self.base.image_search
            near, note = clue_selection.nearest_pictures(description, pictures, search)
            if note:
                self.agents.record("preselection", description, TraceEntry(said=note))
            if picture := self.agents.choose(description, near):
                chosen.append(picture.with_description(f"It shows {description}."))
        return chosen

    # ---- stage III -------------------------------------------------------------------------

    def refine(self) -> str:
        """Judge, augment and expand the graph (algorithm 1); return why this ended."""
        if not self.graph.nodes:
            return self.agents.spent or "no entity, picture or table was found"
        for number in range(1, self.settings.t_max + 1):
            self.agents.round = number
            self.enough, reason = self.agents.is_sufficient(self.graph)
            if self.enough:
                return "the graph is enough"
            before = self.graph
            if self.settings.pattern_updates:
                self._update_pattern(reason)
            self._ask_pictures()
            self._mine_tables()
            self.graph = self.graph.expanded(self.around)
            if self.agents.spent:
                return self.agents.spent
            if self.graph == before and self.settings.stop_unchanged:
                return "nothing was left to add, and the graph was not enough"
        return f"the graph was not enough in {self.settings.t_max} judgements"

    def _update_pattern(self, reason: str) -> None:
        """Make the pattern anew from why a graph is not enough (eq. 1), and select what it adds."""
        pattern = self.agents.update_pattern(self.pattern, self.graph, reason)
        if pattern != self.pattern:
            self.pattern, earlier = pattern, self.around.nodes.keys()
            self._extract()
            added = [node for node in self.around.of("text") if node.id not in earlier]
            self._anchor({}, added)
            part = self.around.part([*self.graph.nodes, *self._select_entities()])
            self.graph = part.joined(self.graph.nodes.values(), self.graph.edges)

    def _ask_pictures(self) -> None:
        """Put questions to picture nodes, and add the answers to their descriptions (eq. 6)."""
        if not (self.settings.visual_evidence and self.graph.of("image")):
            return
        questions = self.agents.picture_questions(self.graph)
        answers = self.agents.picture_answers(questions)
        for (node, _), answer in zip(questions, answers, strict=True):
            self.graph = self.graph.joined([self.graph.nodes[node.id].with_description(answer)])

    def _mine_tables(self) -> None:
        """Add rows and entities that the question needs from table nodes, once each (eq. 7)."""
        waiting = self.graph.nodes.keys() - self.mined
        tables = [table for table in self.tables if table.id in waiting]
        if not (self.settings.table_mining and tables):
            return
        self.mined |= {table.id for table in tables}
        graph = Graph(self.base.database.connection, self.base.layout)
        for table, (names, rows) in zip(tables, self.agents.mine_tables(tables), strict=True):
            for chunk, row in rows[:_MOST_MINED]:
                part = row_graph(graph, table, chunk, row, names, self.around.nodes)
                self.graph = self.graph.joined(part.nodes.values(), part.edges)
                nodes = [self.graph.nodes[id] for id in part.nodes]
                self.around = self.around.joined(nodes, part.edges)
                links = {cell.link: cell.text for _, cell in row.cells if cell.link}
                self._anchor(links, part.of("text"))
