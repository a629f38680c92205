"""Agents without a model: where they start, what they walk to, and what counts as evidence."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ku_rag import KnowledgeBase, Relation, Unit
from ku_rag.graph.embedded_agents import search_without_model, select_topic
from ku_rag.graph.model import Graph
from ku_rag.graph.scoring import WEIGHTS, QueryTerms, features, score
from ku_rag.graph.search_types import Query, SearchLimits
from ku_rag.graph.traversal import best_paths, look_ahead


def unit(identity, kind, *relations, **fields):
    name = identity.rpartition(">")[2]
    return Unit(
        name,
        id=identity,
        kind=kind,
        relations=tuple(Relation(relation, target) for relation, target in relations),
        metadata={"topic": True} if ">" not in identity else {},
        **fields,
    )


MACHINES = [
    unit("Loom", "machine", ("has", "Loom>Idle"), ("has", "Loom>Weaving"), ("pair", "Red Loom")),
    unit("Loom>Idle", "state", ("action", "Loom>Idle>Oil Drip")),
    unit(
        "Loom>Weaving",
        "state",
        ("action", "Loom>Weaving>Shuttle Throw"),
        ("action", "Loom>Weaving>Thread Cut"),
    ),
    unit("Loom>Idle>Oil Drip", "action"),
    unit("Loom>Weaving>Shuttle Throw", "action", ("continues", "Loom>Weaving>Shuttle Throw>Beat")),
    unit("Loom>Weaving>Shuttle Throw>Beat", "action"),
    unit("Loom>Weaving>Thread Cut", "action", ("continues", "Loom>Weaving>Thread Cut>Knot")),
    unit("Loom>Weaving>Thread Cut>Knot", "action"),
    unit("Red Loom", "machine", ("action", "Red Loom>Steam Burst"), aliases=("Old Rosie",)),
    unit("Red Loom>Steam Burst", "action"),
]


@pytest.fixture
def graph(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(MACHINES)
        yield Graph(kb._database.connection, kb._layout)


def search(graph, query, most=5):
    return search_without_model(graph, query, SearchLimits(max_paths=most))


def ends(found):
    return [path.end.unit for path in found.paths]


@pytest.mark.parametrize(
    ("question", "hints", "expected"),
    [
        ("What does the Loom do?", "", "Loom"),
        ("How do the Loom and Red Loom differ?", "Red Loom is hot", "Red Loom"),
        ("Is Red Loom like the Loom?", "", "Red Loom"),
        ("What is old rosie doing?", "", "Red Loom"),
        ("What is it doing?", "The Loom is weaving", "Loom"),
        ("Who throws the shuttle?", "", None),
    ],
)
def test_the_topic_is_what_is_named_most(graph, question, hints, expected):
    found = select_topic(graph, Query(question, hints=hints))
    assert (found.unit if found else None) == expected


def test_the_topic_comes_from_the_picture_where_none_is_named(graph):
    [loom], [drip] = graph.find("Loom"), graph.find("Oil Drip")
    shown = []

    def sight(pictures):
        shown.append(pictures)
        return [drip, loom]

    picture = object()
    assert select_topic(graph, Query("What is it?", (picture,)), sight) == loom
    assert select_topic(graph, Query("What is Red Loom?", (picture,)), sight).unit == "Red Loom"
    assert select_topic(graph, Query("What is it?"), sight) is None
    assert shown == [(picture,)]


def test_a_question_of_nothing_in_the_graph_is_one_about_the_topic(graph):
    found = search(graph, Query("What is the nickname of the Loom?"))
    assert [path.text for path in found.paths] == ["Loom"]
    assert found.stopped == "the topic entity is enough by itself"


def test_a_state_that_is_hinted_at_is_walked_through(graph):
    found = search(graph, Query("Which action does the Loom perform?", hints="Loom is idle."))
    assert found.paths[0].end.unit == "Loom>Idle>Oil Drip"
    found = search(graph, Query("Which action does the Loom perform?", hints="Loom is weaving."))
    assert set(ends(found)[:2]) == {"Loom>Weaving>Shuttle Throw", "Loom>Weaving>Thread Cut"}


def test_what_is_seen_chooses_among_what_could_be(graph):
    query = Query("Which action is this, Loom?", perception="A shuttle is thrown to the left.")
    assert ends(search(graph, query, most=1)) == ["Loom>Weaving>Shuttle Throw"]


def test_what_follows_is_one_step_further(graph):
    query = Query("Which action does the Loom continue with next, after Thread Cut?")
    assert ends(search(graph, query, most=1)) == ["Loom>Weaving>Thread Cut>Knot"]


def test_no_path_that_is_enough_is_a_piece_of_another(graph):
    for text in ("Which action next, Loom?", "Which action is like that of the Loom?"):
        rows = [tuple(s.row for s in path.steps) for path in search(graph, Query(text)).paths]
        assert len(rows) > 1
        for one in rows:
            assert not any(one != other and other[: len(one)] == one for other in rows)


def test_as_many_paths_as_are_wanted_at_most(graph):
    assert len(search(graph, Query("Which action, Loom?"), most=2).paths) == 2


def test_paths_are_no_longer_than_the_rounds(graph):
    query = Query("Which action does the Loom perform?", hints="Loom is weaving.")
    for rounds in range(4):
        found = search_without_model(graph, query, SearchLimits(max_rounds=rounds))
        assert max(len(path.steps) for path in found.paths) <= rounds


def test_looking_ahead_neither_comes_back_nor_goes_on_for_ever(tmp_path):
    around = [unit(str(n), "stop", ("to", str((n + 1) % 4)), ("to", str(n))) for n in range(4)]
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(around)
        graph = Graph(kb._database.connection, kb._layout)
        [start] = graph.find("0")
        paths = look_ahead(graph, start, frozenset({"to"}), longest=9, most=100)
    assert ["".join(e.name for e in path.entities) for path in paths] == ["0", "01", "012", "0123"]


def test_likelihoods_are_those_of_a_softmax(graph):
    [loom] = graph.find("Loom")
    query = Query("Which action?", hints="weaving", perception="a knot")
    terms = QueryTerms.of(query, loom)
    paths = look_ahead(graph, loom, terms.wanted, longest=4, most=100)
    columns = features(terms, paths, {})
    assert columns.shape == (len(paths), len(WEIGHTS))
    likely = score(terms, paths)
    powers = np.exp(columns @ np.array(list(WEIGHTS.values())))
    np.testing.assert_allclose(likely, powers / powers.sum(), rtol=1e-9)
    assert score(terms, []).shape == (0,)


def test_captions_count_as_what_the_end_shows(tmp_path):
    units = [
        unit("Loom", "machine", ("action", "Loom>A"), ("action", "Loom>B")),
        Unit("A", id="Loom>A", kind="action", metadata={"caption": "A lever is pulled."}),
        Unit("B", id="Loom>B", kind="action", metadata={"caption": "Dust settles quietly."}),
    ]
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(units)
        graph = Graph(kb._database.connection, kb._layout)
        query = Query("Which action of the Loom is this?", perception="Dust settles everywhere.")
        assert search(graph, query).paths[0].end.name == "B"


def value(graph, start, text, name, **said):
    """What a feature says of the path of this text."""
    query = Query(**({"question": "x"} | said))
    terms = QueryTerms.of(query, graph.find(start)[0])
    paths = look_ahead(graph, terms.topic, terms.wanted, longest=2, most=100)
    [n] = [n for n, path in enumerate(paths) if path.text == text]
    columns = features(terms, paths, {})
    return columns[n][list(WEIGHTS).index(name)]


def test_topics_are_told_apart_by_kind_alone(graph):
    assert value(graph, "Loom", "Loom —pair→ Red Loom —action→ Steam Burst", "crossing") == 1
    assert value(graph, "Loom", "Loom —has→ Idle", "crossing") == 0
    [loom] = graph.find("Loom")
    terms = QueryTerms.of(Query("Which machine, Loom, weaves threads?"), loom)
    assert terms.question == {"weav", "thread"}


@pytest.fixture
def places(tmp_path):
    """Places alone: what all are tells none apart."""
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name, word, other in (("Aaa", "near", "Bbb"), ("Bbb", "leads to", "Ccc")):
            kb.add(Unit(name, id=name, kind="place", relations=(Relation(word, other),)))
        kb.add(Unit("Ccc", id="Ccc", kind="place"))
        yield Graph(kb._database.connection, kb._layout)


def test_a_kind_that_all_are_of_crosses_nothing(places):
    assert value(places, "Aaa", "Aaa —near→ Bbb", "crossing") == 0
    assert value(places, "Aaa", "Aaa —near→ Bbb —leads to→ Ccc", "onward") == 1


def test_a_relation_of_small_words_is_asked_for(places):
    assert search(places, Query("What is near Aaa?")).paths[0].text == "Aaa —near→ Bbb"


def test_a_topic_that_is_not_named_leads_to_what_is(graph):
    found = search(graph, Query("What happens after the Thread Cut?"))
    assert found.topic.name == "Loom"
    assert search(graph, Query("Who throws it?")).topic is None


def test_what_follows_is_not_what_is_named(tmp_path):
    bite = Relation("continues", "Bite", target_kind="attack")
    attacks = (("attack of", f"Rathian>{name}") for name in ("Triple Rush", "Fireball"))
    moves = [
        unit("Rathian", "monster", *attacks),
        unit("Rathian>Fireball", "attack"),
        Unit("Triple Rush", id="Rathian>Triple Rush", kind="attack", relations=(bite,)),
    ]
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add_many(moves)
        graph = Graph(kb._database.connection, kb._layout)
        for text in ("Which attack of Rathian follows Triple Rush?", "What follows Triple Rush?"):
            found = search(graph, Query(text))
            assert found.paths[0].text == "Rathian —attack of→ Triple Rush —continues→ Bite"


COUNTRIES = {"France": ["Germany", "Switzerland"], "Germany": ["France"], "Switzerland": ["France"]}
MONEY = {"France": "Euro", "Germany": "Euro", "Switzerland": "Swiss Franc"}


@pytest.fixture
def borders(tmp_path):
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        for name, beside in COUNTRIES.items():
            said = [Relation("borders", other) for other in beside]
            said += [Relation("currency", MONEY[name], target_kind="currency")]
            said += [Relation("continent", "Europe", target_kind="continent")]
            kb.add(Unit(name, id=name.lower(), kind="country", relations=tuple(said)))
        yield Graph(kb._database.connection, kb._layout)


def test_evidence_joins_what_the_question_names(borders):
    query = "Which neighbours of this country use the euro?"
    found = best_paths(borders, borders.find("France"), query, k=5)
    texts = [path.text for path in found]
    assert "France —borders→ Germany —currency→ Euro" in texts[:2]
    assert all("Europe" not in text for text in texts)


def test_nothing_is_evidence_for_a_question_of_something_else(borders):
    query = "How many people fit into the stadium?"
    assert best_paths(borders, borders.find("France"), query, k=5) == []
    assert best_paths(borders, [], query, k=5) == []


def test_evidence_is_of_every_start_and_no_more_than_wanted(borders):
    starts = [*borders.find("France"), *borders.find("Germany")]
    query = "Which currency is used?"
    found = best_paths(borders, starts, query, k=3, longest=1)
    assert {path.start.name for path in found} == {"France", "Germany"}
    assert len(best_paths(borders, starts, query, k=1)) == 1


def test_a_star_is_looked_at_in_part(tmp_path):
    wide = tuple(Relation("holds", f"item {n}", target_kind="item") for n in range(20_000))
    with KnowledgeBase.open(tmp_path / "kb", create=True) as kb:
        kb.add(Unit("Hub", id="hub", kind="store", relations=wide))
        graph = Graph(kb._database.connection, kb._layout)
        started = time.process_time()
        found = best_paths(graph, graph.find("Hub"), "item 7?", k=3)
        assert time.process_time() - started < 1
    assert found[0].end.name == "item 7"
    assert len(found) == 3
