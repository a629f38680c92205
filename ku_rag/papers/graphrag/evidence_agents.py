"""The eight roles of a model in the construction of an evidence graph, a prompt for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ku_rag.graph.mllm_calls import AgentQuestion, Outcome, ask_all
from ku_rag.graph.search_types import AgentTrace
from ku_rag.graph.summary import shortened
from ku_rag.mllm.base import MLLM
from ku_rag.mllm.prompts import Prompt, fenced
from ku_rag.mllm.structured_output import BOOLEAN, LINE, choice, list_of, object_schema
from ku_rag.papers.graphrag.evidence_graph import (
    EvidenceEdge,
    EvidenceGraph,
    EvidenceNode,
    PatternGraph,
    text_id,
)
from ku_rag.papers.graphrag.media import TableRows, cells_of
from ku_rag.text.tokens import content_words, is_named, name_key
from ku_rag.types import Evidence

_LONGEST_SAID = 300

_Lines = Sequence[Mapping[str, Any]]
_LINES = list_of(LINE)
_RELATION = {"source": LINE, "relation": LINE, "target": LINE}
_PATTERN = object_schema(
    "entity_types",
    entity_types=_LINES,
    relations=list_of(object_schema(**_RELATION)),
    keywords=_LINES,
)
_DESCRIPTIONS = object_schema("descriptions", descriptions=_LINES)
_ENOUGH = object_schema("enough", reason=LINE, enough=BOOLEAN)
_ENTITIES = object_schema("entities", entities=_LINES)


@dataclass
class EvidenceAgents(AgentTrace):
    """A model in the roles of stage I to III; an unusable reply selects nothing, and is noted."""

    mllm: MLLM
    prompts: Mapping[str, Prompt]
    question: str

    def pattern(self, subjects: Sequence[str]) -> PatternGraph:
        """Return the pattern graph G1 of the question, whose picture shows some subjects."""
        lines = [{"shown": name} for name in subjects]
        (outcome,) = self._ask("pattern", [lines], schema=_PATTERN)
        if outcome.failure:
            raise outcome.failure
        return self._read_pattern(outcome.fields, subjects)

    def update_pattern(
        self, pattern: PatternGraph, graph: EvidenceGraph, reason: str
    ) -> PatternGraph:
        """Return the pattern for what a graph lacks (eq. 1); the same one without a reply."""
        lines = [{"pattern": pattern.to_dict()}, *graph.lines(), {"missing": reason}]
        (outcome,) = self._ask("update", [lines], schema=_PATTERN)
        if not outcome.fields.get("entity_types"):
            return pattern
        return self._read_pattern(outcome.fields, pattern.keywords)

    def _read_pattern(self, reply: Mapping[str, Any], keywords: Sequence[str]) -> PatternGraph:
        relations = [{**dict.fromkeys(_RELATION, ""), **row} for row in reply.get("relations", ())]
        keywords = _distinct([*reply.get("keywords", ()), *keywords])
        return PatternGraph(
            _distinct(reply["entity_types"]),
            tuple((row["source"], row["relation"], row["target"]) for row in relations),
            keywords or tuple(content_words(self.question)),
        )

    def extract(
        self, pattern: PatternGraph, passages: Sequence[Evidence]
    ) -> Iterator[EvidenceGraph]:
        """Yield the facts of each passage that its text can state (eq. 4)."""
        texts = []
        for piece in passages if pattern.types else ():  # a text need not repeat its units' names
            owners = [name for name in piece.owner_names if not is_named(name, piece.text)]
            texts.append("\n".join([*owners, piece.text]))
        words = dict.fromkeys(word for _, word, _ in pattern.relations)
        shape: _Lines = [{"entity_types": [*pattern.types]}, {"relations": [*words]}]
        data: list[_Lines] = [[*shape, {"text": text}] for text in texts]
        type_, word = choice(pattern.types or [""]), choice(words or [""])
        entity = object_schema(name=LINE, type=type_, description=LINE)
        relation = object_schema(**_RELATION | {"relation": word}, description=LINE)
        schema = object_schema(entities=list_of(entity), relations=list_of(relation))
        outcomes = self._ask("extraction", data, texts, schema=schema)
        for outcome, piece, text in zip(outcomes, passages, texts, strict=False):
            yield _checked_facts(outcome.fields, pattern, text, piece.chunk)

    def descriptions(self) -> tuple[str, ...]:
        """Return descriptions of pictures in the question."""
        (outcome,) = self._ask("descriptions", [[]], schema=_DESCRIPTIONS)
        return _distinct(outcome.fields.get("descriptions", ()))

    def choose(self, description: str, pictures: Sequence[EvidenceNode]) -> EvidenceNode | None:
        """Return the picture that fits a description best; None for none of them."""
        titles = [{"picture": n, "title": picture.name} for n, picture in enumerate(pictures, 1)]
        lines: _Lines = [{"description": description}, *titles]
        schema = object_schema("picture", reason=LINE, picture=choice(range(len(pictures) + 1)))
        (outcome,) = self._ask("choice", [lines], [description], [pictures], schema=schema)
        number = outcome.fields.get("picture", 0)
        # Numbers of pictures mean nothing if one of them could not be shown.
        is_valid = 1 <= number <= len(pictures) and not outcome.left_out
        return pictures[number - 1] if is_valid else None

    def is_sufficient(self, graph: EvidenceGraph) -> tuple[bool, str]:
        """Return whether the question can be answered from a graph, and the reason."""
        (outcome,) = self._ask("sufficiency", [[*graph.lines()]], schema=_ENOUGH)
        return bool(outcome.fields.get("enough", False)), str(outcome.fields.get("reason", ""))

    def picture_questions(self, graph: EvidenceGraph) -> list[tuple[EvidenceNode, str]]:
        """Return picture nodes of a graph, and what to ask each of them."""
        names = choice(node.name for node in graph.of("image"))
        row = object_schema(picture=names, question=LINE)
        schema = object_schema("questions", questions=list_of(row))
        (outcome,) = self._ask("picture_questions", [[*graph.lines()]], schema=schema)
        named: dict[str, list[EvidenceNode]] = {}
        for node in graph.of("image"):
            named.setdefault(name_key(node.name), []).append(node)
        pairs = (
            (node, str(line.get("question", "")).strip())
            for line in outcome.fields.get("questions", ())
            for node in named.get(name_key(str(line.get("picture", ""))), ())
        )
        return [(node, question) for node, question in pairs if question]

    def picture_answers(self, questions: Sequence[tuple[EvidenceNode, str]]) -> list[str]:
        """Return the answer of each picture node to its question; "" without one (eq. 6)."""
        data = [[{"title": node.name, "question": question}] for node, question in questions]
        about = [f"{node.name}: {question}" for node, question in questions]
        pictures = [[node] for node, _ in questions]
        outcomes = self._ask("picture_answer", data, about, pictures)
        return [" ".join(outcome.text.split()) for outcome in outcomes]

    def mine_tables(
        self, tables: Sequence[EvidenceNode]
    ) -> Iterator[tuple[Sequence[str], TableRows]]:
        """Yield the cells that the question needs, and the rows that hold them (eq. 7)."""
        titles = [table.name for table in tables]
        data: list[_Lines] = [
            [{"table": table.name}, *({"row": cells_of(row)} for _, row in table.rows)]
            for table in tables
        ]
        outcomes = self._ask("table_entities", data, titles, schema=_ENTITIES)
        for table, outcome in zip(tables, outcomes, strict=True):
            names = _distinct(outcome.fields.get("entities", ()))
            needed = [
                (chunk, row)
                for chunk, row in table.rows
                if any(is_named(name, text) for name in names for text in cells_of(row).values())
            ]
            yield names, needed

    def _ask(
        self,
        name: str,
        data: Sequence[_Lines],
        about: Sequence[str] = (),
        pictures: Sequence[Sequence[EvidenceNode]] = (),
        *,
        schema: Mapping[str, Any] | None = None,
    ) -> list[Outcome]:
        """Fill a prompt with each of the data, ask concurrently, and record the replies."""
        prompt = self.prompts[f"evidence_{name}"]
        questions = [
            AgentQuestion(
                prompt.fill(question=self.question, data=fenced(lines)),
                [node.file for node in (pictures[n] if pictures else ()) if node.file],
                schema,
                needs_pictures=bool(pictures),
            )
            for n, lines in enumerate(data)
        ]
        outcomes = ask_all(self.mllm, questions)
        for outcome, subject in zip(outcomes, about or [self.question], strict=bool(about)):
            note = outcome.note(shortened(outcome.text, _LONGEST_SAID))
            self.record(name.replace("_", " "), shortened(subject, _LONGEST_SAID), note)
        return outcomes


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, (" ".join(text.split()) for text in texts))))


def _checked_facts(
    reply: Mapping[str, Any], pattern: PatternGraph, text: str, chunk: int
) -> EvidenceGraph:
    """Return the facts of a reply that fit pattern and text of a chunk (definition 4)."""
    types = {name_key(kind): kind for kind in pattern.types}
    nodes = []
    for fact in reply.get("entities", ()):
        name, type_ = _line(fact, "name"), types.get(name_key(_line(fact, "type")))
        if type_ and is_named(name, text):
            described = _line(fact, "description")
            nodes.append(EvidenceNode(text_id(name), name, type_, "text", described, (chunk,)))
    relations = {name_key(word): word for _, word, _ in pattern.relations}
    edges = []
    for fact in reply.get("relations", ()):
        ends = text_id(_line(fact, "source")), text_id(_line(fact, "target"))
        word = relations.get(name_key(_line(fact, "relation")))
        if word and ends[0] != ends[1]:
            edges.append(EvidenceEdge(ends[0], word, ends[1], _line(fact, "description"), chunk))
    return EvidenceGraph().joined(nodes, edges)


def _line(fact: Mapping[str, Any], name: str) -> str:
    return " ".join(str(fact.get(name, "")).split())
