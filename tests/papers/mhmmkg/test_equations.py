"""Independent implementation of equations 5 to 10 of MH-MMKG, on graphs with branches and loops."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

import pytest

from ku_rag import KnowledgeBase, ScriptedMLLM, Unit
from ku_rag.types import Relation
from tests.papers.transcripts import keys_of

GRAPHS, ENTITIES = 40, 8
QUESTION = "Which attack follows?"


@dataclass(frozen=True)
class PlainGraph:
    """Entities are names; `useful` are the edges that W selects, U is true of `sufficient`."""

    root: str
    edges: frozenset
    useful: frozenset
    sufficient: frozenset


def draw_graph(number):
    random = Random(number)
    names = [f"G{number} N{n}" for n in range(ENTITIES)]
    pairs = [(a, b) for a in names for b in names]
    edges = [pair for pair in pairs if random.random() < 0.35]
    useful = [pair for pair in edges if random.random() < 0.8]
    sufficient = [name for name in names[1:] if random.random() < 0.2]
    return PlainGraph(names[0], frozenset(edges), frozenset(useful), frozenset(sufficient))


DRAWN = [draw_graph(number) for number in range(GRAPHS)]


def published_search(graph):
    """K_T = (E, V), the open sets O_0, O_1 …, and the entities with o(e) = Yes."""
    entities, relations, enough = {graph.root}, set(), set()
    opened, rounds = {graph.root}, []
    while opened:  # until O_t = ∅
        rounds.append(opened)
        neighbours = {e: {b for a, b in graph.useful if a == e} for e in opened}  # eq. 5
        grown = entities | {b for e in opened for b in neighbours[e]}  # eq. 6
        relations = relations | {(e, b) for e in opened for b in neighbours[e]}  # eq. 7
        added = grown - entities  # eq. 9
        enough |= added & graph.sufficient  # eq. 8
        opened, entities = added - enough, grown
    return entities, relations, rounds, enough  # eq. 10


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn") / "kb"
    with KnowledgeBase.open(folder, create=True) as kb:
        for graph in DRAWN:
            kb.add(Unit(graph.root, id=graph.root, metadata={"topic": True}))
            heads = {a for a, _ in graph.edges}
            tails = {head: sorted(b for a, b in graph.edges if a == head) for head in heads}
            kb.add_many(
                Unit(head, id=head, relations=[Relation("leads to", b) for b in tails[head]])
                for head in sorted(heads)
            )
    return folder


def end_of(path):
    return path.rpartition("→ ")[2]


def agents_of(graph):
    def reply(request):
        text = request.messages[-1].text
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        keys, ends = keys_of(request), [end_of(line["path"]) for line in lines if "path" in line]
        if keys == "text":
            return "Bite"
        (end,) = ends
        if "enough" in keys:
            return {"reason": "", "enough": end in graph.sufficient}
        names = [line["neighbour"] for line in lines if "neighbour" in line]
        return {"reason": "", "useful": [name for name in names if (end, name) in graph.useful]}

    return ScriptedMLLM(reply)


def search(folder, graph, **options):
    with KnowledgeBase.open(folder, read_only=True, mllm=agents_of(graph)) as kb:
        limits = {"most": 100, "rounds": 20}
        return kb.graph.search(QUESTION, topic=graph.root, **limits, **options).search


def ends_by_round(result, agent):
    rounds = {}
    for entry in result.trace:
        if entry.agent == agent:
            rounds.setdefault(entry.round, []).append(end_of(entry.about))
    return rounds


@pytest.mark.parametrize("graph", DRAWN, ids=lambda graph: graph.root)
def test_the_sub_graph_is_that_of_the_equations(drawn, graph):
    entities, relations, rounds, enough = published_search(graph)
    for depth_first in (False, True):
        result = search(drawn, graph, depth_first=depth_first)
        assert {entity.name for entity in result.entities} == entities
        assert {(step.head.name, step.tail.name) for step in result.steps} == relations
        assert {path.end.name for path in result.paths} == enough
        assert result.stopped.startswith("nothing was left to open")
        expanded = ends_by_round(result, "expansion")
        every = [end for ends in expanded.values() for end in ends]
        assert sorted(every) == sorted(end for opened in rounds for end in opened)
        if not depth_first:
            assert {n: {*ends} for n, ends in expanded.items()} == dict(enumerate(rounds, 1))


@pytest.mark.parametrize("graph", DRAWN, ids=lambda graph: graph.root)
def test_the_new_entities_of_a_round_are_validated_in_it(drawn, graph):
    """Eq. 8; beside them the ends of loops, which the paper does not open and we validate."""
    entities, _, rounds, enough = published_search(graph)
    validated = ends_by_round(search(drawn, graph), "validation")
    assert validated.pop(0) == [graph.root]
    reached = {graph.root}
    for number, opened in enumerate(rounds, 1):
        ends = {b for a, b in graph.useful if a in opened}
        assert {*validated.get(number, ())} == ends
        added = ends - reached
        assert added - enough == (rounds[number] if number < len(rounds) else set())
        reached |= ends
    assert reached == entities


def test_the_graphs_have_branches_and_loops():
    loops = branches = 0
    for graph in DRAWN:
        entities, relations, rounds, _ = published_search(graph)
        branches += any(len(opened) > 1 for opened in rounds)
        loops += len(relations) >= len(entities)  # a tree has one less
    assert min(branches, loops) > GRAPHS / 2
