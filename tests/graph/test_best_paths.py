"""Paths as evidence for a query."""

from __future__ import annotations

import time

import pytest

from ku_rag import KnowledgeBase, Relation, Unit
from ku_rag.graph.model import Graph
from ku_rag.graph.traversal import best_paths

COUNTRIES = {"France": ["Germany", "Switzerland"], "Germany": ["France"], "Switzerland": ["France"]}
MONEY = {"France": "Euro", "Germany": "Euro", "Switzerland": "Swiss Franc"}


@pytest.fixture
def borders(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name, beside in COUNTRIES.items():
            relations = [Relation("borders", neighbour) for neighbour in beside]
            relations += [Relation("currency", MONEY[name], target_kind="currency")]
            relations += [Relation("continent", "Europe", target_kind="continent")]
            kb.add(Unit(name, id=name.lower(), kind="country", relations=tuple(relations)))
        yield Graph(kb._database.connection, kb._layout)


def test_evidence_joins_what_the_question_names(borders):
    query = "Which neighbours of this country use the euro?"
    paths = best_paths(borders, borders.find("France"), query, k=5)
    texts = [path.text for path in paths]
    assert "France —borders→ Germany —currency→ Euro" in texts[:2]
    assert all("Europe" not in text for text in texts)


def test_nothing_is_evidence_for_a_question_of_something_else(borders):
    query = "How many people fit into the stadium?"
    assert best_paths(borders, borders.find("France"), query, k=5) == []
    assert best_paths(borders, [], query, k=5) == []


def test_evidence_is_of_every_start_and_no_more_than_wanted(borders):
    starts = [*borders.find("France"), *borders.find("Germany")]
    query = "Which currency is used?"
    paths = best_paths(borders, starts, query, k=3, longest=1)
    assert {path.start.name for path in paths} == {"France", "Germany"}
    assert len(best_paths(borders, starts, query, k=1)) == 1


def test_a_star_is_looked_at_in_part(tmp_path):
    wide = tuple(Relation("holds", f"item {n}", target_kind="item") for n in range(20_000))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Hub", id="hub", kind="store", relations=wide))
        graph = Graph(kb._database.connection, kb._layout)
        started = time.process_time()
        paths = best_paths(graph, graph.find("Hub"), "item 7?", k=3)
        assert time.process_time() - started < 1
    assert paths[0].end.name == "item 7"
    assert len(paths) == 3
